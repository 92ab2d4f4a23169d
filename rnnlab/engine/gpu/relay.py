"""Relays: layers that run side by side on the GPU, in clusters of programs of their own, and hand their states on.

One after another, four layers take four times as long as one. But a layer needs no more of the one below than the
state of the same step, and can follow it a few steps behind, all the way through the sequence. So all layers run at
once, and what one hands to the next may come late, as long as every layer keeps its own pace. In the backward pass
gradients of states are handed back the same way. What is handed on is multiplied where it arrives, while the layer
waits for its own states. Layers that do not read one another, such as those of both directions, run side by side, too.
"""

from collections.abc import Sequence

import torch

from rnnlab.engine.gpu.limits import cluster_size, cuda_obstacle, most_clusters, shared_memory
from rnnlab.engine.gpu.program import GpuProgram
from rnnlab.engine.gpu.resident import CLUSTERS, Shape
from rnnlab.errors import ModelError
from rnnlab.triton_support import is_interpreted


class RelayCut(tuple[tuple[Shape, ...], ...]):
    """How the legs of each relay of a network are divided among clusters."""

    def __str__(self) -> str:
        return ", then ".join(map(_side_by_side, self))


def _side_by_side(shapes: tuple[Shape, ...]) -> str:
    rows = " or ".join(map(str, sorted({shape.rows for shape in shapes})))
    programs = f"clusters of {shapes[0].num_programs} programs for {rows} sequences each"
    return f"{len(shapes)} layers side by side, {programs}"


def relay_cut(program: GpuProgram, sizes: tuple[int, int], processors: int, device: torch.device) -> RelayCut | str:
    """How the layers of a network run side by side, or why they cannot."""
    if is_interpreted():
        return "Triton's interpreter has no clusters"
    if obstacle := cuda_obstacle(device) or _obstacle(program):
        return obstacle
    found: list[tuple[Shape, ...]] = []
    for legs in program.relays:
        shapes = relay_shapes(program, legs, sizes, processors, device)
        if isinstance(shapes, str):
            return shapes
        found.append(shapes)
    return RelayCut(found)


def relay_shapes(
    program: GpuProgram, legs: tuple[int, ...], sizes: tuple[int, int], processors: int, device: torch.device
) -> tuple[Shape, ...] | str:
    """How each leg of a relay is cut up for so many members and sequences, or why it has no room.

    Few sequences a program make a step short. Where not all clusters have room at once, some legs take more.
    """
    key = ("relay", legs, sizes, processors, device, shared_memory(), cluster_size())
    return program.keep(key, lambda: _shapes(program, legs, sizes, processors, device))


def _shapes(
    program: GpuProgram, legs: tuple[int, ...], sizes: tuple[int, int], processors: int, device: torch.device
) -> tuple[Shape, ...] | str:
    found: list[tuple[Shape, ...]] = []
    for num_programs in CLUSTERS:
        of_legs = [[each for each in program.shapes(leg) if each.num_programs == num_programs] for leg in legs]
        try:
            most = min(processors // num_programs, most_clusters(device, num_programs))
        except ModelError as error:  # a GPU, or the part of one that this process has, may refuse clusters
            return str(error)
        fitting = smallest_that_fit(of_legs, sizes, most)
        if fitting is not None:
            found.append(fitting)
    if not found:
        return f"the clusters of {len(legs)} layers have no room on {processors} multiprocessors at once"
    return min(found, key=lambda shapes: (max(each.rows for each in shapes), -shapes[0].num_programs))


def smallest_that_fit(
    of_legs: Sequence[Sequence[Shape]], sizes: tuple[int, int], most: int
) -> tuple[Shape, ...] | None:
    """For each leg the shape of fewest sequences with which no more than so many clusters run, if there are such.

    Legs that have most to gain take more sequences first.

    >>> few, more = Shape(16, 8), Shape(32, 8)
    >>> smallest_that_fit([[few, more], [few]], (1, 64), 8), smallest_that_fit([[few, more], [few]], (1, 64), 5)
    ((Shape(rows=16, num_programs=8), Shape(rows=16, num_programs=8)), None)
    >>> smallest_that_fit([[few, more], [few]], (1, 64), 7)
    (Shape(rows=32, num_programs=8), Shape(rows=16, num_programs=8))
    """
    left = [sorted(shapes, key=lambda shape: shape.rows) for shapes in of_legs]
    while all(left) and sum(_num_clusters(shapes[0], sizes) for shapes in left) > most:
        larger = [shapes for shapes in left if len(shapes) > 1]
        if not larger:
            return None
        max(larger, key=lambda shapes: _num_clusters(shapes[0], sizes) - _num_clusters(shapes[1], sizes)).pop(0)
    return tuple(shapes[0] for shapes in left) if all(left) else None


def _num_clusters(shape: Shape, sizes: tuple[int, int]) -> int:
    return shape.num_in_all(*sizes) // shape.num_programs


def _obstacle(program: GpuProgram) -> str | None:
    """Why no layers of a network can run side by side, whatever its sizes."""
    if cluster_size() == 1:
        return "this GPU has no clusters of programs"
    if not program.relays:
        return "it has no layers of one width that hand their states on at once, or not at all"
    if not all(program.shapes(leg) for leg in program.relay_of):
        return "a layer has no cluster of programs that holds its matrices and those of what is handed to it"
    return None
