"""The best setting of every arm again, over several seeds (C73): a second study in the same store.

It is decided once, when all trials of tuning have ended, by whichever worker is there first; all others find it.
"""

from collections.abc import Sequence
from dataclasses import replace

from rnnlab.errors import TuningError
from rnnlab.studies.specification import MOST_SEEDS
from rnnlab.studies.specification import SEEDS as SUFFIX
from rnnlab.tuning.arms import Arm
from rnnlab.tuning.binding import SEEDS
from rnnlab.tuning.dimensions import Integer
from rnnlab.tuning.space import SearchSpace
from rnnlab.tuning.store import Store
from rnnlab.tuning.trials import Trial, Trials
from rnnlab.tuning.tune import best_trial


def repeats_name(study: str) -> str:
    """What the second study is called.

    >>> repeats_name("first")
    'first seeds'
    """
    return f"{study}{SUFFIX}"


def repeated(arm: Arm, best: Trial, num_seeds: int) -> Arm:
    """The arm that trains the best setting again, from other initial numbers and with other batches.

    Seeds count on from that of tuning, to which the best setting may owe something. Where a text is read in order there
    is nothing to draw, and its trials differ in their initial numbers only.
    """
    name = SEEDS if arm.task.feed == "samples" else "seed"
    values = arm.to_json()
    values |= {
        "task": values["task"] | dict(best.arguments),
        "hyperparameters": best.hyperparameters.to_json(),
        "space": SearchSpace([Integer(name, arm.seed + 1, arm.seed + MOST_SEEDS)]).to_json(),
        "sampler": "grid",
        "sampler_options": {"num_per_dimension": MOST_SEEDS},
        "num_trials": num_seeds,
    }
    return Arm.from_json(values)


def decide_repeats(store: Store, study: str, arms: Sequence[Arm], num_seeds: int) -> tuple[Arm, ...]:
    """The arms of the second study, which is made if it is not there; none where no trial of any arm is complete.

    Args:
        store: where the study is.
        study: its name; all its trials have ended.
        arms: its arms.
        num_seeds: how many seeds; it may have grown.
    """
    name = repeats_name(study)
    if name in store.study_names():
        found = tuple(replace(arm, num_trials=max(arm.num_trials, num_seeds)) for arm in store.arms(name))
    else:
        found = _chosen(store, study, arms, num_seeds)
    if found:
        store.add_study(name, found)
    return found


def check_may_grow(store: Store, study: str, arms: Sequence[Arm]) -> None:
    """Refuse more trials of tuning once the best settings are decided.

    Raises:
        TuningError: an arm has more trials than the stored one, and its best setting was trained over seeds.
    """
    names = store.study_names()
    if study not in names or repeats_name(study) not in names:
        return
    there = {arm.name: arm.num_trials for arm in store.arms(study)}
    for arm in arms:
        if arm.num_trials > there.get(arm.name, arm.num_trials):
            raise TuningError(
                f"study {study!r} has trained its best settings over seeds already, so arm {arm.name} stays at "
                f"{there[arm.name]} trials; choose another name"
            )


def _chosen(store: Store, study: str, arms: Sequence[Arm], num_seeds: int) -> tuple[Arm, ...]:
    best = {arm.name: best_trial(Trials(store, study, arm).all(), is_maximised=arm.is_maximised) for arm in arms}
    return tuple(repeated(arm, found, num_seeds) for arm in arms if (found := best[arm.name]) is not None)
