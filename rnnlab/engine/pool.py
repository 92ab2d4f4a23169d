"""Arrays that are used again: a fresh large array costs a page fault for every 4 KB it holds."""

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

_MOST_BYTES = 2**29


class Pool:
    """Arrays by shape and type, taken and given back; what they hold when taken is anything at all."""

    def __init__(self) -> None:
        self.free: dict[tuple[tuple[int, ...], str], list[Array]] = {}
        self.num_bytes = 0

    def take(self, shape: tuple[int, ...], dtype: Any) -> Array:
        """An array of that shape and type, used before or new."""
        waiting = self.free.get((shape, np.dtype(dtype).str))
        if not waiting:
            return np.empty(shape, dtype)
        array = waiting.pop()
        self.num_bytes -= array.nbytes
        return array

    def give(self, arrays: Iterable[Array]) -> None:
        """Take arrays back that nothing refers to any longer."""
        for array in arrays:
            if self.num_bytes + array.nbytes > _MOST_BYTES:  # lengths or batch sizes change: begin anew
                self.free.clear()
                self.num_bytes = 0
            self.free.setdefault((array.shape, array.dtype.str), []).append(array)
            self.num_bytes += array.nbytes
