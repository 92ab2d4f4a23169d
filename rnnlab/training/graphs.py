"""Training steps as CUDA graphs: recorded once, then started again and again by one call of the host.

A recorded step has a stream that no other has as long as it lives. torch keeps the memory that cuBLAS works in by
stream: steps recorded on the same one would write over one another's sums when they run at once, and when one of them
is dropped the others would go on writing to memory that is somebody else's by then.
"""

import weakref
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import fields

import torch
from torch import Tensor

from rnnlab.engine.gpu.cuda_driver import new_stream
from rnnlab.engine.gpu.sharing import Processors, processors
from rnnlab.engine.state import State
from rnnlab.tasks.task import Batch
from rnnlab.training.step import TrainingStep

NUM_WARM_UPS = 3  # steps before recording, in which kernels are compiled and memory is found


class WarmUps:
    """Ordinary steps before one is recorded; the last has the multiprocessors that the recorded one will have.

    Which kernels run depends on the share of the GPU, and a kernel cannot be loaded while a step is being recorded.
    """

    def __init__(self, device: torch.device) -> None:
        self._device, self._num_done = device, 0
        self._room: Processors | None = None

    def is_another_due(self) -> bool:
        """Whether the present step is to be an ordinary one, which is then counted."""
        room = processors(self._device)
        if self._num_done >= NUM_WARM_UPS and room == self._room:
            return False
        self._num_done, self._room = self._num_done + 1, room
        return True


class GraphedStep:
    """A `TrainingStep` on samples, recorded after a few ordinary steps. All steps count, the ordinary ones too."""

    def __init__(self, step: TrainingStep) -> None:
        self._step, self._stream = step, borrowed_stream(self, step.state.numbers.device)
        self._warm_ups = WarmUps(step.state.numbers.device)
        self._graph: torch.cuda.CUDAGraph | None = None

    def __call__(self) -> None:
        """Do one step."""
        if self._graph is None and self._warm_ups.is_another_due():
            aside(self._step, self._stream)
        else:
            self._graph = self._graph or recorded(self._step, self._step.generators, self._stream)
            self._graph.replay()


class GraphedStreamStep:
    """A `TrainingStep` on a stream: batches and the carried state are copied to where the graph reads them.

    The first step of a pass over the stream, which carries nothing over, is an ordinary one.
    """

    def __init__(self, step: TrainingStep) -> None:
        self._step, self._stream = step, borrowed_stream(self, step.state.numbers.device)
        self._warm_ups = WarmUps(step.state.numbers.device)
        self._graph: torch.cuda.CUDAGraph | None = None
        self._batch: Batch | None = None
        self._carried: State | None = None

    def __call__(self) -> None:
        """Do one step."""
        batch = self._step.feed.next()
        if not batch.continues or (self._graph is None and self._warm_ups.is_another_due()):
            aside(lambda: self._step.learn_from(batch), self._stream)
        else:
            self._bring(batch)
            self._graph = self._graph or recorded(self._one_step, self._step.generators, self._stream)
            self._graph.replay()

    def _one_step(self) -> None:
        """One step on tensors whose addresses never change; the resulting state is written to them too."""
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


_SPARE: defaultdict[int, list[torch.cuda.Stream]] = defaultdict(list)  # by device; torch's own are few and shared


def borrowed_stream(owner: object, device: torch.device) -> torch.cuda.Stream:
    """A CUDA stream on a tensor's device, reserved until its owner is gone."""
    spare = _SPARE[device.index]
    stream = spare.pop() if spare else new_stream(device.index)
    weakref.finalize(owner, spare.append, stream)
    return stream


def aside(step: Callable[[], None], stream: torch.cuda.Stream) -> None:
    """Do a step on the stream on which it will be recorded: what autograd remembers of streams must be of that one."""
    present = torch.cuda.current_stream(stream.device)
    stream.wait_stream(present)
    with torch.cuda.stream(stream):
        step()
    present.wait_stream(stream)


def recorded(
    step: Callable[[], None], generators: Iterable[torch.Generator], stream: torch.cuda.Stream
) -> torch.cuda.CUDAGraph:
    """A step that is recorded instead of done."""
    graph = torch.cuda.CUDAGraph()
    for generator in generators:
        graph.register_generator_state(generator)
    with torch.cuda.graph(graph, stream=stream):
        step()
    return graph
