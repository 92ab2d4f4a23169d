"""Milliseconds that a store takes for a trial: `python benchmarks/store.py`, writes benchmarks/results/store-cpu.json.

Trials as a study of small networks has them: ten hyperparameters, ten attributes, a curve of five evaluations. They are
begun and ended in lots of 33, by `rnnlab/tuning/optuna_tables.py`, and one by one by Optuna's own storage; in a new
SQLite file, and in one that holds thousands of trials of other arms. Times of one run, the sides in turn; compare
ratios.
"""

import json
import platform
import statistics
import tempfile
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import optuna
from optuna.distributions import FloatDistribution
from optuna.study import StudyDirection
from optuna.trial import TrialState, create_trial

from rnnlab.tuning.optuna_tables import add_trials, end_trials, read_rows
from rnnlab.tuning.store import Store

ROOT = Path(__file__).parents[1]
LOT, ROUNDS, FILLED = 33, 5, 6600
RATE = FloatDistribution(1e-5, 1.0, log=True)
BEGUN = create_trial(
    state=TrialState.RUNNING,
    params={f"hyperparameter {number}": 0.01 for number in range(10)},
    distributions={f"hyperparameter {number}": RATE for number in range(10)},
    user_attrs={f"known {number}": {"number": number} for number in range(5)} | {"number": 0},
)
ENDED = create_trial(
    state=TrialState.COMPLETE,
    value=0.5,
    user_attrs={f"found {number}": [0.1] * 20 for number in range(4)},
    intermediate_values={1000 * number: 0.5 for number in range(5)},
)


def ours(store: Store, study: int) -> None:
    """A lot in two transactions."""
    with store.session() as session:
        add_trials(session, study, [BEGUN] * LOT)
    with store.session() as session:
        rows = read_rows(session, study, "number")
        end_trials(session, {row.trial_id: ENDED for row in rows if row.state == TrialState.RUNNING})


def optunas(store: Store, study: int) -> None:
    """The same, through Optuna's storage."""
    names = [store.optuna.create_new_trial(study, BEGUN) for _ in range(LOT)]
    for name in names:
        for key, value in ENDED.user_attrs.items():
            store.optuna.set_trial_user_attr(name, key, value)
        for step, value in ENDED.intermediate_values.items():
            store.optuna.set_trial_intermediate_value(name, step, value)
        store.optuna.set_trial_state_values(name, ENDED.state, [0.5])


def milliseconds(store: Store, write: Callable[[Store, int], None]) -> float:
    """Of a trial of a new arm."""
    study = store.optuna.create_new_study([StudyDirection.MINIMIZE])
    started = time.perf_counter()
    write(store, study)
    return 1e3 * (time.perf_counter() - started) / LOT


def row(place: Path, num_trials: int) -> dict[str, float]:
    """Both sides, in a store that holds so many trials."""
    store = Store(place)
    for _ in range(num_trials // LOT):
        milliseconds(store, ours)
    milliseconds(store, optunas)  # SQLAlchemy remembers what it has written once
    turns = [(milliseconds(store, ours), milliseconds(store, optunas)) for _ in range(ROUNDS)]
    mine, theirs = (statistics.median(side) for side in zip(*turns, strict=True))
    return {"trials_before": num_trials, "ms": mine, "optuna_ms": theirs, "times_faster": theirs / mine}


def main() -> None:
    """Measure, print, write."""
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    with tempfile.TemporaryDirectory() as folder:
        rows = [row(Path(folder) / f"{count}.db", count) for count in (0, FILLED)]
    versions = {name: version(name) for name in ("optuna", "sqlalchemy")} | {"python": platform.python_version()}
    found = {"versions": versions, "what": "milliseconds a trial, begun and ended", "rows": rows}
    text = json.dumps(found, indent=2)
    print(text)
    (ROOT / "benchmarks" / "results" / "store-cpu.json").write_text(text + "\n")


if __name__ == "__main__":
    main()
