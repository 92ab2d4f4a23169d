"""The cases of `rnnlab bench cpu`: networks, sizes, peers and goals."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from rnnlab.architecture.catalogue import architecture
from rnnlab.bench import loops, torch_peers, torchrecurrent_peers
from rnnlab.bench.equality import training_step
from rnnlab.bench.jax_peers import JaxPeer
from rnnlab.bench.memory import Shape, peak_megabytes
from rnnlab.bench.race import Contender, race
from rnnlab.bench.rows import Row
from rnnlab.bench.timing import FULL_EFFORT, QUICK_EFFORT, Effort, Side, local
from rnnlab.engine.conversion import from_torch
from rnnlab.engine.model import Model
from rnnlab.errors import BenchError


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """Which shapes (B, T, I, H) are run, and how often.

    Args:
        cells: the cells of layers that torch has, and of the members of a population.
        equal: layers that torch has, where rnnlab should at least be as fast.
        layers: the same, where it should be faster, and its memory is compared, too.
        loops: networks that torch has no layer for.
        torchrecurrent: cells of torchrecurrent.
        population: a population of small layers.
        num_members: how many there are in it.
        effort: how often to measure.
    """

    cells: tuple[str, ...] = tuple(torch_peers.LAYERS)
    equal: tuple[Shape, ...] = ((32, 100, 32, 32),)
    layers: tuple[Shape, ...] = ((32, 100, 32, 64), (64, 175, 300, 256), (50, 180, 27, 512))
    loops: tuple[Shape, ...] = ((32, 100, 32, 64), (64, 175, 300, 256))
    torchrecurrent: tuple[Shape, ...] = ((32, 100, 32, 64), (32, 256, 64, 128))
    population: Shape = (32, 100, 32, 32)
    num_members: int = 16
    effort: Effort = FULL_EFFORT


FULL = Sizes()
SMALL = Sizes(
    cells=("gru",),
    equal=(),
    layers=((8, 20, 8, 16),),
    loops=((8, 25, 8, 16),),
    torchrecurrent=((8, 20, 8, 16),),
    population=(4, 20, 8, 8),
    num_members=3,
    effort=QUICK_EFFORT,
)
OUTPUT_SIZE = 10  # the read-out of networks that are raced with a loop


@dataclass(frozen=True)
class Ground:
    """What the cases share: how many threads each side has, the process that runs JAX, how often to measure."""

    threads: int
    jax: JaxPeer | None
    effort: Effort

    def race(self, case: str, model: Model, x: Tensor, dy: Tensor, *contenders: Contender) -> Iterator[Row]:
        """The rows of a training step of a model against its peers."""
        yield from race(case, self.threads, local(training_step(model, x, dy)), contenders, self.effort)

    def jax_side(self, *given: Any) -> Side:
        """The steps of JAX, as `JaxPeer.side` takes them; asked for only where it is installed."""
        assert self.jax is not None
        return self.jax.side(*given)


@dataclass(frozen=True)
class Case:
    """One race or one comparison of memory: its name, and how to run it."""

    name: str
    rows: Callable[[Ground], Iterator[Row]]


def cases(sizes: Sizes) -> list[Case]:
    """Every case, in the order of the table."""
    found: list[Case] = []
    for cell in sizes.cells:
        goals = dict.fromkeys(sizes.equal, 1.0) | dict.fromkeys(sizes.layers, 1.2)
        found += [_case(layer_rows, cell, shape, goal=goal) for shape, goal in goals.items()]
    found += [_case(loop_rows, name, shape) for shape in sizes.loops for name in loops.LOOPS]
    cells = torchrecurrent_peers.CELLS
    found += [_case(torchrecurrent_rows, cell, shape) for cell in cells for shape in sizes.torchrecurrent]
    size, shape = sizes.num_members, sizes.population
    found += [_case(population_rows, cell, shape, num_members=size) for cell in sizes.cells]
    found += [_case(memory_rows, cell, shape) for cell in sizes.cells for shape in sizes.layers]
    return found


def _case(rows: Callable[..., Iterator[Row]], name: str, shape: Shape, **options: Any) -> Case:
    return Case(f"{name} {shape}", partial(rows, name=name, shape=shape, **options))


def layer_rows(ground: Ground, name: str, shape: Shape, goal: float) -> Iterator[Row]:
    """A layer that torch has, against torch.nn and JAX."""
    case = f"{name} {shape}"
    layer = torch_peers.make_layer(name, shape[2], shape[3])
    model = from_torch(layer)
    x, dy = _data(shape)
    in_torch = Contender(
        peer=f"torch.nn.{type(layer).__name__}",
        goal=goal,
        prepare=lambda: torch_peers.layer_side(case, model, layer, x, dy),
    )
    in_jax = Contender(
        peer="jax.jit of lax.scan",
        goal=goal,
        prepare=lambda: ground.jax_side(case, name, [layer], x, dy),
        package="jax",
    )
    yield from ground.race(case, model, x, dy, in_torch, in_jax)


def loop_rows(ground: Ground, name: str, shape: Shape) -> Iterator[Row]:
    """A network that torch has no layer for, with a read-out, against a loop written by hand."""
    case = f"{name} {shape}"
    network = architecture(name, input_size=shape[2], output_size=OUTPUT_SIZE, units=shape[3])
    model = Model(network, generator=torch.Generator().manual_seed(0))
    x, dy = _data(shape, OUTPUT_SIZE)
    by_hand = Contender(peer="loop by hand", goal=3.0, prepare=lambda: loops.loop_side(case, model, name, x, dy))
    yield from ground.race(case, model, x, dy, by_hand)


def torchrecurrent_rows(ground: Ground, name: str, shape: Shape) -> Iterator[Row]:
    """A layer that torchrecurrent has."""
    case = f"{name} {shape}"
    model = torchrecurrent_peers.make_model(name, shape[2], shape[3])
    x, dy = _data(shape)
    peer = Contender(
        peer=f"torchrecurrent.{torchrecurrent_peers.CELLS[name]}",
        goal=10.0,
        prepare=lambda: torchrecurrent_peers.layer_side(case, model, name, x, dy),
        package="torchrecurrent",
    )
    yield from ground.race(case, model, x, dy, peer)


def population_rows(ground: Ground, name: str, shape: Shape, num_members: int) -> Iterator[Row]:
    """A population of layers, each with its own numbers and sequences, against torch.nn in turn and jax.vmap."""
    case = f"{num_members} x {name} {shape}"
    members = range(num_members)
    layers = [torch_peers.make_layer(name, shape[2], shape[3], seed=member) for member in members]
    model = torch_peers.make_population(layers)
    x, dy = (torch.stack(each) for each in zip(*(_data(shape, seed=member) for member in members), strict=True))
    in_turn = Contender(
        peer=f"torch.nn.{type(layers[0]).__name__} in turn",
        goal=4.0,
        prepare=lambda: torch_peers.members_side(case, model, layers, x, dy),
    )
    in_jax = Contender(
        peer="jax.vmap of lax.scan",
        goal=1.0,
        prepare=lambda: ground.jax_side(case, name, layers, x, dy),
        package="jax",
    )
    yield from ground.race(case, model, x, dy, in_turn, in_jax)


def memory_rows(ground: Ground, name: str, shape: Shape) -> Iterator[Row]:
    """The peak memory of a training step against torch.nn's."""
    peer = f"torch.nn.{torch_peers.LAYERS[name].__name__}"
    row = Row(case=f"{name} {shape}", peer=peer, threads=ground.threads, goal=1.5, unit="mb")
    try:
        ours, theirs = (peak_megabytes(side, name, shape) for side in ("ours", "torch"))
        yield replace(row, ours=ours, theirs=theirs)
    except BenchError as error:
        yield replace(row, note=str(error))


def _data(shape: Shape, output_size: int | None = None, *, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Inputs [B, T, I] and the gradient of the outputs, [B, T, H] or of the width given."""
    batch, steps, inputs, units = shape
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(batch, steps, inputs, generator=generator)
    return x, torch.randn(batch, steps, output_size or units, generator=generator)
