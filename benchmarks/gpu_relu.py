"""Are relu networks off in low precision only because a slope jumps, or is something wrong?

The slope of relu jumps at 0. Where rounding takes an argument to the other side, the fast path computes the gradient of
another, equally good, piece of the function, and no tolerance is right. So sequences are chosen by how near to 0 the
arguments of all relus come, in float64. Those that stay farther away than rounding reaches must agree, outputs and
gradients, in every precision: there no slope can differ, and any error is an error of the kernels. If all of these
agree, the kernels are right; those that come nearest show how much the jumps alone amount to.
"""

from collections.abc import Sequence
from typing import Any
from unittest import mock

import torch
from torch import Tensor

from rnnlab import architecture
from tests.engine.comparison import REFERENCE, Case, DifferenceError, Tolerance, Way, compare_ways, make_case, run

NETWORKS = (
    *("sh:tanh", "td:tanh", "skip-3:tanh", "dots-2:tanh", "sh:lstm", "sh:gru", "sh:mgu", "st:gru-cudnn"),
    *("mongia-d:lstm", "stack-2:intersection"),
)
MEMBERS, STEPS, UNITS = 3, 4, 5
CANDIDATES, CHOSEN = 8192, 16
MARGIN = 0.04  # twice what a state may be off in bf16


def check(name: str) -> dict[str, Any]:
    """One network, both kinds of kernels: how many comparisons, and which are wrong near jumps and away from them."""
    from tests.engine.gpu.checks import TOLERANCES, kinds

    near, away = cases(name)
    found: dict[str, Any] = {"comparisons": 0, "wrong_near_a_jump": 0, "wrong": []}
    for precision in ("tf32", "bf16"):
        for path in kinds(away, precision, "cuda"):
            way = Way(path, torch.float32, "cuda", precision)
            found["comparisons"] += 1
            found["wrong_near_a_jump"] += difference(near, way, TOLERANCES[precision]) is not None
            if message := difference(away, way, TOLERANCES[precision]):
                found["wrong"].append(f"relu {name}, no argument within {MARGIN} of 0: {message}")
    return found


def difference(case: Case, way: Way, tolerance: Tolerance) -> str | None:
    """How a way to run a case differs from the reference, if it does."""
    try:
        compare_ways(case, {way: tolerance})
    except DifferenceError as error:
        return str(error)
    return None


def cases(name: str) -> tuple[Case, Case]:
    """The sequences of a network whose relus come nearest to 0, and those that stay farthest away."""
    network = architecture(name, input_size=3, output_size=2, units=UNITS)
    options: Any = {"num_steps": STEPS, "population": MEMBERS, "nonlinearity": ("relu",) * MEMBERS}
    case = make_case(network, batch_size=CANDIDATES, **options)
    distances = relu_distances(case)
    order = distances.argsort(dim=1)
    near, away = _chosen(case, order[:, :CHOSEN]), _chosen(case, order[:, -CHOSEN:])
    margin = float(relu_distances(away).min())
    if margin < MARGIN:
        raise DifferenceError(f"relu {name}: of {CANDIDATES} sequences the best stay {margin:.3f} away, not {MARGIN}")
    return near, away


def relu_distances(case: Case) -> Tensor:
    """For each member and sequence the smallest size of an argument of relu, [P, B], in float64."""
    seen: list[Tensor] = []
    relu = torch.relu

    def recorded(x: Tensor) -> Tensor:
        seen.append(x.detach().abs().amin(dim=-1))
        return relu(x)

    with mock.patch.object(torch, "relu", recorded):
        run(case, REFERENCE)
    return torch.stack(seen).amin(dim=0)


def _chosen(case: Case, sequences: Tensor) -> Case:
    members = torch.arange(sequences.shape[0])[:, None]
    return case._replace(inputs={name: value[members, sequences] for name, value in case.inputs.items()})


def summary(found: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """What all networks together say."""
    comparisons = sum(each["comparisons"] for each in found)
    near, away = sum(each["wrong_near_a_jump"] for each in found), sum(len(each["wrong"]) for each in found)
    outcome = "relu kernels are right: all that differs are slopes that jump"
    if len(found) < len(NETWORKS):
        outcome = f"open: {len(NETWORKS) - len(found)} of {len(NETWORKS)} networks were not compared"
    if away:
        outcome = "relu kernels are WRONG"
    return {"comparisons": comparisons, "wrong_near_a_jump": near, "wrong_away_from_jumps": away, "outcome": outcome}
