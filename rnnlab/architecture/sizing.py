"""How wide a network may be: the equal width of all layers that fits a number of parameters (C8, Z53)."""

from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Literal

from rnnlab.architecture.architecture import CATEGORIES, Architecture
from rnnlab.errors import ArchitectureError
from rnnlab.integers import as_integer

Fit = Literal["under", "nearest"]


def fit_units(
    build: Callable[[int], Architecture], parameters: int, *, fit: Fit = "under", count: Iterable[str] = CATEGORIES
) -> Architecture:
    """The architecture whose size fits a number of parameters best.

    Args:
        build: makes the architecture whose hidden layers all have the given width.
        parameters: the number of trainable parameters to fit.
        fit: `under` takes the largest width that does not exceed `parameters` (C8); `nearest` the one that comes
            closest to it (Z53), the smaller of two that come equally close.
        count: which categories of parameters count, or the one that does.

    Raises:
        ArchitectureError: even one unit is too many, or what is counted does not grow with the width.

    >>> from rnnlab.architecture.catalogue import architecture
    >>> fitted = fit_units(lambda n: architecture("sh", input_size=27, output_size=27, units=n), 150_000)
    >>> fitted.by_key["h", 0].units, fitted.num_parameters()
    (360, 149787)
    """
    parameters = as_integer(parameters, "parameters", ArchitectureError)
    if fit not in ("under", "nearest"):
        raise ArchitectureError(f"fit is under or nearest, got {fit!r}")
    counted = (count,) if isinstance(count, str) else tuple(count)

    @cache
    def size(units: int) -> int:
        return build(units).num_parameters(counted)

    smallest = build(1)
    if size(1) > parameters:
        raise ArchitectureError(
            f"{parameters} parameters are too few: one unit a layer has {size(1)} already; allow at least that many"
        )
    # at the width of an input a +RNN layer needs no projection, so there, and only there, the count may dip
    dips = sorted({node.units for node in smallest.nodes if node.kind == "input"})
    rank = _last_within(lambda number: size(_regular(number, dips)), parameters, counted)
    candidates = {*dips, *(_regular(number, dips) for number in (rank, rank + 1) if number)}
    if fit == "under":
        return build(max(units for units in candidates if size(units) <= parameters))
    return build(min(candidates, key=lambda units: (abs(size(units) - parameters), units)))


def _regular(number: int, dips: Sequence[int]) -> int:
    """The width of that number, counted from 1, when the widths in `dips` (ascending) are left out."""
    for dip in dips:
        number += dip <= number
    return number


def _last_within(size: Callable[[int], int], limit: int, counted: Sequence[str]) -> int:
    """The largest number from 1 whose size is within the limit, or 0; sizes must grow."""
    high = 1
    while size(high) <= limit:
        if size(2 * high) == size(high):
            raise ArchitectureError(
                f"the number of {', '.join(counted)} does not grow with the width: count weights too"
            )
        high *= 2
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if size(middle) <= limit else (low, middle)
    return low
