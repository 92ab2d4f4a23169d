"""A race: the peers of one case take turns with rnnlab, those left out whose numbers differ."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec

from rnnlab.bench.rows import Row
from rnnlab.bench.timing import Effort, Side, medians
from rnnlab.errors import BenchError


@dataclass(frozen=True, kw_only=True)
class Contender:
    """A peer at the start of a race.

    Args:
        peer: its name in the table.
        goal: how many times as fast rnnlab should be.
        prepare: makes it ready, checks that it computes the same (or raises `BenchError`), and gives its steps.
        package: what must be installed for it.
    """

    peer: str
    goal: float
    prepare: Callable[[], Side]
    package: str = "torch"


def race(case: str, threads: int, ours: Side, contenders: Sequence[Contender], effort: Effort) -> Iterator[Row]:
    """The rows of one case; a peer that is not installed, or computes something else, is told so and not timed."""
    sides: dict[Row, Side] = {}
    for each in contenders:
        row = Row(case=case, peer=each.peer, threads=threads, goal=each.goal)
        if find_spec(each.package) is None:
            yield replace(row, note=f"{each.package} is not installed: pip install 'rnnlab[bench]'")
            continue
        try:
            sides[row] = each.prepare()
        except BenchError as error:
            yield replace(row, note=str(error), is_refused=True)
    if sides:
        times = medians({"": ours} | {row.peer: side for row, side in sides.items()}, effort)
        for row in sides:
            yield replace(row, ours=times[""], theirs=times[row.peer])
