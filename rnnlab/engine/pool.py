"""Arrays that are used again: large new ones cost a page fault for every 4 KB, and their passes are to be written."""

from rnnlab.engine.cpu_arrays import CpuArrays, Shape
from rnnlab.engine.cpu_program import CpuProgram

_MOST_BYTES = 2**29


class Pool:
    """Arrays of one program by shape, taken and given back; what they hold when taken is anything at all."""

    def __init__(self, program: CpuProgram) -> None:
        self.program = program
        self.free: dict[Shape, list[CpuArrays]] = {}
        self.num_bytes = 0

    def take(self, shape: Shape) -> CpuArrays:
        """Arrays of that shape, used before or new."""
        waiting = self.free.get(shape)
        if not waiting:
            return CpuArrays(self.program, shape)
        arrays = waiting.pop()
        self.num_bytes -= _num_bytes(arrays)
        return arrays

    def give(self, arrays: CpuArrays) -> None:
        """Take arrays back that nobody uses any longer."""
        arrays.parameters = {}
        if self.num_bytes + _num_bytes(arrays) > _MOST_BYTES:  # lengths or batch sizes change: begin anew
            self.free.clear()
            self.num_bytes = 0
        self.free.setdefault(arrays.shape, []).append(arrays)
        self.num_bytes += _num_bytes(arrays)


def _num_bytes(arrays: CpuArrays) -> int:
    return sum(array.nbytes for array in arrays.all_arrays())
