"""The model: an architecture with numbers, as an ordinary torch module with a population axis."""

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from rnnlab.architecture.architecture import Architecture, checked_architecture
from rnnlab.architecture.cells import NONLINEARITIES, Cell
from rnnlab.engine.costs import costs
from rnnlab.engine.explanation import labelled
from rnnlab.engine.given import can_look, checked_inputs, checked_state, inside, is_transformed
from rnnlab.engine.initialisation import Initialisation, initial_arrays
from rnnlab.engine.nodes import choices
from rnnlab.engine.plan import Plan, plan
from rnnlab.engine.read_out import ReadOut, last_outputs, read_outs
from rnnlab.engine.reference import initial_state, run_reference
from rnnlab.engine.state import State
from rnnlab.errors import ModelError
from rnnlab.graph.elements import NodeKey
from rnnlab.integers import as_integer
from rnnlab.triton_support import has_triton, is_interpreted

if TYPE_CHECKING:
    from rnnlab.engine.gpu.choice import Choice, Programs
    from rnnlab.engine.pool import Pool

Inputs = Mapping[str, Tensor]
Results = tuple[dict[str, Tensor], State]

PATHS = ("auto", "cpu", "gpu", "gpu-population", "gpu-spread", "gpu-relay", "gpu-cudnn", "reference")
_NOT_A_METHOD = "\N{MIDDLE DOT}"  # follows names of arrays that attributes of nn.ParameterDict have
PRECISIONS = ("float32", "tf32", "bf16")
_NO_TRITON = "Triton, which makes its kernels, is not installed (pip install triton)"


# of each model; no attribute of it, for loaded kernels cannot be copied or pickled
_PROGRAMS: "WeakKeyDictionary[Model, Programs]" = WeakKeyDictionary()


class Model(nn.Module):
    """A network, or a population of networks of one architecture, that runs and trains.

    `y, state = model(x)` takes x as [B, T, N] and gives y as [B, T, M]; with a population the first axis is the member:
    [P, B, T, N]. N is the width of all inputs side by side in the order of their names, M that of the outputs. An input
    of tokens is an integer tensor without the last axis.

    A model computes in the dtype of its parameters and returns that dtype, inside `torch.autocast` too. `torch.export`
    and `torch.onnx.export` record the reference path, for sequences as long as the example; values are not checked
    there.

    Args:
        architecture: what to build.
        seed, generator: the source of the initial weights; give one of the two.
        population: how many members; by default one model without the population axis.
        initialisation: how the initial weights are drawn: one for all members, or one for each.
        nonlinearity: `tanh` or `relu` for each member, instead of what the cells say.
        path: `auto`, or the name of the path to use: `cpu`, `reference`, or `gpu` with the kernels that suit the sizes.
            `gpu-population` runs each member's network in one program, `gpu-spread` spreads a network over many
            programs, `gpu-relay` runs layers of one width side by side, and `gpu-cudnn` lets cuDNN run a stack of
            torch's own layers, in bf16, with states in bf16 too.
        precision: how the GPU path multiplies: `float32`, `tf32` or `bf16`. Parameters, sums and what is carried from
            step to step are float32 in all of them, except for cuDNN's states. Other paths compute in the dtype of the
            parameters.
    """

    def __init__(
        self,
        architecture: Architecture,
        *,
        seed: int | None = None,
        generator: torch.Generator | None = None,
        population: int | None = None,
        initialisation: Initialisation | Sequence[Initialisation] | None = None,
        nonlinearity: str | Sequence[str] | None = None,
        path: str = "auto",
        precision: str = "float32",
    ) -> None:
        super().__init__()
        population = None if population is None else as_integer(population, "population", ModelError, 1)
        if path not in PATHS:
            raise ModelError(f"path is one of {', '.join(PATHS)}, got {path!r}")
        if precision not in PRECISIONS:
            raise ModelError(f"precision is one of {', '.join(PRECISIONS)}, got {precision!r}")
        self.architecture = checked_architecture(architecture, "Model", ModelError)
        self.population = population
        self.path = path
        self.precision = precision
        self.nonlinearity = _per_member(nonlinearity, population or 1, "nonlinearity")
        if wrong := set(self.nonlinearity or ()) - set(NONLINEARITIES):
            raise ModelError(f"nonlinearity is tanh or relu, got {', '.join(map(repr, wrong))}")
        for kind in ("input", "output"):
            if all(node.kind != kind for node in architecture.nodes):
                raise ModelError(f"a model needs an {kind}, and the architecture has none")
        _plan(architecture, architecture.cells)  # refuses an output that is absent at a phase
        members = _per_member(initialisation or Initialisation(), population or 1, "initialisation")
        assert members is not None
        arrays = initial_arrays(architecture, members, _generator(seed, generator))
        self.arrays = nn.ParameterDict(
            {array_name(name): nn.Parameter(value.float()) for name, value in arrays.items()}
        )

    @property
    def plan(self) -> Plan:
        """The order in which the network runs."""
        return _plan(self.architecture, self.architecture.cells)

    def forward(
        self,
        x: Tensor | Mapping[str, Tensor],
        state: State | None = None,
        lengths: Tensor | None = None,
        *,
        only_last: bool = False,
    ) -> tuple[Tensor, State]:
        """Run a batch of sequences.

        Args:
            x: [B, T, N], or [P, B, T, N] for a population; a tensor without P is shared by all members. For a network
                with several inputs, also a mapping from each input's name to its tensor.
            state: the state that an earlier call returned, to continue its sequences.
            lengths: [B], the length of each sequence, if they differ, or [P, B]; whatever follows is padding. A network
                that reads the future (edges of negative delay) runs once for each length that occurs, and where members
                differ in how many sequences have it, once for each such number.
            only_last: return the output of the last step alone, which is faster.

        Returns:
            The outputs, [B, T, M] or [P, B, T, M] (with `only_last` a single step, [B, 1, M]), zero on padding; and the
            state at the end of each sequence, to continue with.
        """
        if torch.compiler.is_compiling() and not torch.compiler.is_exporting():
            untraced = _untraced_forward()  # a fast path is machine code already
            return untraced(self, x, state, lengths, only_last=only_last)
        device = self._any_array.device.type
        if torch.is_autocast_enabled(device):  # lower precision is for single products, not for long recurrences
            with torch.autocast(device, enabled=False):
                return self.forward(x, state, lengths, only_last=only_last)
        if lengths is not None and only_last:
            raise ModelError("sequences of different lengths end at different steps: leave out only_last")
        inputs, lengths = checked_inputs(self.plan, self.population, self._any_array.dtype, x, lengths)
        if state is not None:
            state = checked_state(self.plan, self._any_array.dtype, state, inputs)
        if lengths is None:
            y, end = self._run(inputs, state, only_last=only_last)
            y = y[:, :, -1:] if only_last else y
        elif self.plan.can_stream:
            y, everything = self._run(inputs, state, keep_all=True)
            y = torch.where(inside(lengths, y.shape[2])[..., None], y, 0.0)  # a product would keep NaN
            end = self._at_the_ends(everything, lengths, 0 if state is None else state.step or 0)
        else:
            y, end = self._run_by_length(inputs, lengths)
        return (y[0] if self.population is None else y), end

    def _run(
        self, inputs: Inputs, state: State | None, *, keep_all: bool = False, only_last: bool = False
    ) -> tuple[Tensor, State]:
        """Outputs side by side, [P, B, T, M], and the state at the end, or that of all steps."""
        path = self._chosen_path()
        if path != "reference" and is_transformed():
            raise ModelError(
                f"the {path} path does not run inside torch.func: make the model with path='reference', "
                "or with population=... to run many models at once"
            )
        match path:
            case "gpu":
                outputs, end = self._run_gpu(inputs, state, keep_all=keep_all, only_last=only_last)
            case "cpu":
                outputs, end = self._run_cpu(inputs, state, keep_all=keep_all, only_last=only_last)
            case _:
                parameters, use_relu = self._arrays_by_name(), self._use_relu()
                outputs, end = run_reference(self.plan, parameters, inputs, state, use_relu, keep_all=keep_all)
        y = next(iter(outputs.values())) if len(outputs) == 1 else torch.cat(list(outputs.values()), dim=-1)
        num_steps = (0 if state is None else state.step or 0) + next(iter(inputs.values())).shape[2]
        return y, State(num_steps % self.architecture.period, end.values)

    def _run_by_length(self, inputs: Inputs, lengths: Tensor) -> tuple[Tensor, State]:
        """The same of a network that reads the future, where no sequence may see its padding: length by length.

        Sequences of a length run together if their members have equally many of it. A member's gradients are sums over
        its batch, which round as in a batch of that size: they must not depend on who else has sequences of the length.
        """
        members, batch, num_steps = next(iter(inputs.values())).shape[:3]
        lengths = lengths.expand(members, batch)
        found: dict[tuple[str, str] | None, Tensor] = {}  # the outputs under None, and the parts of the state
        for length in lengths.unique().tolist():
            is_wanted = lengths == length
            counts = is_wanted.sum(dim=1)
            rows = (~is_wanted).int().argsort(dim=1, stable=True)  # wanted ones first, in order
            for count in counts[counts > 0].unique().tolist():
                place = (torch.arange(members, device=lengths.device)[:, None], rows[:, :count])
                y, end = self._run({name: x[:, :, :length][place] for name, x in inputs.items()}, None)
                new = {None: functional.pad(y, (0, 0, 0, num_steps - length)), **end.values}
                those = (counts == count).nonzero()[:, 0]
                found = {part: _placed(each, found.get(part), those, place[1], batch) for part, each in new.items()}
        ends = {part: value for part, value in found.items() if part is not None}
        return found[None], State(self._step_at_the_ends(lengths, 0), ends)

    def _run_gpu(self, inputs: Inputs, state: State | None, *, keep_all: bool, only_last: bool) -> Results:
        from rnnlab.engine.gpu.autograd import run_gpu  # needs Triton
        from rnnlab.engine.gpu.cudnn import CudnnNetwork, run_cudnn

        parameters = self._arrays_by_name()
        read_out = _read_outs(self.architecture, self.architecture.cells) if only_last else None
        batch, has_outputs = next(iter(inputs.values())).shape[1], read_out is None
        program = self._chosen_kernels(batch, has_outputs=has_outputs, keep_all=keep_all).program
        if isinstance(program, CudnnNetwork):
            outputs, new_state = run_cudnn(program, parameters, inputs, state, has_outputs=has_outputs)
        else:
            outputs, new_state = run_gpu(program, parameters, inputs, state, keep_all=keep_all)
        if read_out is not None:
            outputs = last_outputs(read_out, parameters, new_state.values)
        return outputs, new_state

    def _run_cpu(self, inputs: Inputs, state: State | None, *, keep_all: bool, only_last: bool) -> Results:
        from rnnlab.engine.autograd import run_cpu  # its compiler is needed by CPU models only

        pool = _pool(self.architecture, self.architecture.cells, self.nonlinearity)
        return run_cpu(pool, self._arrays_by_name(), inputs, state, keep_all=keep_all, only_last=only_last)

    def initial_state(self, batch_size: int) -> State:
        """The state before the first step of `batch_size` sequences: what `forward` starts from without one.

        Use it for an exported model, which takes a state with every call, or to start some sequences of a batch anew.
        """
        count = as_integer(batch_size, "batch_size", ModelError, 1)
        return initial_state(self.plan, self._arrays_by_name(), (self.population or 1, count))

    def trajectories(
        self, x: Tensor | Mapping[str, Tensor], state: State | None = None
    ) -> dict[tuple[str, str], Tensor]:
        """What the network remembers after every step of a batch, differentiable.

        Args:
            x, state: as in `forward`.

        Returns:
            By node name and part of its state, as in `State.values`: [B, T, N], or [P, B, T, N]; zeros at steps at
            which a node of a network with a period is not computed. Layers that run backward in time are left out.

        >>> from rnnlab.architecture.catalogue import architecture
        >>> model = Model(architecture("lstm", input_size=3, output_size=2, units=4), seed=0)
        >>> x = torch.randn(5, 7, 3)
        >>> found = model.trajectories(x)
        >>> list(found), found["h", "c"].shape
        ([('h', 'c'), ('h', 'h')], torch.Size([5, 7, 4]))
        >>> torch.equal(found["h", "c"][:, -1], model(x)[1].at("h", "c", -1)[0])
        True
        """
        dtype = self._any_array.dtype
        with torch.autocast(self._any_array.device.type, enabled=False):  # as in a forward pass
            inputs, _ = checked_inputs(self.plan, self.population, dtype, x, None)
            state = None if state is None else checked_state(self.plan, dtype, state, inputs)
            everything = self._run(inputs, state, keep_all=True)[1].values
        found = {part: values[:, :, self.plan.histories[part] :] for part, values in everything.items()}
        return found if self.population is not None else {part: values[0] for part, values in found.items()}

    def member(self, number: int) -> "Model":
        """One network of a population as a model of its own, without the population axis, with a copy of its numbers.

        >>> from rnnlab.architecture.catalogue import architecture
        >>> network = architecture("gru", input_size=3, output_size=2, units=4)
        >>> several, x = Model(network, seed=0, population=3), torch.randn(5, 7, 3)
        >>> torch.equal(several.member(1)(x)[0], several(x)[0][1])
        True
        """
        count, found = self.population or 1, as_integer(number, "the number of a member", ModelError)
        if not 0 <= found < count:
            raise ModelError(f"members have the numbers 0 to {count - 1}, got {number!r}")
        alone = Model(
            self.architecture,
            seed=0,
            nonlinearity=self.nonlinearity and self.nonlinearity[found],
            path=self.path,
            precision=self.precision,
        )
        alone.to(self._any_array).train(self.training)
        with torch.no_grad():
            for name, array in self.arrays.items():
                alone.arrays[name].copy_(array[found : found + 1]).requires_grad_(array.requires_grad)
        return alone

    def _arrays_by_name(self) -> dict[str, Tensor]:
        return {spec.name: self.arrays[array_name(spec.name)] for spec in self.architecture.parameters}

    def _at_the_ends(self, everything: State, lengths: Tensor, first_step: int) -> State:
        """The state at the end of each sequence, taken from the values of all steps."""
        kept: dict[tuple[str, str], Tensor] = {}
        for part, values in everything.values.items():
            depth = self.plan.histories[part]  # the values begin that many steps before the first
            rows = lengths[..., None] + torch.arange(depth, device=lengths.device)  # [B, K] or [P, B, K]
            members, sequences = (torch.arange(size, device=lengths.device)[:, None] for size in values.shape[:2])
            kept[part] = values[members[:, None], sequences, rows]
        return State(self._step_at_the_ends(lengths, first_step), kept)

    def _step_at_the_ends(self, lengths: Tensor, first_step: int) -> int | None:
        if self.architecture.period == 1:
            return 0
        if not can_look():  # the lengths are not known yet
            return None
        steps = set(((first_step + lengths) % self.architecture.period).flatten().tolist())
        return steps.pop() if len(steps) == 1 else None

    def extra_repr(self) -> str:
        """What `print(model)` shows besides the parameters."""
        members = "" if self.population is None else f", population={self.population}"
        return f"{self.architecture}{members}"

    def explain(self, *, batch: int = 32, steps: int = 100) -> str:
        """Which path runs and why, the plan, the parameters, and the slots and memory of a training step.

        Args:
            batch: how many sequences a training step has.
            steps: how many time steps each sequence has.
        """
        path, reason = self._path_and_reason()
        num_bytes = self._any_array.element_size()
        found = costs(self.plan, batch=batch, steps=steps, population=self.population or 1, num_bytes=num_bytes)
        if path == "gpu":
            reason += f"; {self._chosen_kernels(batch).reason}"
        return f"{labelled('path', f'{path}: {reason}')}\n{found}"

    def save(self, path: str | Path) -> None:
        """Write weights and architecture to a safetensors file, for `load_model`."""
        from rnnlab.engine.model_files import save_model

        save_model(self, path)

    @property
    def _any_array(self) -> Tensor:
        """One of its parameters: all are of one dtype, on one device."""
        return next(iter(self.arrays.values()))

    def _chosen_path(self) -> str:
        return self._path_and_reason()[0]

    def _chosen_kernels(self, batch: int, **options: bool) -> "Choice":
        from rnnlab.engine.gpu.choice import choose

        kernels = self.path.removeprefix("gpu-") if self.path.startswith("gpu-") else "auto"
        sizes, device = (self.population or 1, batch), self._any_array.device
        programs = _PROGRAMS.setdefault(self, {})
        network = (self.architecture, self.nonlinearity, self.precision)
        with torch.cuda.device(device) if device.type == "cuda" else nullcontext():  # whose room is asked for
            return choose(*network, kernels, sizes, device, programs=programs, **options)

    def _path_and_reason(self) -> tuple[str, str]:
        some = self._any_array
        can_cpu = some.device.type == "cpu" and some.dtype in (torch.float32, torch.float64)
        is_right_for_gpu = some.dtype == torch.float32 and (some.is_cuda or is_interpreted())
        can_gpu = is_right_for_gpu and has_triton()
        if self.path == "reference":
            return "reference", "asked for"
        if torch.compiler.is_exporting():
            return "reference", "an export records operations of torch"
        is_gpu_wanted = self.path.startswith("gpu")
        if is_gpu_wanted and not can_gpu:
            reason = _NO_TRITON if is_right_for_gpu else f"not {some.dtype} on {some.device}"
            raise ModelError(f"the gpu path runs float32 on CUDA devices: {reason}")
        if can_cpu and not is_gpu_wanted:
            return "cpu", "asked for" if self.path == "cpu" else f"{some.dtype} on the CPU".replace("torch.", "")
        if self.path == "cpu":
            raise ModelError(f"the cpu path runs float32 and float64 on the CPU, not {some.dtype} on {some.device}")
        if can_gpu:
            return "gpu", f"{'asked for' if is_gpu_wanted else 'float32 on a GPU'}; precision {self.precision}"
        missing = _NO_TRITON if is_right_for_gpu else f"no fast path for {some.dtype} on {some.device.type} yet"
        return "reference", missing.replace("torch.", "")

    def _use_relu(self) -> dict[NodeKey, Tensor]:
        device = self._any_array.device
        found = choices(self.architecture, self.nonlinearity)
        return {
            key: torch.from_numpy(np.full((1, 1, 1), choice == "relu") if isinstance(choice, str) else choice).to(
                device
            )
            for key, choice in found.items()
        }


def _placed(values: Tensor, before: Tensor | None, members: Tensor, rows: Tensor, batch: int) -> Tensor:
    """Values of some sequences, [P, b, ...], among those of all, [P, B, ...]: of some members, at their rows [P, b]."""
    whole = values.new_zeros(len(values), batch, *values.shape[2:]) if before is None else before
    return whole.index_put((members[:, None], rows[members]), values[members])


def _untraced_forward() -> Any:
    """The forward pass as something that torch.compile calls and does not look into; made only then, for it is slow."""
    return torch.compiler.disable(Model.forward)


def array_name(name: str) -> str:
    """A parameter's name in the state dict, where a dot would part a path and some names are methods."""
    is_taken = name.rstrip(_NOT_A_METHOD) in _taken_names()
    return name.replace(".", "\N{ONE DOT LEADER}") + (_NOT_A_METHOD if is_taken else "")


@lru_cache(maxsize=1)
def _taken_names() -> frozenset[str]:
    return frozenset(dir(nn.ParameterDict()))


def _generator(seed: int | None, generator: torch.Generator | None) -> torch.Generator:
    """What a model is drawn with: never torch's hidden generator, so that nothing else decides how it starts."""
    if seed is None and generator is None:
        raise ModelError("a model draws its initial values from somewhere: give seed=0, or generator=torch.Generator()")
    if generator is not None:
        if seed is not None:
            raise ModelError("give a seed or a generator, got both")
        return generator
    return torch.Generator().manual_seed(as_integer(seed, "seed", ModelError, bits=64))


def _per_member(value: Any, count: int, what: str) -> tuple[Any, ...] | None:
    if value is None:
        return None
    members = tuple(value) if isinstance(value, list | tuple) else (value,) * count
    if len(members) != count:
        raise ModelError(f"{what} must be one for all or one for each of the {count} members, got {len(members)}")
    return members


# architectures know their cells by name only, so the cells are part of each key


@lru_cache(maxsize=64)
def _plan(architecture: Architecture, cells: tuple[Cell, ...]) -> Plan:
    return plan(architecture)


@lru_cache(maxsize=64)
def _read_outs(architecture: Architecture, cells: tuple[Cell, ...]) -> tuple[ReadOut, ...] | None:
    return read_outs(_plan(architecture, cells))


@lru_cache(maxsize=64)
def _pool(architecture: Architecture, cells: tuple[Cell, ...], nonlinearity: tuple[str, ...] | None) -> "Pool":
    from rnnlab.engine.cpu_program import CpuProgram
    from rnnlab.engine.pool import Pool

    return Pool(CpuProgram(_plan(architecture, cells), choices(architecture, nonlinearity)))
