"""The outputs of the last step from the final state, for tasks that need no others: the rest is not computed."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from rnnlab.engine.nodes import Part
from rnnlab.engine.plan import Plan


class ReadOut(NamedTuple):
    """How an output follows from the state: a sum of parts of it, or of products with them, and a bias."""

    name: str
    terms: tuple[tuple[Part, str | None], ...]  # a part of the state, and the matrix that multiplies it, if any does
    bias: str


def read_outs(plan: Plan) -> tuple[ReadOut, ...] | None:
    """How all outputs of the last step follow from the final state; None where they need more than that.

    That is possible if outputs read only present values that are also read at a later step, and nothing reads the
    outputs.
    """
    architecture = plan.architecture
    outputs = [node for node in architecture.nodes if node.kind == "output"]
    if architecture.period > 1 or any(edge.source in {node.key for node in outputs} for edge in architecture.edges):
        return None
    found: list[ReadOut] = []
    for node in outputs:
        terms: list[tuple[Part, str | None]] = []
        for edge in architecture.incoming(node.key):
            part = (edge.source[0], edge.port or "")
            is_hidden = architecture.by_key[edge.source].kind == "hidden"
            if edge.delay or not is_hidden or not plan.histories.get(part):
                return None
            matrix = architecture.matrix_name(edge) if edge.transform == "dense" else None
            terms.append((part, matrix))
        found.append(ReadOut(node.name, tuple(terms), architecture.bias_name(node.key)))
    return tuple(found)


def last_outputs(
    found: Sequence[ReadOut], parameters: Mapping[str, Tensor], state: Mapping[Part, Tensor]
) -> dict[str, Tensor]:
    """The outputs of the last step by name, [P, B, 1, M], from the parts of the final state, [P, B, K, N]."""
    outputs: dict[str, Tensor] = {}
    for name, terms, bias in found:
        total = parameters[bias][:, None]
        for part, matrix in terms:
            last = state[part][:, :, -1]
            total = total + last if matrix is None else torch.baddbmm(total, last, parameters[matrix])
        size = next(iter(state.values())).shape[:2]
        outputs[name] = total.expand(*size, -1)[:, :, None]
    return outputs
