"""Arrays that are used again: large new ones cost a page fault for every 4 KB, and passes must be written for them.

All pools share one limit: what has been unused for longest is dropped first.
"""

from collections import OrderedDict
from threading import Lock

from rnnlab.engine.cpu_arrays import CpuArrays, Shape
from rnnlab.engine.cpu_program import CpuProgram

MOST_BYTES = 2**29

_waiting: "OrderedDict[CpuArrays, tuple[Pool, int]]" = OrderedDict()  # of all pools, and how large they are
_lock = Lock()


class Pool:
    """Arrays of one program by shape, to be taken and given back; their content when taken is arbitrary."""

    def __init__(self, program: CpuProgram) -> None:
        self.program = program
        self.free: dict[Shape, list[CpuArrays]] = {}

    def take(self, shape: Shape) -> CpuArrays:
        """Arrays of that shape, used before or new."""
        with _lock:
            waiting = self.free.get(shape)
            if waiting:
                arrays = waiting.pop()
                del _waiting[arrays]
                return arrays
        return CpuArrays(self.program, shape)

    def give(self, arrays: CpuArrays) -> None:
        """Take back arrays that are no longer in use."""
        arrays.parameters = {}
        num_bytes = arrays.num_bytes
        if num_bytes > MOST_BYTES:
            return
        with _lock:
            self.free.setdefault(arrays.shape, []).append(arrays)
            _waiting[arrays] = (self, num_bytes)
            total = sum(size for _, size in _waiting.values())
            while total > MOST_BYTES:
                oldest, (pool, size) = _waiting.popitem(last=False)
                pool.free[oldest.shape].remove(oldest)
                total -= size
