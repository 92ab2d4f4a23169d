"""Trials that are written many at a time are the rows that Optuna's own storage writes one by one (issue 7, 1)."""

import math
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import optuna
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, TrialState, create_trial

from rnnlab.tuning.optuna_tables import add_trials, end_trials, read_rows
from rnnlab.tuning.store import Store

DISTRIBUTIONS: dict[str, Any] = {
    "rate": FloatDistribution(1e-4, 1.0, log=True),
    "width": IntDistribution(2, 64, log=True),
    "optimiser": CategoricalDistribution(["sgd", "adam", None]),
}
SCORES = st.floats(allow_nan=False, width=64)
ATTRIBUTES = st.dictionaries(st.text("abc ä", min_size=1), st.none() | st.integers() | st.lists(st.text()), max_size=3)


@st.composite
def templates(draw: st.DrawFn) -> FrozenTrial:
    points = {
        "rate": draw(st.floats(1e-4, 1.0)),
        "width": draw(st.integers(2, 64)),
        "optimiser": draw(st.sampled_from(["sgd", "adam", None])),
    }
    names = draw(st.lists(st.sampled_from(sorted(points)), unique=True))
    return create_trial(
        state=TrialState.RUNNING,
        params={name: points[name] for name in names},
        distributions={name: DISTRIBUTIONS[name] for name in names},
        user_attrs=draw(ATTRIBUTES) | {"number": draw(st.integers(0, 9))},
    )


@st.composite
def ends(draw: st.DrawFn) -> FrozenTrial:
    value = draw(st.none() | SCORES)
    steps = st.dictionaries(st.integers(0, 10**6), SCORES | st.just(math.nan), max_size=4)
    return create_trial(
        state=TrialState.PRUNED if value is None else TrialState.COMPLETE,
        value=value,
        user_attrs={f"end {key}": each for key, each in draw(ATTRIBUTES).items()},
        intermediate_values=draw(steps),
    )


def written_by_optuna(store: Store, study: int, begun: Sequence[FrozenTrial], ended: Sequence[FrozenTrial]) -> None:
    storage = store.optuna
    names = [storage.create_new_trial(study, template) for template in begun]
    for name, end in zip(names, ended, strict=False):
        for key, value in end.user_attrs.items():
            storage.set_trial_user_attr(name, key, value)
        for step, value in end.intermediate_values.items():
            storage.set_trial_intermediate_value(name, step, value)
        storage.set_trial_state_values(name, end.state, None if end.value is None else [end.value])


def written_at_once(store: Store, study: int, begun: Sequence[FrozenTrial], ended: Sequence[FrozenTrial]) -> None:
    with store.session() as session:
        add_trials(session, study, begun)
    names = [trial._trial_id for trial in store.optuna.get_all_trials(study)[-len(begun) :]] if begun else []
    with store.session() as session:
        end_trials(session, dict(zip(names, ended, strict=False)))


def content(trial: FrozenTrial) -> tuple[object, ...]:
    """All but Optuna's name for it and when it was."""
    have_times = trial.datetime_start is not None, trial.datetime_complete is not None
    steps = {step: "nan" if math.isnan(value) else value for step, value in trial.intermediate_values.items()}
    values = (trial.number, trial.state, trial.values, trial.params, trial.distributions, trial.user_attrs)
    return *values, trial.system_attrs, steps, have_times


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return Store(tmp_path_factory.mktemp("store") / "rnnlab.db")


@settings(max_examples=40, deadline=None)
@given(
    lots=st.lists(st.tuples(st.lists(templates(), max_size=4), st.lists(ends(), max_size=4)), min_size=1, max_size=3)
)
def test_rows_are_those_of_optuna(store: Store, lots: list[tuple[list[FrozenTrial], list[FrozenTrial]]]) -> None:
    mine, theirs = (store.optuna.create_new_study([StudyDirection.MINIMIZE]) for _ in range(2))
    for begun, ended in lots:
        written_at_once(store, mine, begun, ended)
        written_by_optuna(store, theirs, begun, ended)
    assert list(map(content, store.optuna.get_all_trials(mine))) == list(
        map(content, store.optuna.get_all_trials(theirs))
    )
    with store.session() as session:
        rows = read_rows(session, mine, "number")
    known = store.optuna.get_all_trials(mine)
    assert [row.trial_id for row in rows] == [trial._trial_id for trial in known]
    assert [(row.attribute, row.state) for row in rows] == [(each.user_attrs["number"], each.state) for each in known]
    finite = [each.value if each.value is not None and math.isfinite(each.value) else None for each in known]
    assert [row.value for row in rows] == finite


def test_trials_that_have_ended_stay_as_they_are(store: Store) -> None:
    study = store.optuna.create_new_study([StudyDirection.MINIMIZE])
    first, second = (create_trial(state=TrialState.COMPLETE, value=v, user_attrs={"end": v}) for v in (1.0, 2.0))
    written_at_once(store, study, [create_trial(state=TrialState.RUNNING)], [first])
    (before,) = store.optuna.get_all_trials(study)
    with store.session() as session:
        end_trials(session, {before._trial_id: second})
    assert store.optuna.get_all_trials(study) == [before]


def test_ends_that_were_half_written_are_written_anew(store: Store) -> None:
    """By a version that wrote one attribute after another, and was killed."""
    mine, theirs = (store.optuna.create_new_study([StudyDirection.MINIMIZE]) for _ in range(2))
    begun = create_trial(state=TrialState.RUNNING, user_attrs={"number": 0})
    end = create_trial(state=TrialState.COMPLETE, value=1.0, user_attrs={"end": 2}, intermediate_values={5: 0.5})
    written_by_optuna(store, theirs, [begun], [end])
    name = store.optuna.create_new_trial(mine, begun)
    store.optuna.set_trial_user_attr(name, "end", 1)
    store.optuna.set_trial_intermediate_value(name, 5, 0.1)
    with store.session() as session:
        end_trials(session, {name: end})
    assert list(map(content, store.optuna.get_all_trials(mine))) == list(
        map(content, store.optuna.get_all_trials(theirs))
    )


def test_trials_that_are_added_at_once_have_different_numbers(tmp_path: Path) -> None:
    place = tmp_path / "rnnlab.db"
    study = Store(place).optuna.create_new_study([StudyDirection.MINIMIZE])
    barrier = threading.Barrier(4)

    def add() -> None:
        own = Store(place)
        barrier.wait()
        for _ in range(5):
            with own.session() as session:
                add_trials(session, study, [create_trial(state=TrialState.RUNNING)] * 3)

    threads = [threading.Thread(target=add) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    numbers = [trial.number for trial in optuna.storages.RDBStorage(f"sqlite:///{place}").get_all_trials(study)]
    assert numbers == list(range(60))
