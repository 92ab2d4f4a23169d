"""In which precision torch multiplies is a setting of the whole process, which threads want in turn."""

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
import torch

from rnnlab.engine.gpu.products import multiplying

SETTINGS = {"float32": "ieee", "tf32": "tf32", "bf16": "tf32"}


def present() -> str:
    return torch.backends.cuda.matmul.fp32_precision


@pytest.mark.parametrize("precision", SETTINGS)
def test_what_was_set_before_is_set_again(precision: str) -> None:
    before = present()
    with multiplying(precision):
        assert present() == SETTINGS[precision]
    assert present() == before


def test_it_is_set_again_after_an_error() -> None:
    before = present()
    with pytest.raises(ZeroDivisionError), multiplying("float32"):
        _ = 1 / 0
    assert present() == before


def together(precisions: Sequence[str], stay: float = 0.002) -> list[str]:
    """Threads that enter again and again; returns what they found that they had not asked for."""
    start, before = Barrier(len(precisions)), present()

    def work(precision: str) -> list[str]:
        wrong: list[str] = []
        start.wait(10)
        for _ in range(15):
            with multiplying(precision):
                for _ in range(3):
                    time.sleep(stay)
                    wrong += [present()] if present() != SETTINGS[precision] else []
        return wrong

    with ThreadPoolExecutor(len(precisions)) as pool:
        found = [each for wrong in pool.map(work, precisions) for each in wrong]
    assert present() == before
    return found


def test_threads_of_several_precisions_do_not_change_one_anothers() -> None:
    assert together(["float32", "tf32", "bf16", "float32"]) == []


def test_threads_of_one_precision_are_inside_together() -> None:
    """They meet there, or the barrier breaks."""
    meeting = Barrier(2)

    def work(precision: str) -> None:
        with multiplying(precision):
            meeting.wait(10)

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(work, ["tf32", "bf16"]))


def test_who_waits_is_not_overtaken() -> None:
    """Two threads that follow one another without a gap do not keep out a third."""
    inside, entered = Barrier(2), []

    def hold(number: int) -> None:
        with multiplying("tf32"):
            entered.append(number)
            if number == 0:
                inside.wait(10)
                time.sleep(0.2)

    def other() -> None:
        with multiplying("float32"):
            entered.append(1)

    with ThreadPoolExecutor(3) as pool:
        tasks = [pool.submit(hold, 0)]
        inside.wait(10)
        tasks.append(pool.submit(other))
        time.sleep(0.05)
        tasks.append(pool.submit(hold, 2))
        for task in tasks:
            task.result(10)
    assert entered == [0, 1, 2]
