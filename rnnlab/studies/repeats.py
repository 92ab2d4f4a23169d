"""The best settings of every arm again, over several seeds (C73): a second study in the same store.

They are chosen once, when all trials of tuning have ended, by whichever worker is there first; all others read that
choice. Tuning tries each setting only once, so the best may owe its place to luck: of several finalists, the best over
seeds counts.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import count, takewhile

from rnnlab.errors import TuningError
from rnnlab.studies.specification import MOST_SEEDS
from rnnlab.studies.specification import SEEDS as SUFFIX
from rnnlab.tuning.arms import Arm
from rnnlab.tuning.binding import SEEDS
from rnnlab.tuning.dimensions import Integer
from rnnlab.tuning.space import SearchSpace
from rnnlab.tuning.store import Store
from rnnlab.tuning.trials import Trial, Trials
from rnnlab.tuning.tune import best_trials


def repeats_name(study: str) -> str:
    """The name of the second study.

    >>> repeats_name("first")
    'first seeds'
    """
    return f"{study}{SUFFIX}"


def finalist_name(arm: str, place: int) -> str:
    """The name of an arm of the second study; the best setting has the name of its arm in tuning.

    >>> finalist_name("gru", 1), finalist_name("gru", 2)
    ('gru', 'gru #2')
    """
    return arm if place == 1 else f"{arm} #{place}"


def finalists_of(arm: Arm, there: Mapping[str, Arm]) -> tuple[Arm, ...]:
    """The finalists of an arm, the best of tuning first, among the arms of the second study by name."""
    names = (finalist_name(arm.name, place) for place in count(1))
    return tuple(there[name] for name in takewhile(there.__contains__, names))


def repeated(arm: Arm, best: Trial, num_seeds: int, place: int = 1) -> Arm:
    """The arm that trains a setting again, from other initial weights and with other batches.

    Seeds count on from that of tuning, which may itself have favoured the setting. Where a text is read in order there
    are no batches to draw, and its trials differ in their initial weights only.
    """
    name = SEEDS if arm.task.feed == "samples" else "seed"
    values = arm.to_json()
    values |= {
        "name": finalist_name(arm.name, place),
        "task": values["task"] | dict(best.arguments),
        "hyperparameters": best.hyperparameters.to_json(),
        "space": SearchSpace([Integer(name, arm.seed + 1, arm.seed + MOST_SEEDS)]).to_json(),
        "sampler": "grid",
        "sampler_options": {"num_per_dimension": MOST_SEEDS},
        "num_trials": num_seeds,
    }
    return Arm.from_json(values)


def decide_repeats(
    store: Store, study: str, arms: Sequence[Arm], num_seeds: int, num_finalists: int
) -> tuple[Arm, ...]:
    """The arms of the second study, which is made if it is not there; none where no trial of any arm is complete.

    First come the best settings of all arms, then all second ones, and so on: a study that gains finalists keeps its
    first arms unchanged.

    Args:
        store: where the study is.
        study: its name; all its trials have ended.
        arms: its arms.
        num_seeds: how many seeds; more than before is allowed.
        num_finalists: how many settings of each arm; more than before is allowed.
    """
    name = repeats_name(study)
    there = store.arms(name) if name in store.study_names() else ()
    num_seeds = max([num_seeds, *(arm.num_trials for arm in there)])
    names = {arm.name for arm in there}
    kept = (replace(arm, num_trials=num_seeds) for arm in there)
    missing = [
        (arm, place)
        for place in range(1, num_finalists + 1)
        for arm in arms
        if finalist_name(arm.name, place) not in names
    ]
    found = (*kept, *_chosen(store, study, missing, num_seeds))
    if found:
        store.add_study(name, found, may_gain_arms=True)
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


def _chosen(store: Store, study: str, missing: Sequence[tuple[Arm, int]], num_seeds: int) -> list[Arm]:
    """The arms that train the setting at some place among the best of an arm, if it has that many."""
    most = {arm.name: (arm, place) for arm, place in missing}  # an arm's last place comes last
    best = {
        name: best_trials(Trials(store, study, arm).all(), place, is_maximised=arm.is_maximised)
        for name, (arm, place) in most.items()
    }
    return [
        repeated(arm, best[arm.name][place - 1], num_seeds, place)
        for arm, place in missing
        if place <= len(best[arm.name])
    ]
