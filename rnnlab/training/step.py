"""One training step of a whole population: sample, forward, backward, clip, update. The host never waits in it."""

from collections.abc import Sequence

import torch
from torch import Tensor

from rnnlab.engine.model import Model
from rnnlab.errors import TrainingError
from rnnlab.tasks.task import AbstractTask, Batch, one_each
from rnnlab.training.feed import Feed
from rnnlab.training.fused import FusedLearning, has_fused
from rnnlab.training.hyperparameters import Hyperparameters
from rnnlab.training.learning import Rules, learn
from rnnlab.training.noise import Disturbance, Noise
from rnnlab.training.numbers import Layout, arrays_of
from rnnlab.training.restarts import Restarts
from rnnlab.training.state import TrainingState


class TrainingStep:
    """A step as a function of tensors whose addresses never change: a call changes `state`, and nothing else."""

    def __init__(
        self,
        model: Model,
        layout: Layout,
        members: Sequence[Hyperparameters],
        state: TrainingState,
        feed: Feed,
        noise: Noise,
    ) -> None:
        device, dtype = state.numbers.device, state.numbers.dtype
        self.model, self.layout, self.state, self.feed, self._noise = model, layout, state, feed, noise
        self._arrays = arrays_of(model)
        layout.lend(state.numbers, self._arrays)
        self._gradients = torch.empty_like(state.numbers)  # large new tensors would cost more than what is done in them
        self.truncation = members[0].truncation
        self.rules = Rules.of(members, dtype=dtype, device=device)
        self._fused = FusedLearning(self.rules) if has_fused(device) else None
        self.disturbance = Disturbance(layout, members, device)
        self._restarts = Restarts(members, device)

    @property
    def generators(self) -> tuple[torch.Generator, ...]:
        """All generators that a step draws from."""
        return *self.feed.generators.values(), *self._noise.generators.values()

    @property
    def task(self) -> AbstractTask:
        """What is trained on."""
        return self.feed.task

    def __call__(self) -> None:
        """Do one step, with the next batch."""
        self.learn_from(self.feed.next())

    def learn_from(self, batch: Batch) -> None:
        """Do one step."""
        share = self.disturbance.share(self._noise)
        losses, gradients = self._losses_and_gradients(batch, share, self.disturbance.noise(self._noise))
        self._learn(losses, gradients if share is None else gradients.mul_(share))

    def _losses_and_gradients(self, batch: Batch, share: Tensor | None, noise: Tensor | None) -> tuple[Tensor, Tensor]:
        """The loss of each member, [P], and the gradients with respect to the numbers that the networks run with."""
        if noise is not None or share is not None:
            numbers = self.state.numbers if noise is None else self.state.numbers + noise
            self.layout.lend(numbers if share is None else numbers * share, self._arrays)
        outputs = self._outputs(batch)
        losses = one_each(self.task.loss(outputs, batch), self.model.population or 1, f"task {self.task.name}: a loss")
        # a member's loss depends on its own arrays alone, so the gradients of the sum are those of each
        gradients = torch.autograd.grad(losses.sum(), self._arrays, materialize_grads=True, allow_unused=True)
        return losses.detach(), self.layout.gather(gradients, out=self._gradients)

    def _outputs(self, batch: Batch) -> Tensor:
        """The networks' outputs; gradients flow back over `truncation` time steps, but never into an earlier batch."""
        carried = self.state.carried if batch.continues else None
        if carried is not None and self._restarts.are_used:
            num_streams = self.feed.batch_size
            start = self.model.initial_state(num_streams)
            carried = self._restarts.applied(carried, start, num_streams, self._noise)
        outputs: list[Tensor] = []
        for piece in pieces(batch, self.truncation, self.task):
            output, carried = self.model(piece, carried, batch.lengths, only_last=self.task.only_last)
            carried = carried.detach()
            outputs.append(output)
        if self.task.feed == "stream":
            self.state.carried = carried
        return outputs[0] if len(outputs) == 1 else torch.cat(outputs, dim=-2)

    def _learn(self, losses: Tensor, gradients: Tensor) -> None:
        """Clip, regularise and update every member that has not diverged, and write down how it went."""
        if self._fused is not None:
            self._fused.learn(self.state, losses, gradients)
        else:
            learn(self.state, losses, gradients, self.rules)


def pieces(batch: Batch, truncation: int | None, task: AbstractTask) -> Sequence[Tensor]:
    """The inputs of a batch, cut along time into pieces of `truncation` steps."""
    if truncation is None:
        return [batch.inputs]
    if batch.lengths is not None:
        raise TrainingError("truncation needs sequences of one length: leave it out for this task")
    return batch.inputs.split(truncation, dim=-1 if task.encoding == "tokens" else -2)
