"""The cycle ratios equal those of an independent package."""

import importlib.util
from fractions import Fraction

import numpy as np
import pytest

from rnnlab import CyclicGraph, measure

pytestmark = [
    pytest.mark.peers,
    pytest.mark.skipif(
        importlib.util.find_spec("digraphx") is None, reason="digraphx is not installed (pip install rnnlab[bench])"
    ),
]


@pytest.mark.parametrize("seed", range(5))
def test_cycle_ratios_equal_those_of_digraphx(seed: int) -> None:
    from digraphx.min_cycle_ratio import MinCycleRatioSolver

    rng = np.random.default_rng(seed)
    size = 100
    pairs = {(int(u), int(v)): int(d) for u, v, d in rng.integers(0, (size, size, 6), (500, 3))}
    pairs = {(u, v): d or 1 if u >= v else d for (u, v), d in pairs.items()} | {
        (n, (n + 1) % size): 1 for n in range(size)
    }
    measures = measure(
        CyclicGraph([(str(n),) for n in range(size)], [(str(u), str(v), d) for (u, v), d in pairs.items()])
    )
    for sign, expected in ((1, 1 / measures.recurrent_depth), (-1, -measures.recurrent_skip_coefficient)):
        adjacent: dict[int, dict[int, dict[str, int]]] = {node: {} for node in range(size)}
        for (u, v), delay in pairs.items():
            adjacent[u][v] = {"cost": sign * delay, "time": 1}
        ratio, _ = MinCycleRatioSolver(adjacent).run({node: Fraction(0) for node in adjacent}, Fraction(6))
        assert ratio == expected
