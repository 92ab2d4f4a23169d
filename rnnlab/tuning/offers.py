"""Which trials can be given out next, and for which a sampler should see more scores first.

A sampler that learns knows only the results of trials that have ended. If all available capacity were filled at once,
every trial of an arm would be in progress before the first had a score, and all of them would be drawn at random. So
while much of an arm's budget is in progress, workers that have something else to do leave the arm alone.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from rnnlab.tuning.arms import Arm
from rnnlab.tuning.lots import Lot
from rnnlab.tuning.populations import lot_size

MOST_UNDER_WAY = Fraction(
    1, 3
)  # of a budget: no more than that is drawn before the first scores, where lots are small enough


@dataclass(frozen=True, kw_only=True)
class Offer:
    """The next lot of an arm, which no worker has taken yet.

    Args:
        arm: whose trials they are.
        earlier: all its lots so far, of all workers.
        count: how many trials.
    """

    arm: Arm
    earlier: Sequence[Lot]
    count: int

    @property
    def first(self) -> int:
        """The number of its first trial in the arm."""
        return self.earlier[-1].numbers.stop if self.earlier else 0

    @property
    def share_given_out(self) -> Fraction:
        """How much of the arm's budget is used up before it."""
        return Fraction(self.first, self.arm.num_trials)

    @property
    def is_too_early(self) -> bool:
        """Whether too much of the budget would be in progress, in all workers together, for a sampler to learn."""
        under_way = sum(len(lot.points) for lot in self.earlier if not lot.is_finished)
        return under_way > 0 and under_way + self.count > MOST_UNDER_WAY * self.arm.num_trials


def offers(arms: Iterable[Arm], lots: Sequence[Lot], sizes: Mapping[str, int]) -> list[Offer]:
    """The next lot of every arm that has some of its budget left, those furthest behind first.

    Args:
        arms: of a study.
        lots: all of them, in order.
        sizes: how many networks of each arm are trained at once.
    """
    found = []
    for arm in arms:
        earlier = [lot for lot in lots if lot.arm == arm.name]
        left = arm.num_trials - (earlier[-1].numbers.stop if earlier else 0)
        if left > 0:
            found.append(Offer(arm=arm, earlier=earlier, count=lot_size(left, sizes[arm.name])))
    return sorted(found, key=lambda offer: offer.share_given_out)
