"""Which trials are given out next (issue 9: what the tuner lacked)."""

from dataclasses import replace
from typing import Any

from rnnlab.tuning.arms import Arm
from rnnlab.tuning.lots import Lot
from rnnlab.tuning.offers import Offer, offers
from tests.tuning.small_studies import STUDY, arm

POINT = {"optimiser": "sgd", "learning_rate": 0.1, "gate_bias": 1.0}


def lot(of: Arm, first: int, count: int, *, finished: bool) -> Lot:
    values: dict[str, Any] = dict.fromkeys(("generation", "num_lost", "number"), 0)
    values |= {"claimed": 0.0, "heartbeat": 0.0, "finished": 1.0 if finished else None, "grace": 1.0}
    return Lot(study=STUDY, arm=of.name, first=first, points=(POINT,) * count, owner="me", **values)


def offered(of: Arm, lots: list[Lot], size: int) -> Offer:
    (found,) = offers([of], lots, {of.name: size})
    return found


def test_offers_begin_with_the_arm_furthest_behind_its_budget() -> None:
    short, long, done = arm("short", num_trials=4), arm("long", num_trials=12), arm("done", num_trials=2)
    lots = [
        lot(short, 0, 2, finished=True),
        lot(long, 0, 4, finished=True),
        replace(lot(done, 0, 2, finished=False), owner=None),
    ]
    found = offers([short, long, done], lots, {"short": 2, "long": 3, "done": 2})
    assert [(each.arm.name, each.first, each.count) for each in found] == [("long", 4, 3), ("short", 2, 2)]


def test_offers_are_in_the_order_of_arms_where_all_are_equally_far() -> None:
    arms = [arm(name) for name in "bca"]
    assert [each.arm.name for each in offers(arms, [], dict.fromkeys("abc", 3))] == ["b", "c", "a"]


def test_first_lot_is_never_too_early_whatever_its_size() -> None:
    one = arm("one", num_trials=9)
    assert not offered(one, [], 9).is_too_early
    assert not offered(one, [lot(one, 0, 8, finished=True)], 1).is_too_early


def test_no_more_than_a_third_of_a_budget_is_under_way() -> None:
    one = arm("one", num_trials=18)
    ended = lot(one, 0, 3, finished=True)
    assert not offered(one, [ended, lot(one, 3, 3, finished=False)], 3).is_too_early
    assert offered(one, [ended, lot(one, 3, 4, finished=False)], 3).is_too_early
    assert offered(one, [lot(one, 0, 3, finished=False), lot(one, 3, 3, finished=False)], 3).is_too_early
