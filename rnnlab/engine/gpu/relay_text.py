"""Text of the kernel of a relay: the legs, each as if it were a kernel of its own, side by side in one.

Programs of the legs whom nobody waits for come first: a GPU starts programs in the order of their numbers, so those
that wait always wait for others that run.
"""

from collections.abc import Sequence
from itertools import groupby
from typing import NamedTuple

from rnnlab.engine.gpu.compiled import Argument
from rnnlab.engine.gpu.cuda_writer import signature
from rnnlab.engine.gpu.resident_writer import ResidentWriter


class RelayText(NamedTuple):
    """A kernel as text, and the arrays that it wants, leg by leg."""

    source: str
    arguments: tuple[tuple[Argument, ...], ...]
    num_warps: int


class _Leg(NamedTuple):
    fields: str
    body: str


def relay_text(writers: Sequence[ResidentWriter]) -> RelayText:
    """The kernel of a relay; legs that differ in nothing but their arrays are written once.

    Args:
        writers: those of the legs, with all lines, first the one that waits for nobody.
    """
    first = writers[0]
    kinds = [
        (leg, len(list(same))) for leg, same in groupby(_Leg(each.fields(), each.body(each.head)) for each in writers)
    ]
    structs = "".join(f"struct Leg{number} {{\n{leg.fields}}};\n" for number, (leg, _) in enumerate(kinds))
    fields = "".join(f"  Leg{number} legs{number}[{count}];\n" for number, (_, count) in enumerate(kinds))
    bodies, start = "", 0
    for number, (leg, count) in enumerate(kinds):
        bodies += f"  if (leg < {start + count}) {{\n  const Leg{number} &a = all.legs{number}[leg - {start}];\n"
        bodies += f"{leg.body}  return;\n  }}\n"
        start += count
    source = (
        f"{first.preamble('resident.cu', first.constants)}\n"
        f"{structs}struct Arguments {{\n{fields}}};\n\n"
        f"{signature('THREADS + 32, 1', first.shape.num_programs)} kernel(const __grid_constant__ Arguments all) {{\n"
        f"  const int leg = blockIdx.z / (gridDim.z / {len(writers)});\n{bodies}}}\n"
    )
    arguments = tuple(tuple(each.arguments) for each in writers)
    return RelayText(source, arguments, first.constants["WARPS"] + 1)
