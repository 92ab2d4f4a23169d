"""rnnlab's side of a case: the network, its numbers, its data, and how long its first call takes."""

import time
from copy import deepcopy
from functools import lru_cache
from typing import NamedTuple

import gpu_timing
import torch
from gpu_sizes import NETWORKS_BY_HAND
from torch import Tensor

from rnnlab import Architecture, EdgeSpec, NodeSpec, architecture
from rnnlab.engine.initialisation import Initialisation
from rnnlab.engine.model import Model
from rnnlab.engine.plan import plan

OUTPUTS = 16


class Case(NamedTuple):
    """A network and the sizes it is run with."""

    network: str  # as the catalogue calls it, or `heads-12:lstm`
    units: int
    inputs: int
    batch: int
    steps: int
    precision: str = "bf16"
    members: int | None = None
    path: str = "gpu"


def network_of(case: Case) -> Architecture:
    """The architecture of a case."""
    if case.network.startswith("heads-"):
        count, _, cell = case.network.removeprefix("heads-").partition(":")
        return heads(int(count), cell, case.units // int(count), case.inputs)
    return architecture(case.network, input_size=case.inputs, output_size=OUTPUTS, units=case.units)


def heads(count: int, cell: str, units: int, inputs: int) -> Architecture:
    """Layers side by side that see the same inputs and not one another: a block-diagonal recurrent matrix."""
    names = [f"h{number}" for number in range(1, count + 1)]
    nodes = [NodeSpec(name="x", kind="input", units=inputs), NodeSpec(name="y", kind="output", units=OUTPUTS)]
    nodes += [NodeSpec(name=name, kind="hidden", units=units, cell=cell) for name in names]
    edges: list[EdgeSpec] = []
    for name in names:
        edges.append(EdgeSpec(source=("x", 0), target=(name, 0), delay=0))
        edges.append(EdgeSpec(source=(name, 0), target=(name, 0), delay=1, carry=True))
        edges.append(EdgeSpec(source=(name, 0), target=("y", 0), delay=0))
    return Architecture(nodes, edges)


def make_model(case: Case) -> Model:
    """A model with numbers of its own, the same for every precision and path."""
    model = deepcopy(_drawn(case.network, case.units, case.inputs, case.members))
    model.path, model.precision = case.path, case.precision
    return model.to(gpu_timing.DEVICE)


@lru_cache(maxsize=1)
def _drawn(network: str, units: int, inputs: int, members: int | None) -> Model:
    case = Case(network, units, inputs, 1, 1, members=members)
    # networks with several matrices into a node are chaotic as they start otherwise: no two precisions would agree
    initialisation = Initialisation(square_scale=0.7 if network in NETWORKS_BY_HAND else 1.0)
    generator = torch.Generator().manual_seed(0)
    return Model(network_of(case), generator=generator, population=members, initialisation=initialisation)


def make_data(case: Case) -> tuple[Tensor, Tensor]:
    """Inputs [B, T, I], the same for all members, and the gradient of the outputs."""
    generator = torch.Generator(gpu_timing.DEVICE).manual_seed(1)
    members = () if case.members is None else (case.members,)
    x = torch.randn(case.batch, case.steps, case.inputs, generator=generator, device=gpu_timing.DEVICE)
    shape = (*members, case.batch, case.steps, OUTPUTS)
    return x, torch.randn(shape, generator=generator, device=gpu_timing.DEVICE)


def exact_copy(model: Model, members: int | None) -> Model:
    """The reference in float64 with a model's numbers, of a population those of its first members."""
    copy = Model(model.architecture, generator=torch.Generator(), population=members, path="reference").double()
    with torch.no_grad():
        for name, value in model.arrays.items():
            copy.arrays[name].copy_(value[: members or 1])
    return copy.to(gpu_timing.DEVICE)


def first_call_seconds(case: Case) -> float:
    """How long the first training step of a network takes, compiled anew; short, but compiled as the long one is."""
    torch.set_num_threads(1)  # a process for each core does this at the same time
    steps = 16 if case.steps % 16 == 0 else 3  # Triton tells apart what 16 divides
    gpu_timing.free_memory()  # has cuBLAS ready
    model, (x, dy) = make_model(case), make_data(case._replace(steps=steps))
    torch.cuda.synchronize()
    start = time.perf_counter()
    gpu_timing.training_step(model, x, dy)()
    torch.cuda.synchronize()
    return time.perf_counter() - start


def kernels_of(model: Model, case: Case) -> str:
    """The line of `explain` that says which kernels run."""
    return model.explain(batch=case.batch, steps=case.steps).splitlines()[0].removeprefix("path").strip()


def num_slots(model: Model, case: Case) -> int:
    """How many slots the kernels take one after another."""
    kernels = kernels_of(model, case)
    order = "wavefront" if "spread over" in kernels or "side by side" in kernels else "by component"
    return plan(model.architecture, order=order).num_slots(case.steps)
