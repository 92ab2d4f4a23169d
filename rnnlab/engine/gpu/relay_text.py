"""Text of the kernel of a relay: the legs, each as if it were a kernel of its own, side by side in one.

Clusters of the legs that wait for nobody come first. A GPU starts clusters in the order of their numbers, so whoever
waits waits for one that runs, though not all should have room at once.
"""

from collections.abc import Sequence
from itertools import groupby
from typing import NamedTuple

from rnnlab.engine.gpu.compiled import Argument
from rnnlab.engine.gpu.cuda_writer import INSTRUCTIONS, library_text, signature
from rnnlab.engine.gpu.resident_writer import ResidentWriter


class RelayText(NamedTuple):
    """A kernel as text, and for each leg, in the order of its clusters, its component and the arrays that it wants."""

    source: str
    legs: tuple[tuple[int, tuple[Argument, ...]], ...]
    num_threads: int


class _Kind(NamedTuple):
    """What legs may have in common: the file that they build on, their arrays but for where these lie, their lines."""

    library: str
    fields: str
    body: str


def relay_text(writers: Sequence[ResidentWriter]) -> RelayText:
    """The kernel of a relay; legs that differ in nothing but where their arrays lie are written once.

    Args:
        writers: those of the legs, with all lines, first one that waits for nobody.
    """
    kinds = [(kind, len(list(same))) for kind, same in groupby(map(_kind, writers))]
    libraries = list(dict.fromkeys(kind.library for kind, _ in kinds))
    spaces = "".join(f"namespace shape{number} {{\n{text}}}\n" for number, text in enumerate(libraries))
    structs = "".join(f"struct Leg{number} {{\n{kind.fields}}};\n" for number, (kind, _) in enumerate(kinds))
    fields = "".join(f"  Leg{number} legs{number}[{count}];\n" for number, (_, count) in enumerate(kinds))
    bodies, start = "", 0
    for number, (kind, count) in enumerate(kinds):
        bodies += f"  if (leg < {start + count}) {{\n  using namespace shape{libraries.index(kind.library)};\n"
        bodies += f"  const Leg{number} &a = all.legs{number}[leg - {start}];\n{kind.body}  return;\n  }}\n"
        start += count
    num_threads = max(each.constants["THREADS"] for each in writers) + 32
    source = (
        f"{library_text(INSTRUCTIONS)}\n{spaces}{structs}"
        f"struct Arguments {{\n{fields}  i64 ends[{len(writers)}];\n}};\n\n"  # the first cluster after each leg's
        f"{signature(f'{num_threads}, 1', writers[0].shape.num_programs)} "
        "kernel(const __grid_constant__ Arguments all) {\n"
        f"  int leg = 0;\n  while (blockIdx.y >= all.ends[leg]) ++leg;\n{bodies}}}\n"
    )
    legs = tuple((each.leg.number, tuple(each.arguments)) for each in writers if each.leg is not None)
    return RelayText(source, legs, num_threads)


def _kind(writer: ResidentWriter) -> _Kind:
    return _Kind(writer.library("resident.cu", writer.constants), writer.fields(), writer.body(writer.head))
