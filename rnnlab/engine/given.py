"""What a model is given (inputs, lengths, a state), checked once and put into the form that all paths read."""

from collections.abc import Mapping

import torch
from torch import Tensor

from rnnlab.architecture.architecture import Architecture
from rnnlab.architecture.specs import NodeSpec
from rnnlab.engine.plan import Plan
from rnnlab.engine.state import State
from rnnlab.errors import ModelError


def checked_inputs(
    plan: Plan,
    population: int | None,
    dtype: torch.dtype,
    x: Tensor | Mapping[str, Tensor],
    lengths: Tensor | None,
) -> tuple[dict[str, Tensor], Tensor | None]:
    """The inputs by name, [P, B, T, N], with zeros for padding, and the lengths.

    Args:
        plan: of the network.
        population: how many members it has, or None for a single network, whose inputs have no axis of members.
        dtype: what runs.
        x, lengths: as `Model.forward` takes them.
    """
    nodes = _inputs_of(plan.architecture)
    if not isinstance(x, Tensor | Mapping):
        raise ModelError(f"x must be a tensor, or a tensor for each input by name, got {type(x).__name__}")
    given = _split(nodes, x) if isinstance(x, Tensor) else dict(x)
    if set(given) != set(nodes):
        raise ModelError(f"the network has the inputs {', '.join(nodes)}, got {', '.join(given)}")
    inputs = {name: _input(given[name], node, population, dtype) for name, node in nodes.items()}
    axes = {name: 2 if node.encoding == "tokens" else 3 for name, node in nodes.items()}
    sizes = [tuple(value.shape[value.dim() - axes[name] :][:2]) for name, value in inputs.items()]
    if any(size != sizes[0] for size in sizes):
        raise ModelError(f"inputs differ in batch size or length: {', '.join(map(str, sizes))}")
    if lengths is not None:
        lengths = _lengths(plan, lengths, population, *sizes[0])
        is_inside = inside(lengths, sizes[0][1])
        for name, value in inputs.items():
            # with lengths for each member the masks have P in front
            mask = is_inside if axes[name] == 2 else is_inside[..., None]
            inputs[name] = torch.where(mask, value, torch.zeros((), dtype=value.dtype, device=value.device))
    for name, node in nodes.items():
        _check_values(inputs[name], node.units if axes[name] == 2 else None)
        if inputs[name].dim() == axes[name]:
            inputs[name] = inputs[name].expand(population or 1, *inputs[name].shape)
    return inputs, lengths


def checked_state(plan: Plan, dtype: torch.dtype, state: State, inputs: Mapping[str, Tensor]) -> State:
    """The state in the dtype that runs, once checked to continue sequences of this network and batch."""
    if not isinstance(state, State):
        raise ModelError(
            f"a state is what an earlier call returned, got {type(state).__name__}; "
            "initial_state(batch_size) makes a first one"
        )
    if state.step is None:
        raise ModelError("the sequences of the state ended at different phases: they cannot be continued together")
    if not plan.can_stream:
        raise ModelError(
            "the network reads the future (an edge has a negative delay): its sequences cannot be continued"
        )
    nodes = plan.architecture.nodes
    size = next(iter(inputs.values())).shape[:2]
    widths = {node.name: () if node.encoding == "tokens" else (node.units,) for node in nodes}
    wanted = {part: (*size, depth, *widths[part[0]]) for part, depth in plan.histories.items() if depth}
    found = {part: tuple(value.shape) for part, value in state.values.items()}
    if wanted != found:
        raise ModelError(f"the state is of another network or batch: wanted {wanted}, got {found}")
    num_tokens = {node.name: node.units for node in nodes if node.encoding == "tokens"}
    values = {
        part: _tokens(value) if part[0] in num_tokens else _real(value, "the state", dtype)
        for part, value in state.values.items()
    }
    for (name, _), value in values.items():
        if name in num_tokens:
            _check_values(value, num_tokens[name], lowest=-1)
    return State(state.step, values)


def inside(lengths: Tensor, num_steps: int) -> Tensor:
    """Which steps are no padding, [B, T], or [P, B, T] where members have lengths of their own."""
    return torch.arange(num_steps, device=lengths.device) < lengths[..., None]


def is_transformed() -> bool:
    """Whether torch.func is tracing: then values cannot be inspected, nor rnnlab's own operations taken apart."""
    return torch._C._are_functorch_transforms_active()  # type: ignore[attr-defined]


def can_look() -> bool:
    """Whether values can be inspected: not in an export, inside torch.func, or while a CUDA graph is recorded."""
    is_recorded = torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing()
    return not (is_recorded or torch.compiler.is_exporting() or is_transformed())


def _inputs_of(architecture: Architecture) -> dict[str, NodeSpec]:
    return {node.name: node for node in architecture.nodes if node.kind == "input"}


def _split(nodes: Mapping[str, NodeSpec], x: Tensor) -> dict[str, Tensor]:
    """One tensor for all inputs, cut up among them."""
    if len(nodes) == 1:
        return {next(iter(nodes)): x}
    if any(node.encoding == "tokens" for node in nodes.values()):
        raise ModelError(f"with tokens among several inputs give each by name: {', '.join(nodes)}")
    widths = [node.units for node in nodes.values()]
    if x.shape[-1] != sum(widths):
        raise ModelError(f"x must be {sum(widths)} wide for the inputs {', '.join(nodes)}, got {x.shape[-1]}")
    return dict(zip(nodes, x.split(widths, dim=-1), strict=True))


def _input(x: Tensor, node: NodeSpec, population: int | None, dtype: torch.dtype) -> Tensor:
    """An input of the right shape, in the dtype that runs."""
    is_tokens = node.encoding == "tokens"
    axes, wanted = (2, "[B, T]") if is_tokens else (3, f"[B, T, {node.units}]")
    if x.dim() not in ((axes, axes + 1) if population else (axes,)):
        raise ModelError(f"x must be {wanted}{' or with P in front' if population else ''}, got {list(x.shape)}")
    if x.dim() > axes and x.shape[0] != population:
        raise ModelError(f"x has {x.shape[0]} members on its first axis, the population has {population}")
    size = list(x.shape[x.dim() - axes :][:2])
    if min(size) < 1:
        raise ModelError(f"x needs at least one sequence and one time step, got {size}")
    if is_tokens:
        return _tokens(x)
    if x.shape[-1] != node.units:
        raise ModelError(f"x must be {node.units} wide, got {x.shape[-1]}")
    return _real(x, "x", dtype)


def _lengths(plan: Plan, lengths: Tensor, population: int | None, batch: int, steps: int) -> Tensor:
    """The lengths, in a type that does not overflow when the first step is added."""
    if not isinstance(lengths, Tensor):
        raise ModelError(f"lengths must be a tensor of {batch} integers, got {type(lengths).__name__}")
    if not _is_integer(lengths) or tuple(lengths.shape) not in ((batch,), (population, batch)):
        members = f", or as many for each of the {population} members" if population else ""
        found = f"{lengths.dtype} of shape {list(lengths.shape)}"
        raise ModelError(f"lengths must be {batch} integers{members}, got {found}")
    lengths = lengths.long()
    if not (can_look() or plan.can_stream):
        raise ModelError(
            "the network reads the future (an edge has a negative delay): in an export, in a CUDA graph, and inside "
            "torch.func, run sequences of one length"
        )
    if can_look() and (int(lengths.min()) < 1 or int(lengths.max()) > steps):
        raise ModelError(f"lengths lie from 1 to {steps}, got {int(lengths.min())} to {int(lengths.max())}")
    return lengths


def _is_integer(x: Tensor) -> bool:
    return not (x.dtype.is_floating_point or x.dtype.is_complex or x.dtype == torch.bool)


def _tokens(x: Tensor) -> Tensor:
    if not _is_integer(x):
        raise ModelError(f"tokens are integers, got {x.dtype}")
    return x.long()


def _real(x: Tensor, what: str, dtype: torch.dtype) -> Tensor:
    """Numbers in that type, as they are in memory: a path that takes their address sees no sign that is to come."""
    if x.dtype.is_complex:
        raise ModelError(f"{what} holds real numbers, got {x.dtype}")
    return x.resolve_neg().to(dtype)


def _check_values(x: Tensor, num_tokens: int | None, lowest: int = 0) -> None:
    """Refuse NaN, and tokens that are out of range."""
    # to look at numbers on a GPU would make the program wait for it at every step
    if x.is_cuda or not can_look():
        return
    if num_tokens is None and _has_nan(x):
        raise ModelError("x holds NaN")
    if num_tokens is not None and (int(x.min()) < lowest or int(x.max()) >= num_tokens):
        raise ModelError(f"tokens lie from 0 to {num_tokens - 1}, got {int(x.min())} to {int(x.max())}")


def _has_nan(x: Tensor) -> bool:
    """Whether a number is NaN. Their sum is NaN too, and soon found; infinities may make one as well."""
    return bool(x.detach().sum().isnan()) and bool(x.isnan().any())
