"""Training steps as CUDA graphs: recorded once, then started again and again by one call of the host."""

from collections.abc import Callable, Iterable
from dataclasses import fields

import torch
from torch import Tensor

from rnnlab.engine.state import State
from rnnlab.tasks.task import Batch
from rnnlab.training.step import TrainingStep

NUM_WARM_UPS = 3  # steps before recording, in which kernels are compiled and memory is found


class GraphedStep:
    """A `TrainingStep` on samples, recorded after a few ordinary steps. All steps count, the ordinary ones too."""

    def __init__(self, step: TrainingStep) -> None:
        self._step = step
        self._num_done = 0
        self._graph: torch.cuda.CUDAGraph | None = None

    def __call__(self) -> None:
        """Do one step."""
        if self._num_done < NUM_WARM_UPS:
            aside(self._step)
        else:
            self._graph = self._graph or recorded(self._step, self._step.generators)
            self._graph.replay()
        self._num_done += 1


class GraphedStreamStep:
    """The same on a stream: batches and the state that is carried over come to where the graph reads them.

    The first step of a pass over the stream, which carries nothing over, is an ordinary one.
    """

    def __init__(self, step: TrainingStep) -> None:
        self._step = step
        self._num_done = 0
        self._graph: torch.cuda.CUDAGraph | None = None
        self._batch: Batch | None = None
        self._carried: State | None = None

    def __call__(self) -> None:
        """Do one step."""
        batch = self._step.feed.next()
        if not batch.continues or self._num_done < NUM_WARM_UPS:
            aside(lambda: self._step.learn_from(batch))
        else:
            self._bring(batch)
            self._graph = self._graph or recorded(self._one_step, self._step.generators)
            self._graph.replay()
        self._num_done += 1

    def _one_step(self) -> None:
        """From the tensors that stay where they are; the state that comes out goes there too."""
        assert self._batch is not None
        assert self._carried is not None
        self._step.learn_from(self._batch)
        found = self._step.state.carried
        assert found is not None
        for part, value in found.values.items():
            self._carried.values[part].copy_(value)
        self._step.state.carried = self._carried

    def _bring(self, batch: Batch) -> None:
        state = self._step.state
        assert state.carried is not None
        if self._batch is None or self._carried is None:
            self._batch = batch.map(Tensor.clone)
            self._carried = State(
                state.carried.step, {part: each.clone() for part, each in state.carried.values.items()}
            )
        else:
            for name in (field.name for field in fields(batch)):
                if isinstance(value := getattr(batch, name), Tensor):
                    getattr(self._batch, name).copy_(value)
        if state.carried is not self._carried:
            for part, value in state.carried.values.items():
                self._carried.values[part].copy_(value)
            state.carried = self._carried


def aside(step: Callable[[], None]) -> None:
    """Do a step on a stream of its own, as recording will: what autograd remembers of streams must be of that one."""
    present, other = torch.cuda.current_stream(), torch.cuda.Stream()
    other.wait_stream(present)
    with torch.cuda.stream(other):
        step()
    present.wait_stream(other)


def recorded(step: Callable[[], None], generators: Iterable[torch.Generator]) -> torch.cuda.CUDAGraph:
    """A step that is not done, but written down."""
    graph = torch.cuda.CUDAGraph()
    for generator in generators:
        graph.register_generator_state(generator)
    with torch.cuda.graph(graph):
        step()
    return graph
