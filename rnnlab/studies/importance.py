"""Which hyperparameters mattered: PED-ANOVA (Watanabe et al. 2023) over the trials of an arm, as Optuna computes it.

It compares how a hyperparameter is spread among the best trials with how it is spread among all. One that only takes
part with some values of another counts as often as it takes part. Numbers are taken by their positions on their scales:
Optuna has no logit scale, and on a linear one nearly all of a momentum's range is one place. Infeasible trials have no
value and are left out.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rnnlab.tuning.announcements import no_announcements
from rnnlab.tuning.arms import Arm
from rnnlab.tuning.optuna_positions import distribution, parameter

if TYPE_CHECKING:
    from rnnlab.tuning.trials import Trial

METHOD = "PED-ANOVA"
FEWEST = 20
"""How many complete trials it takes: of fewer, the best would be a handful."""
_FEWEST_BEST, _SHARE_OF_BEST = 5, 0.1


@dataclass(frozen=True)
class Importance:
    """How much one hyperparameter mattered.

    Args:
        name: of the dimension.
        share: of the importance of all; they add up to 1, or are all 0 where nothing mattered.
    """

    name: str
    share: float


def importances(arm: Arm, trials: Sequence["Trial"]) -> tuple[Importance, ...] | None:
    """The dimensions of an arm's space, the most important first, and equals in the space's order.

    Args:
        arm: what was tuned.
        trials: its trials.

    Returns:
        None where there are fewer than FEWEST complete trials.
    """
    complete = [trial for trial in trials if trial.value is not None]
    if len(complete) < FEWEST:
        return None
    found = _evaluated(arm, complete)
    total = sum(found.values())
    # Optuna returns equals in an order that differs from process to process
    names = [each.name for each in arm.space if each.name in found]
    shares = [Importance(name, found[name] / total if total else 0.0) for name in names]
    return tuple(sorted(shares, key=lambda each: -each.share))


def _evaluated(arm: Arm, trials: Sequence["Trial"]) -> dict[str, float]:
    import optuna
    from optuna.importance import PedAnovaImportanceEvaluator
    from optuna.study import Study
    from optuna.trial import create_trial

    storage = optuna.storages.InMemoryStorage()
    direction = optuna.study.StudyDirection.MAXIMIZE if arm.is_maximised else optuna.study.StudyDirection.MINIMIZE
    with no_announcements():
        storage.create_new_study([direction], arm.name)
    study = Study(study_name=arm.name, storage=storage)
    dimensions = {each.name: each for each in arm.space}
    for trial in trials:
        params = {name: parameter(dimensions[name], value) for name, value in trial.point.items()}
        distributions = {name: distribution(dimensions[name]) for name in trial.point}
        study.add_trial(create_trial(params=params, distributions=distributions, value=trial.value))
    quantile = max(_SHARE_OF_BEST, _FEWEST_BEST / len(trials))
    return PedAnovaImportanceEvaluator(target_quantile=quantile).evaluate(study)
