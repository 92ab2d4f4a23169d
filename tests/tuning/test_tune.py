"""`tune`: a study of one arm, from arguments to a result (issue 7, 1-5)."""

import os
import random
import re
import signal
import subprocess
import sys
import textwrap
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rnnlab import Hyperparameters, TuningError, architecture, load_record, named_graph, task
from rnnlab.tuning.dimensions import Integer
from rnnlab.tuning.events import LotHandedBack, TrialEnded, TuningEvent
from rnnlab.tuning.space import SearchSpace
from rnnlab.tuning.spaces import collins_space, named_space
from rnnlab.tuning.store import Store
from rnnlab.tuning.trials import Trial
from rnnlab.tuning.tune import Tuning, _num_trials, best_trial, tune
from tests.patience import PATIENCE
from tests.tuning.small_studies import STUDY, adding, assert_same_trials, small_space

SHORT = Hyperparameters(num_steps=20, evaluate_every=10, batch_size=4)


def tuned(place: Path, space: Any = None, **values: Any) -> Tuning:
    network = architecture("gru", input_size=2, output_size=1, units=4)
    given: dict[str, Any] = {"trials": 8, "sampler": "random", "hyperparameters": SHORT, "population": 4, "name": STUDY}
    return tune(network, adding(), space or small_space(), store=place, **(given | values))


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "rnnlab.db"


def test_tuning_gives_its_trials_and_the_best_of_them(place: Path) -> None:
    tuning = tuned(place)
    assert tuning.is_complete
    assert [trial.number for trial in tuning.trials] == list(range(8))
    values = [trial.value for trial in tuning.trials if trial.value is not None]
    assert tuning.best is not None
    assert tuning.best.value == min(values) < max(values)
    lines = str(tuning).splitlines()
    assert lines[0].startswith(f"study {STUDY} in {place}: ")
    assert lines[0].endswith(" of 8")
    assert lines[1] == (
        f"best: trial {tuning.best.number}, mse {tuning.best.value:.6g} on validation, "
        f"{tuning.best.scores['test']['mse']:.6g} on test"
    )
    assert f"  optimiser={tuning.best.point['optimiser']}" in lines
    assert tuning.rows[3]["number"] == 3


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"architecture": "lstm"}, "tune takes an object for its architecture: architecture('lstm', ...) makes one"),
        ({"architecture": named_graph("td")}, "tune takes an architecture, got <CyclicGraph: "),
        ({"task": "adding"}, "tune takes an object for its task: task('adding', ...) makes one"),
        ({"task": 3}, "tune takes a task, or a table of its name and arguments, got 3"),
        ({"space": {"l2": {}}}, "tune takes a SearchSpace or the name of one, got {'l2': {}}: SearchSpace.from_json("),
        ({"hyperparameters": "l2"}, "tune takes Hyperparameters, or some of them by name, got 'l2'"),
    ],
)
def test_names_and_tables_in_place_of_objects_are_refused(values: dict[str, Any], message: str, place: Path) -> None:
    network = architecture("gru", input_size=2, output_size=1, units=4)
    with pytest.raises(TuningError, match=f"^{re.escape(message)}"):
        tune(**({"architecture": network, "task": adding(), "space": small_space()} | values), store=place)
    assert not place.exists()


def test_best_follows_the_direction_and_leaves_out_the_infeasible() -> None:
    def made(number: int, value: float | None) -> Trial:
        nothing = dict.fromkeys(("outcome", "reason", "num_steps", "best_step", "wall_seconds", "population"))
        same: dict[str, Any] = {"hyperparameters": SHORT, "arguments": {}, "seed": 0, "num_parameters": 1, "run": {}}
        return Trial(arm="a", number=number, state="", value=value, point={}, scores={}, curve={}, **same, **nothing)

    trials = [made(0, 2.0), made(1, None), made(2, 1.0), made(3, 1.0), made(4, 3.0)]
    assert best_trial(trials, is_maximised=False) == trials[2]
    assert best_trial(trials, is_maximised=True) == trials[4]
    assert best_trial(trials[1:2], is_maximised=True) is None
    assert best_trial([], is_maximised=False) is None


def test_called_again_it_gives_the_same_and_with_more_trials_adds_some(place: Path) -> None:
    first = tuned(place)
    events: list[TuningEvent] = []
    assert tuned(place, report=events.append) == first
    assert not any(isinstance(event, TrialEnded) for event in events)
    more = tuned(place, trials=12)
    assert_same_trials(list(more.trials[:8]), list(first.trials))
    assert [trial.number for trial in more.trials] == list(range(12))
    assert load_record(STUDY, place).arms[0].trials == tuple(more.trials)


def test_stopped_again_and_again_it_ends_as_if_nothing_had_happened(tmp_path: Path) -> None:
    """With one worker, suggestions that learn from results are the same too."""
    whole = tuned(tmp_path / "whole.db", sampler="gp", trials=16)
    chance, events = random.Random(1), list[TuningEvent]()
    for _ in range(100):
        left = iter(range(chance.randrange(3, 20)))
        tuning = tuned(
            tmp_path / "stopped.db",
            sampler="gp",
            trials=16,
            stop=lambda left=left: next(left, None) is None,
            report=events.append,
        )
        if tuning.is_complete:
            break
    assert tuning.is_complete
    assert sum(isinstance(event, LotHandedBack) for event in events) > 2
    assert_same_trials(list(tuning.trials), list(whole.trials))


def test_unfinished_study_says_what_there_is(place: Path) -> None:
    left = iter(range(3))
    tuning = tuned(place, stop=lambda: next(left, None) is None)
    assert not tuning.is_complete
    assert str(tuning) == f"study {STUDY} in {place}: 4 running of 8"
    assert tuning.best is None


def test_space_is_collins_where_nobody_says_otherwise(place: Path) -> None:
    """C21-C34; without a range of steps those of the hyperparameters are used."""
    network = architecture("irnn", input_size=2, output_size=1, units=3)
    short = Hyperparameters(num_steps=2, evaluate_every=1, batch_size=2)
    tuning = tune(network, adding(), trials=3, sampler="random", hyperparameters=short, store=place)
    assert tuning.arm.space == collins_space("irnn")
    assert {trial.hyperparameters.initialisation.square for trial in tuning.trials} == {"identity"}
    assert {trial.hyperparameters.num_steps for trial in tuning.trials} == {2}


def test_members_of_a_population_may_have_different_numbers_of_steps(place: Path) -> None:
    """C28: with what is fixed in the paper's space."""
    network = architecture("irnn", input_size=2, output_size=1, units=3)
    short = Hyperparameters(evaluate_every=10, batch_size=2)
    collins = named_space("collins", network, adding())
    longer = replace(collins, space=collins.space + SearchSpace([Integer("num_steps", 1, 20, "log")]))
    tuning = tune(network, adding(), longer, trials=6, sampler="random", hyperparameters=short, store=place)
    finished = [trial for trial in tuning.trials if trial.outcome == "finished"]
    assert len({trial.num_steps for trial in finished}) > 2
    assert all(trial.num_steps == trial.point["num_steps"] for trial in finished)
    assert {trial.hyperparameters.initialisation.square for trial in tuning.trials} == {"identity"}


def test_a_grid_that_is_small_needs_no_number_of_trials(place: Path) -> None:
    assert len(tuned(place, "zhang", trials=None, sampler="grid").trials) == 4
    wide = SearchSpace([Integer("truncation", 1, 1000)])
    assert _num_trials(wide, "grid", {"num_per_dimension": 1000}) == _num_trials(wide, "random", {}) == 100


def test_what_is_given_is_neither_tuned_nor_what_a_paper_fixes(place: Path) -> None:
    given = {"num_steps": 20, "evaluate_every": 10, "batch_size": 4, "optimiser": "sgd", "learning_rate": 1e-3}
    arm = tuned(place, "collins", hyperparameters=given, stop=lambda: True).arm
    assert not {"optimiser", "learning_rate", "momentum"} & set(arm.space.names)
    assert arm.hyperparameters.optimiser == "sgd"
    arm = tuned(place, "zhang", name="b", hyperparameters=Hyperparameters(optimiser="sgd"), stop=lambda: True).arm
    assert (arm.hyperparameters.optimiser, arm.hyperparameters.batch_size) == ("sgd", 50)
    with pytest.raises(TuningError, match="learning_rate are given, so nothing is left to tune"):
        tuned(place, "zhang", hyperparameters=given)
    with pytest.raises(TuningError, match="hyperparameter optimiser is both given and tuned: take it out of the space"):
        tuned(place, hyperparameters=given)
    for seeded in ({"seed": 5}, Hyperparameters(seed=5)):
        with pytest.raises(TuningError, match="seed is not a hyperparameter of a study: use --seed"):
            tuned(place, hyperparameters=seeded)


@pytest.mark.parametrize("as_table", [False, True])
def test_arguments_given_to_a_task_are_not_tuned(place: Path, as_table: bool) -> None:
    """As a table an argument is given also where it is what it would be anyway."""
    table = {"name": "arithmetic", "compute_steps": 2}
    problem = task(**table)
    sizes = {"input_size": problem.input_size, "output_size": problem.output_size, "encoding": problem.encoding}
    network = architecture("gru", units=4, **sizes)
    arm = tune(network, table if as_table else problem, store=place, trials=2, stop=lambda: True).arm
    assert arm.task == problem
    assert "task.compute_steps" not in arm.space.names
    default = {"name": "arithmetic", "compute_steps": task("arithmetic").compute_steps}
    arm = tune(network, default if as_table else task(**default), store=place, trials=2, stop=lambda: True).arm
    assert ("task.compute_steps" in arm.space.names) != as_table
    with pytest.raises(TuningError, match=r"argument task\.compute_steps is both given and tuned"):
        tune(network, table, SearchSpace([Integer("task.compute_steps", 1, 3)]), store=place)


def test_zhangs_grid_by_name(place: Path) -> None:
    """Z49, Z51."""
    network = architecture("lstm", input_size=2, output_size=1, units=2)
    short = Hyperparameters(num_steps=1, evaluate_every=1)
    given: dict[str, Any] = {"sampler": "grid", "hyperparameters": short, "store": place, "population": 28}
    tuning = tune(network, adding(), "zhang", trials=28, **given)
    points = {(trial.point["learning_rate"], trial.point["gate_bias"]) for trial in tuning.trials}
    assert len(points) == 28
    assert {trial.hyperparameters.batch_size for trial in tuning.trials} == {50}


def test_name_is_made_from_what_decides_the_result(place: Path) -> None:
    one = tuned(place, name=None, trials=1)
    assert one.name.startswith("adding-")
    assert tuned(place, name=None, trials=2).name == one.name
    assert tuned(place, name=None, trials=1, seed=5).name != one.name
    assert tuned(place, name=None, trials=1, hyperparameters=SHORT.changed(l2=0.1)).name != one.name
    store = Store(place)
    assert len(store.study_names()) == 3
    store.close()


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"trials": 0}, "num_trials must be an integer of at least 1, got 0"),
        ({"sampler": "gpp"}, "no sampler is named 'gpp'; did you mean 'gp'"),
        ({"space": "colins"}, "no search space is named 'colins'"),
        ({"precision": "float16"}, "precision is one of float32, tf32, bf16, got 'float16'"),
        ({"path": "cuda"}, "path is one of auto, cpu"),
        ({"name": "a/b"}, "the name of a study is a text without slashes"),
        ({"name": "a.json"}, r"or end like a file, or commands misread it: 'a\.json'"),
        ({"name": "a.json.gz"}, "the name of a study may not begin with - or end like a file"),
        ({"name": "a.toml"}, "the name of a study may not begin with - or end like a file"),
        ({"name": "-a"}, "the name of a study may not begin with -"),
        ({"population": 0}, "population must be an integer of at least 1"),
        ({"store": "nowhere/rnnlab.db"}, "there is no folder"),
    ],
)
def test_bad_input_is_one_clear_error(values: dict[str, Any], words: str, place: Path) -> None:
    with pytest.raises(TuningError, match=words) as raised:
        tuned(values.pop("store", place), **values)
    assert "\n" not in str(raised.value)


PROGRAM = """
    import sys
    from tests.tuning.test_tune import tuned
    print(tuned(sys.argv[1], sampler="tpe", trials=12, grace=0.5, save_every=3, stop=lambda: time.sleep(0.01)))
"""


def start(place: Path) -> subprocess.Popen[str]:
    code = "import time" + textwrap.dedent(PROGRAM)
    command = [sys.executable, "-c", code, str(place)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)


def test_killed_program_goes_on_when_it_is_started_again(tmp_path: Path) -> None:
    seed = random.randrange(10**6)
    print("seed of the moments:", seed)
    place = tmp_path / "rnnlab.db"
    process = start(place)
    while not place.exists() and process.poll() is None:
        time.sleep(0.02)
    time.sleep(random.Random(seed).uniform(0.3, 1.5))
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    process = start(place)
    out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, err
    assert out.startswith(f"study {STUDY} in {place}: ")
    whole = tuned(tmp_path / "whole.db", sampler="tpe", trials=12)
    assert_same_trials(list(load_record(STUDY, place).arms[0].trials), list(whole.trials))
