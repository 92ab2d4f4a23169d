"""A population in training: its steps on the device, and what the host does with it every so many steps."""

from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor

from rnnlab.architecture.architecture import Architecture
from rnnlab.engine.model import Model
from rnnlab.errors import TrainingError
from rnnlab.tasks.task import AbstractTask
from rnnlab.training.divergence import REASONS as WHY_INFEASIBLE
from rnnlab.training.evaluation import evaluate
from rnnlab.training.events import Compacted, Evaluated, Event, MemberFinished, MemberInfeasible, Stepped, Values
from rnnlab.training.feed import Feed, batch_seeds
from rnnlab.training.graphs import GraphedStep, GraphedStreamStep
from rnnlab.training.hyperparameters import Hyperparameters
from rnnlab.training.noise import Noise
from rnnlab.training.numbers import Layout, arrays_of, build_model
from rnnlab.training.optimisers import Coefficients
from rnnlab.training.run import FINISHED, INFEASIBLE, Run
from rnnlab.training.saving import Snapshot
from rnnlab.training.standing import REASONS, Standing, Watch, column, decide
from rnnlab.training.state import TrainingState
from rnnlab.training.step import TrainingStep


class Population:
    """Networks of one architecture that are trained together; `loop.py` decides what happens when.

    Args:
        architecture, task, seed, device, path, precision, use_graph, report: as in `train`.
        members: the hyperparameters of each.
        start: the parameters to begin with, [P, N]; None if each member draws its own.
        snapshot: what to resume from; None to begin.
    """

    def __init__(
        self,
        architecture: Architecture,
        task: AbstractTask,
        members: Sequence[Hyperparameters],
        *,
        seed: int,
        device: torch.device,
        path: str,
        precision: str,
        use_graph: bool | None,
        report: Callable[[Event], None],
        start: Tensor | None,
        snapshot: Snapshot | None,
    ) -> None:
        self.architecture, self.task, self.members, self.seed = architecture, task, members, seed
        self.report = report
        self._device, self._path, self._precision = device, path, precision
        self._is_graphed = _is_graphed(architecture, task, device, use_graph)
        self._layout = Layout(architecture)
        self._batch_size = members[0].batch_size or task.batch_size
        self._feed = Feed(task, self._batch_size, batch_seeds(members, seed), device)
        self._noise = Noise(members, seed, device)
        if snapshot is None:
            self._begin(self._layout.initial(members) if start is None else start)
        else:
            self._restore(snapshot)
        self._count()
        self._prepare()

    def _begin(self, numbers: Tensor) -> None:
        population = range(len(self.members))
        numbers = numbers.to(self._device)
        self._rows = list(population)
        self._standings = [Standing() for _ in population]
        self._kept = torch.zeros(numbers.shape, dtype=numbers.dtype)
        self._state = TrainingState.initial(numbers, self.members, self._coefficients())
        self.num_steps = 0

    def _restore(self, snapshot: Snapshot) -> None:
        self._rows, self._standings = list(snapshot.rows), list(snapshot.standings)
        self._state = snapshot.state
        self._kept = torch.zeros(len(self.members), self._state.numbers.shape[1], dtype=snapshot.kept.dtype)
        self._kept[self._left] = snapshot.kept
        self._feed.position = snapshot.position
        self._feed.select_members(self.task.select_members(self._rows), self._rows)
        self._noise.select_members(self._rows)
        for name, generator in self._generators.items():
            generator.set_state(snapshot.generators[name])
        self.num_steps = int(self._state.step)

    def _prepare(self) -> None:
        """Make a model and a step for the members that are left."""
        members = [self.members[row] for row in self._rows]
        self._feed.select_members(self.task.select_members(self._rows), self._rows)
        self._noise.select_members(self._rows)
        self._model = self._built(members, len(members))
        plain = TrainingStep(self._model, self._layout, members, self._state, self._feed, self._noise)
        self._schedule = plain.rules.schedule
        graphed = GraphedStep if self.task.feed == "samples" else GraphedStreamStep
        self.step_on_device: Callable[[], None] = graphed(plain) if self._is_graphed else plain

    @property
    def _generators(self) -> dict[str, torch.Generator]:
        batches = {f"batches {seed}": generator for seed, generator in self._feed.generators.items()}
        return batches | {f"{purpose} {seed}": found for (purpose, seed), found in self._noise.generators.items()}

    @property
    def _left(self) -> list[int]:
        """Members that are no longer in the population, in order."""
        rows = set(self._rows)
        return [member for member in range(len(self.members)) if member not in rows]

    def _coefficients(self) -> Coefficients:
        members = [self.members[row] for row in self._rows]
        return Coefficients.of(members, dtype=torch.float32, device=self._device)

    @property
    def num_rows(self) -> int:
        """How many members run in each step, including those that have ended but have not been taken out."""
        return len(self._rows)

    @property
    def has_ended(self) -> bool:
        """Whether all members have ended."""
        return self.num_unfinished == 0

    @property
    def num_active(self) -> int:
        """How many members have steps to do, as far as the host knows."""
        return sum(self.num_steps < self.members[row].num_steps for row in self._unfinished())

    @property
    def is_evaluation_due(self) -> bool:
        """Whether it is time to evaluate: every so many steps, and when no unfinished member has steps to do."""
        is_time = self.num_steps % self.members[0].evaluate_every == 0
        return not self.has_ended and (is_time or self.num_steps >= self._last_step)

    def _unfinished(self) -> list[int]:
        return [row for row in self._rows if not self._standings[row].has_ended]

    def _count(self) -> None:
        """Update what is asked for after every step, which changes only now and then."""
        unfinished = self._unfinished()
        self.num_unfinished = len(unfinished)  # how many members have not ended, as far as the host knows
        self._last_step = max((self.members[row].num_steps for row in unfinished), default=0)

    def step(self) -> None:
        """Do one step for all members."""
        self.step_on_device()
        self.num_steps += 1

    def wait(self) -> None:
        """Wait until the device has done all steps so far."""
        if self._device.type == "cuda":
            torch.cuda.current_stream(self._device).synchronize()

    def look(self) -> None:
        """Bring losses and divergence to the host, and report them."""
        reasons, steps = (tensor.tolist() for tensor in (self._state.feasibility.reason, self._state.feasibility.step))
        for row, (reason, step) in zip(self._rows, zip(reasons, steps, strict=True), strict=True):
            if reason and not self._standings[row].has_ended:
                self._standings[row].end(INFEASIBLE, step, WHY_INFEASIBLE[reason])
                self.report(MemberInfeasible(step=step, member=row, reason=WHY_INFEASIBLE[reason]))
        self._count()
        self.report(
            Stepped(
                step=self.num_steps,
                losses=self._of_unfinished(self._state.losses.tolist()),
                learning_rates=self._of_unfinished(self._state.rates.tolist()),
                num_active=self.num_active,
            )
        )

    def evaluate(self) -> None:
        """Score the validation set; keep the best numbers, lower learning rates, end members that do not improve."""
        self._layout.lend(self._state.numbers, arrays_of(self._model))
        scores = evaluate(self._model, self._feed.task, "validation", self._batch_size)
        losses = (self._state.loss_sum / self._state.loss_count).tolist()
        rates = self._schedule.rates(self._state.step, self._state.plateau).tolist()
        is_best, factors, end_steps = [False] * self.num_rows, [1.0] * self.num_rows, self._state.end_step.tolist()
        shown = {name: self._of_unfinished(values) for name, values in scores.items()}
        for place, row in enumerate(self._rows):
            standing, member = self._standings[row], self.members[row]
            if standing.has_ended:
                continue
            step = min(self.num_steps, member.num_steps)
            own = {name: values[place] for name, values in scores.items()}
            is_best[place] = standing.record(step, own, losses[place], self._watch(member))
            if step == member.num_steps:
                standing.end(FINISHED, step)
            else:
                factors[place] = decide(standing, member, step, rates[place])
            if standing.has_ended:
                end_steps[place] = step
        self._count()
        self._apply(is_best, factors, end_steps)
        self._tell_evaluation(shown)

    def _apply(self, is_best: Sequence[bool], factors: Sequence[float], end_steps: Sequence[int]) -> None:
        """Apply what an evaluation decided, on the device."""
        state, device = self._state, self._device
        chosen = torch.tensor(is_best, device=device)[:, None]
        state.best.copy_(torch.where(chosen, state.numbers, state.best))
        state.plateau.mul_(torch.tensor(factors, dtype=torch.float64, device=device))
        state.end_step.copy_(torch.tensor(end_steps, device=device))
        state.loss_sum.zero_()
        state.loss_count.zero_()

    def _tell_evaluation(self, scores: Mapping[str, Values]) -> None:
        self.report(Evaluated(step=self.num_steps, split="validation", scores=scores, best=self.best_scores()))
        watched = scores[self.task.scores[0].name]
        for row, (value, standing) in enumerate(zip(watched, self._standings, strict=True)):
            if value is not None and standing.has_ended:  # it was evaluated, and ended by it
                self.report(MemberFinished(step=standing.num_steps, member=row, reason=REASONS[standing.outcome]))

    def _watch(self, member: Hyperparameters) -> Watch:
        score = self.task.scores[0]
        return Watch(score.name, score.better, member.least_improvement)

    def _of_unfinished(self, values: Sequence[float]) -> Values:
        """Values of all rows for the whole population, with None for members that have ended."""
        by_member = dict(zip(self._rows, values, strict=True))
        pairs = enumerate(self._standings)
        return [None if standing.has_ended else by_member[member] for member, standing in pairs]

    def best_scores(self) -> Values:
        """The best values of the watched score."""
        return column(self._standings, self.task.scores[0].name)

    def compact(self) -> None:
        """Take out members that have ended, if any others are left."""
        places = self._places_to_keep()
        if self.has_ended or len(places) == self.num_rows:
            return
        self._keep_best()
        self._rows = [self._rows[place] for place in places]
        self._state = self._state.select(places, self._coefficients())
        self._prepare()
        self.report(Compacted(step=self.num_steps, members=list(self._rows)))

    def _places_to_keep(self) -> list[int]:
        """The rows of members that have not ended, and one of each nonlinearity.

        The last of each kind stays because the engine compiles different code for populations that differ in
        nonlinearity, and that code may round differently.
        """
        kinds = [self.members[row].nonlinearity for row in self._rows]
        going_on = set(self._unfinished())
        unfinished = [place for place, row in enumerate(self._rows) if row in going_on]
        lost = set(kinds) - {kinds[place] for place in unfinished}
        return sorted([*unfinished, *(kinds.index(kind) for kind in lost)])

    def _keep_best(self) -> None:
        """The numbers with which each member was best; those that it has, if it goes on and was never evaluated."""
        standings = [self._standings[row] for row in self._rows]
        is_known = [standing.has_ended or standing.best_step is not None for standing in standings]
        chosen = torch.tensor(is_known, device=self._device)[:, None]
        self._kept[self._rows] = torch.where(chosen, self._state.best, self._state.numbers).cpu()

    def snapshot(self) -> Snapshot:
        """All that is needed to go on."""
        return Snapshot(
            state=self._state,
            rows=self._rows,
            standings=self._standings,
            kept=self._kept[self._left],
            position=self._feed.position,
            generators={name: generator.get_state() for name, generator in self._generators.items()},
        )

    def run(self, *, is_single: bool) -> Run:
        """The result: the model at its best, and if all members have ended, its scores on the test set."""
        self._keep_best()
        model = self._best_model(len(self.members))
        scores = evaluate(model, self.task, "test", self._batch_size) if self.has_ended else {}
        tests = [{name: values[row] for name, values in scores.items()} for row in range(len(self.members))]
        tests = [test if standing.validation else {} for test, standing in zip(tests, self._standings, strict=True)]
        if self.has_ended:
            self._tell_test(tests)
        triples = zip(self._standings, self.members, tests, strict=True)
        return Run(
            model=self._best_model(None) if is_single else model,
            members=[standing.member(member, test, self.num_steps) for standing, member, test in triples],
            task=self.task.to_json(),
            architecture=repr(self.architecture),
            seed=self.seed,
            watched=self.task.scores[0].name,
        )

    def _best_model(self, population: int | None) -> Model:
        model = self._built(self.members, population)
        self._layout.spread(self._kept.to(self._device), arrays_of(model))
        return model

    def _built(self, members: Sequence[Hyperparameters], population: int | None) -> Model:
        return build_model(
            self.architecture,
            members,
            population=population,
            device=self._device,
            path=self._path,
            precision=self._precision,
        )

    def _tell_test(self, tests: Sequence[Mapping[str, float]]) -> None:
        scores = {score.name: [test.get(score.name) for test in tests] for score in self.task.scores}
        self.report(Evaluated(step=self.num_steps, split="test", scores=scores, best=self.best_scores()))

    def explain(self) -> str:
        """How the networks run."""
        path = self._model.explain(batch=self._batch_size, steps=self.task.num_steps).splitlines()[0]
        return path.removeprefix("path").strip() + ("; steps as a CUDA graph" if self._is_graphed else "")


def _is_graphed(architecture: Architecture, task: AbstractTask, device: torch.device, use_graph: bool | None) -> bool:
    # a recorded step begins at one phase of the network, and what it runs depends on no values
    can = (
        device.type == "cuda"
        and (task.feed == "samples" or task.num_steps % architecture.period == 0)
        and not _runs_by_length(architecture, task)
    )
    if use_graph and not can:
        raise TrainingError(
            "CUDA graphs need a GPU; for a stream, batches of whole periods; and for networks that read the future, "
            "sequences of one length: leave out use_graph"
        )
    return can if use_graph is None else use_graph


def _runs_by_length(architecture: Architecture, task: AbstractTask) -> bool:
    """Whether sequences run length by length, as networks that read the future do."""
    reads_ahead = any(edge.delay < 0 for edge in architecture.edges)
    return reads_ahead and next(iter(task.batches("validation", 1))).lengths is not None
