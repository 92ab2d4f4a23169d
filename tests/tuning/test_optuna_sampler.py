"""The Gaussian process in anybody's Optuna study (issue 7, 2)."""

import pickle
from collections.abc import Iterator

import numpy as np
import pytest

optuna = pytest.importorskip("optuna")

from rnnlab import TuningError  # noqa: E402
from rnnlab.tuning.gp_sampler import GaussianProcessSampler  # noqa: E402
from rnnlab.tuning.observations import Observation  # noqa: E402
from rnnlab.tuning.optuna_sampler import OptunaSampler  # noqa: E402
from tests.tuning.contract import MIXED  # noqa: E402


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    yield
    optuna.logging.set_verbosity(before)


@pytest.fixture
def asked(monkeypatch) -> list[tuple[list[Observation], int]]:
    """What the process is asked: observations and size of each batch."""
    calls: list[tuple[list[Observation], int]] = []
    suggest = GaussianProcessSampler.suggest

    def recorded(self, space, observations, count, *, generator):
        calls.append((list(observations), count))
        return suggest(self, space, observations, count, generator=generator)

    monkeypatch.setattr(GaussianProcessSampler, "suggest", recorded)
    return calls


def loss(trial) -> float:
    """All that Optuna has: steps, logarithms, categories of any kind, and a parameter that only some trials have."""
    x = trial.suggest_float("x", -5, 5)
    rate = trial.suggest_float("rate", 1e-5, 1e-1, log=True)
    dropout = trial.suggest_float("dropout", 0.0, 0.5, step=0.1)
    width = trial.suggest_int("width", 16, 256, step=16)
    kind = trial.suggest_categorical("kind", ["a", None, 3])
    if kind == "a":
        trial.suggest_float("only_a", 0, 1)
    away = (x - 1) ** 2 + (np.log10(rate) + 3) ** 2 + abs(dropout - 0.2) + abs(width - 64) / 64
    return float(away + (kind is not None))


def test_any_study_is_optimised() -> None:
    study = optuna.create_study(sampler=OptunaSampler(batch_size=5, seed=0))
    study.optimize(loss, n_trials=60)
    random = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    random.optimize(loss, n_trials=60)
    assert study.best_value < 0.3 < random.best_value
    assert study.best_params["kind"] is None


def test_the_process_suggests_all_that_every_trial_has(monkeypatch) -> None:
    drawn: list[tuple[int, str]] = []
    independent = OptunaSampler.sample_independent

    def recorded(self, study, trial, name, distribution):
        drawn.append((trial.number, name))
        return independent(self, study, trial, name, distribution)

    monkeypatch.setattr(OptunaSampler, "sample_independent", recorded)
    study = optuna.create_study(sampler=OptunaSampler(batch_size=5, seed=0))
    study.optimize(loss, n_trials=20)
    assert {name for number, name in drawn if number > 0} <= {"only_a"}
    assert {name for number, name in drawn if number == 0} >= {"x", "rate", "dropout", "width", "kind"}


def test_maximising_is_minimising_the_negative() -> None:
    found = []
    for direction, sign in (("minimize", 1), ("maximize", -1)):
        study = optuna.create_study(direction=direction, sampler=OptunaSampler(batch_size=4, seed=0))
        study.optimize(lambda trial, sign=sign: sign * (trial.suggest_float("x", -1, 1) - 0.3) ** 2, n_trials=20)
        found.append([trial.params for trial in study.trials])
    assert found[0] == found[1]


def test_a_batch_is_one_fit_and_believes_what_is_running(asked) -> None:
    distributions = {"x": optuna.distributions.FloatDistribution(0, 1)}
    study = optuna.create_study(sampler=OptunaSampler(batch_size=8, seed=0))
    for x in np.random.default_rng(0).random(12).tolist():
        study.add_trial(optuna.trial.create_trial(params={"x": x}, distributions=distributions, value=(x - 0.3) ** 2))
    trials = [study.ask(distributions) for _ in range(16)]
    assert len({trial.params["x"] for trial in trials}) == 16
    assert [count for _, count in asked] == [8, 8]
    states = [[each.state for each in observations] for observations, _ in asked]
    assert states[0] == ["complete"] * 12
    assert states[1] == ["complete"] * 12 + ["pending"] * 8


def test_failures_and_broken_constraints_are_infeasible(asked) -> None:
    study = optuna.create_study(sampler=OptunaSampler(seed=0))

    def objective(trial) -> float:
        x = trial.suggest_float("x", 0, 1)
        if trial.number % 4 == 1:
            raise ArithmeticError
        if trial.number % 4 == 2:
            trial.set_constraint("memory", 1.0)
        if trial.number % 4 == 3:
            raise optuna.TrialPruned
        return x

    study.optimize(objective, n_trials=12, catch=ArithmeticError)
    trial = study.ask()
    trial.suggest_float("x", 0, 1)
    states = [each.state for each in asked[-1][0]]
    assert (states.count("complete"), states.count("infeasible")) == (3, 6)  # pruned ones tell nothing


def test_our_space_brings_its_conditions(asked) -> None:
    study = optuna.create_study(sampler=OptunaSampler(space=MIXED, batch_size=4, seed=0))
    for _ in range(16):
        trial = study.ask()
        optimiser = trial.suggest_categorical("optimiser", MIXED.dimensions[0].choices)
        rate = trial.suggest_float("learning_rate", 1e-4, 1e-1, log=True)
        if optimiser != "sgd":
            trial.suggest_float("momentum", 0.731, 0.9991)
        trial.suggest_int("depth", 1, 8, log=True)
        trial.suggest_categorical("input_once", (False, True))
        trial.suggest_float("gate_bias", 0, 6)
        MIXED.check(trial.params)
        study.tell(trial, (np.log10(rate) + 2) ** 2)
    assert len(asked[-1][0]) == 12


def test_trials_of_other_ranges_are_left_out(asked) -> None:
    study = optuna.create_study(sampler=OptunaSampler(space=MIXED, seed=0))
    study.add_trial(
        optuna.trial.create_trial(
            params={"learning_rate": 5.0},
            distributions={"learning_rate": optuna.distributions.FloatDistribution(1, 10)},
            value=0.0,
        )
    )
    study.ask(MIXED.without("momentum").distributions())
    assert asked[-1][0] == []


def test_several_objectives_are_refused() -> None:
    study = optuna.create_study(directions=["minimize", "minimize"], sampler=OptunaSampler(space=MIXED))
    with pytest.raises(TuningError, match="one value; this study has several"):
        study.ask().suggest_int("depth", 1, 8, log=True)


@pytest.mark.parametrize("batch_size", [0, 1.5, True])
def test_batches_have_a_size(batch_size) -> None:
    with pytest.raises(TuningError, match="batch_size must be an integer of at least 1"):
        OptunaSampler(batch_size=batch_size)


def test_a_study_on_disk_goes_on_with_another_sampler(tmp_path) -> None:
    storage = f"sqlite:///{tmp_path / 'study.db'}"
    for _ in range(2):
        study = optuna.create_study(
            storage=storage, study_name="s", load_if_exists=True, sampler=OptunaSampler(batch_size=4, seed=0)
        )
        study.optimize(lambda trial: (trial.suggest_float("x", -10, 10) - 2) ** 2, n_trials=12)
    assert len(study.trials) == 24
    assert study.best_value < 0.01


def test_samplers_can_be_kept_and_used_by_threads() -> None:
    study = optuna.create_study(sampler=pickle.loads(pickle.dumps(OptunaSampler(batch_size=3, seed=0))))
    study.optimize(lambda trial: trial.suggest_float("x", 0, 1), n_trials=20, n_jobs=2)
    assert len({trial.params["x"] for trial in study.trials}) == 20
