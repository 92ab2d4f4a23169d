"""An arm as a worker trains it: its trials in the store, its sampler, and how many of its networks the device takes."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from rnnlab.errors import TuningError
from rnnlab.tuning.arms import Arm
from rnnlab.tuning.offers import Offer
from rnnlab.tuning.populations import device_capacity, memory_capacity, population_size
from rnnlab.tuning.samplers import AbstractSampler
from rnnlab.tuning.space import Point
from rnnlab.tuning.store import Store
from rnnlab.tuning.trials import Trials


@dataclass(frozen=True, kw_only=True, eq=False)
class PreparedArm:
    """An arm that is ready to be trained on a device.

    Args:
        arm: which.
        trials: those in the store.
        sampler: what suggests its points.
        size: how many networks are trained as one population.
        capacity: how many keep the device busy.
        memory: how many have room in its memory.
    """

    arm: Arm
    trials: Trials
    sampler: AbstractSampler
    size: int
    capacity: int
    memory: float

    def suggested(self, offer: Offer) -> Sequence[Point]:
        """The points of the arm's next lot.

        Raises:
            TuningError: the sampler has none left, or suggests what is no point of the space.
        """
        points = self.sampler.suggest(
            self.arm.space,
            self.trials.observations(offer.earlier),
            offer.count,
            generator=self.arm.generator(offer.first),
        )
        if not points:
            raise TuningError(
                f"sampler {self.arm.sampler} has no points left for arm {self.arm.name} after {offer.first} trials"
            )
        for point in points:
            self.arm.space.check(point)
        return points


def prepared(store: Store, study: str, arm: Arm, device: torch.device, population: int | None) -> PreparedArm:
    """An arm of a study, ready to be trained.

    Args:
        store: where the study is.
        study: its name.
        arm: which.
        device: where it is to be trained.
        population: how many networks are trained as one population; by default as many as suits arm and device.
    """
    return PreparedArm(
        arm=arm,
        trials=Trials(store, study, arm),
        sampler=arm.new_sampler(),
        size=population_size(arm, device, population),
        capacity=device_capacity(arm, device),
        memory=memory_capacity(arm, device),
    )
