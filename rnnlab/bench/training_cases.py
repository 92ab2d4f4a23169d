"""The cases of `rnnlab bench train`: populations in training against the same trials one after another.

A step is everything that training does again and again: a new batch, forward, loss, backward, clipping, Adam. Both
sides start from the same numbers and see the same batches; the losses of their first steps must agree before they are
timed: in float32 for several steps, in less precision for the first only, because Adam divides gradients by their own
size, so that rounding errors of the smallest move a network as far as its largest gradients do. A trial alone draws its
own batches, a population draws them once for all members: that is part of the race.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import cycle

import torch
from torch import Tensor

from rnnlab.architecture.architecture import Architecture
from rnnlab.architecture.catalogue import architecture
from rnnlab.bench.rows import Row
from rnnlab.bench.timing import FULL_EFFORT, QUICK_EFFORT, Effort, Side, medians
from rnnlab.bench.training_peers import LAYERS, Network, Trial, let_torch_multiply_in
from rnnlab.bench.training_pixels import RandomPixels
from rnnlab.errors import BenchError, TaskError
from rnnlab.tasks.registry import task
from rnnlab.tasks.task import AbstractTask
from rnnlab.training.events import Event, Stepped
from rnnlab.training.feed import Feed
from rnnlab.training.hyperparameters import Hyperparameters
from rnnlab.training.numbers import Layout
from rnnlab.training.population import Population

NUM_COMPARED_STEPS = 5
NUM_COMPARED_MEMBERS = 8
NUM_TIMED_TRIALS = 4  # all trials cost the same, so that some of them tell the speed of all
LOOK_EVERY = 100  # as `train` does
CLIP = 1.0

# of a loss, over the first steps; the errors of one pass are bench/equality.py's
TOLERANCES = {"float32": 1e-3, "tf32": 1e-2, "bf16": 5e-2}


@dataclass(frozen=True, kw_only=True)
class Case:
    """A population in training.

    Args:
        cell: of its one layer, a key of LAYERS.
        num_members: how many networks there are.
        task: what they learn.
        goal: how many times as many model-steps a second as torch's rnnlab should do.
        units: how wide the layer is; or `parameters`, how many numbers a network has at most.
        note: what a reader must know.
    """

    cell: str
    num_members: int
    task: AbstractTask
    goal: float
    units: int | None = None
    parameters: int | None = None
    note: str = ""

    @property
    def network(self) -> Architecture:
        """What every member is."""
        given, wanted = self.task.input_size, self.task.output_size
        return architecture(
            f"sh:{self.cell}", input_size=given, output_size=wanted, units=self.units, parameters=self.parameters
        )

    @property
    def name(self) -> str:
        """Members, cell, sizes and task."""
        sizes = (self.task.batch_size, self.task.num_steps, self.task.input_size, self.network.by_key["h", 0].units)
        note = f" ({self.note})" if self.note else ""
        return f"{self.num_members} x {self.cell} {sizes}, {self.task.name}{note}"

    @property
    def members(self) -> tuple[Hyperparameters, ...]:
        """Adam with learning rates and seeds that differ from member to member."""
        start = Hyperparameters(num_steps=10**9, evaluate_every=10**9, clip_value=CLIP)
        rates = torch.logspace(-4, -2, self.num_members, dtype=torch.float64).tolist()
        seeded = start.with_seeds(self.num_members)
        return tuple(replace(member, learning_rate=rate) for member, rate in zip(seeded, rates, strict=True))

    def population(self, device: torch.device, precision: str, report: Callable[[Event], None]) -> Population:
        """All of them, before the first step."""
        return Population(
            self.network,
            self.task,
            self.members,
            seed=0,
            device=device,
            path="auto",
            precision=precision,
            use_graph=None,
            report=report,
            start=None,
            snapshot=None,
        )

    def trial(self, member: int, device: torch.device) -> Trial:
        """The same member with torch.nn and torch.optim."""
        layout, chosen = Layout(self.network), self.members[member]
        parts = layout.initial([chosen])[0].split(layout.sizes)
        arrays = {spec.name: part.view(spec.shape).to(device) for spec, part in zip(layout.specs, parts, strict=True)}
        return Trial(Network(self.cell, arrays), self.task, learning_rate=chosen.learning_rate, clip=CLIP)

    def feed(self, seed: int, device: torch.device) -> Feed:
        """Batches; with seed 0 those of the population."""
        return Feed(self.task, self.task.batch_size, [seed], device)


def cpu_cases(*, quick: bool) -> list[Case]:
    """16 models of 64 units."""
    if quick:
        return [Case(cell="lstm", num_members=3, units=8, task=task("adding", length=10), goal=3.0)]
    return [
        Case(cell=cell, num_members=16, units=64, task=chosen, goal=3.0)
        for chosen in (task("adding", length=100), task("parentheses", length=50))
        for cell in LAYERS
    ]


def cuda_cases(*, quick: bool) -> list[Case]:
    """Parentheses with 200,000 parameters, and as many steps as an image of MNIST has pixels."""
    pixels, note = _pixels()
    few = quick and 4
    return [
        *(
            Case(cell=cell, num_members=few or 132, parameters=200_000, task=task("parentheses"), goal=30.0)
            for cell in ("gru-cudnn", "lstm")
        ),
        Case(cell="tanh", num_members=few or 500, units=64, task=pixels, goal=100.0, note=note),
    ]


def race(case: Case, *, threads: int, device: torch.device, precision: str, quick: bool) -> Row:
    """The model-steps a second of both sides, or why they were not timed."""
    peer = f"torch.nn.{LAYERS[case.cell].__name__} in turn"
    row = Row(case=case.name, peer=peer, threads=threads, goal=case.goal, unit="model_steps_per_second")
    try:
        compare_losses(case, device, "float32", NUM_COMPARED_STEPS)
        if precision != "float32":
            compare_losses(case, device, precision, 1)
    except BenchError as error:
        return replace(row, note=str(error), is_refused=True)
    times = timed(case, device, precision, QUICK_EFFORT if quick else FULL_EFFORT)
    return replace(row, ours=case.num_members * 1e3 / times["ours"], theirs=1e3 / times["theirs"])


def compare_losses(case: Case, device: torch.device, precision: str, num_steps: int) -> None:
    """Raise where the first losses of a member are not those of its trial."""
    let_torch_multiply_in(precision, device)
    events: list[Event] = []
    population = case.population(device, precision, events.append)
    members = range(min(case.num_members, NUM_COMPARED_MEMBERS))
    trials = [case.trial(member, device) for member in members]
    for trial in trials:
        trial.network.freeze_second_bias()
    feed = case.feed(0, device)
    for step in range(num_steps):
        batch = feed.next()
        theirs = [float(trial.step(batch)) for trial in trials]
        population.step()
        population.look()
        (*_, told) = (event for event in events if isinstance(event, Stepped))
        _check_losses(case, step, told.losses[: len(members)], theirs, TOLERANCES[precision])


def _check_losses(
    case: Case, step: int, ours: Sequence[float | None], theirs: Sequence[float], tolerance: float
) -> None:
    for member, (mine, wanted) in enumerate(zip(ours, theirs, strict=True)):
        if mine is None or not abs(mine - wanted) <= tolerance * abs(wanted):
            raise BenchError(
                f"{case.name}: the loss of member {member} at step {step} is {mine}, torch's {wanted:.6g}; "
                "refused to time it"
            )


def timed(case: Case, device: torch.device, precision: str, effort: Effort) -> dict[str, float]:
    """The median milliseconds of a step of the whole population, and of a step of one trial."""
    let_torch_multiply_in(precision, device)
    population = case.population(device, precision, lambda event: None)

    def ours() -> None:
        population.step()
        if population.num_steps % LOOK_EVERY == 0:
            population.look()

    trials = [case.trial(member, device) for member in range(min(case.num_members, NUM_TIMED_TRIALS))]
    pairs = cycle([(trial, case.feed(number, device)) for number, trial in enumerate(trials)])

    def theirs() -> Tensor:
        trial, feed = next(pairs)
        return trial.step(feed.next())

    return medians({"ours": side(ours, device), "theirs": side(theirs, device)}, effort)


def side(step: Callable[[], object], device: torch.device) -> Side:
    """Steps in a row, as training does them: a GPU is waited for at the end only, and every step counts the mean."""

    def run(count: int) -> list[float]:
        _wait(device)
        start = time.perf_counter()
        for _ in range(count):
            step()
        _wait(device)
        return [(time.perf_counter() - start) / count] * count

    return run


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def _pixels() -> tuple[AbstractTask, str]:
    """Sequential MNIST, or sequences of its sizes where its files are missing."""
    mnist = task("mnist")
    try:
        mnist.num_sequences("train")
    except TaskError:
        return RandomPixels(), "MNIST's files are missing"
    return mnist, ""
