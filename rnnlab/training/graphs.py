"""A training step as a CUDA graph: recorded once, then started again and again by one call of the host."""

import torch

from rnnlab.training.step import TrainingStep

NUM_WARM_UPS = 3  # steps before recording, in which kernels are compiled and memory is found


class GraphedStep:
    """A `TrainingStep` that is recorded after a few ordinary steps. All steps count, the ordinary ones too."""

    def __init__(self, step: TrainingStep) -> None:
        self._step = step
        self._num_done = 0
        self._graph: torch.cuda.CUDAGraph | None = None

    def __call__(self) -> None:
        """Do one step."""
        if self._graph is not None:
            self._graph.replay()
        elif self._num_done < NUM_WARM_UPS:
            self._warm_up()
        else:
            self._graph = self._recorded()
            self._graph.replay()
        self._num_done += 1

    def _warm_up(self) -> None:
        # on a stream of its own, as recording will be: what autograd remembers of streams must be of that one
        present, aside = torch.cuda.current_stream(), torch.cuda.Stream()
        aside.wait_stream(present)
        with torch.cuda.stream(aside):
            self._step()
        present.wait_stream(aside)

    def _recorded(self) -> torch.cuda.CUDAGraph:
        graph = torch.cuda.CUDAGraph()
        for generator in self._step.generators:
            graph.register_generator_state(generator)
        with torch.cuda.graph(graph):
            self._step()
        return graph
