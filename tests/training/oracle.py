"""Training as anybody would write it: one network, torch.optim, no population. Slow and obviously right."""

from dataclasses import dataclass

import torch
from torch import Tensor

from rnnlab import AbstractTask, Architecture, Hyperparameters, Model
from rnnlab.engine.state import State
from rnnlab.training.feed import Feed, batch_seeds
from rnnlab.training.seeds import seeded


@dataclass
class Trained:
    model: Model
    losses: list[float]


def optimiser_of(member: Hyperparameters, parameters: list[Tensor]) -> torch.optim.Optimizer:
    rate, momentum, l2 = member.learning_rate, member.momentum, member.l2
    if member.optimiser == "adam":
        return torch.optim.Adam(
            parameters, rate, betas=(momentum, member.second_momentum), eps=member.epsilon, weight_decay=l2
        )
    if member.optimiser == "rmsprop":
        return torch.optim.RMSprop(parameters, rate, alpha=momentum, eps=member.epsilon, weight_decay=l2)
    return torch.optim.SGD(parameters, rate, momentum=momentum * (member.optimiser == "momentum"), weight_decay=l2)


def train_plainly(architecture: Architecture, task: AbstractTask, member: Hyperparameters, seed: int = 0) -> Trained:
    """The network after `num_steps`, and the loss of each step."""
    model = Model(
        architecture,
        generator=seeded("initial numbers", member.seed),
        initialisation=member.initialisation,
        nonlinearity=member.nonlinearity,
        path="reference",
    )
    optimiser = optimiser_of(member, list(model.parameters()))
    feed = Feed(task, member.batch_size or task.batch_size, batch_seeds([member], seed), torch.device("cpu"))
    restarts = seeded(f"restarts of seed {member.seed}", seed)
    losses: list[float] = []
    state = None
    for step in range(member.num_steps):
        batch = feed.next()
        state = state if batch.continues else None
        if state is not None and member.restart:
            state = begun_again(state, model, torch.rand(feed.batch_size, generator=restarts) < member.restart)
        outputs: list[Tensor] = []
        axis = 1
        for piece in batch.inputs.split(member.truncation or batch.inputs.shape[axis], dim=axis):
            output, state = model(piece, state)
            state = state.detach()
            outputs.append(output)
        loss = task.loss(torch.cat(outputs, dim=1), batch)
        # what a batch does not touch, the initial state of a stream that goes on, has a gradient of zero, not none
        for parameter in model.parameters():
            parameter.grad = torch.zeros_like(parameter)
        loss.backward()
        clip(list(model.parameters()), member)
        rate = member.learning_rate * member.decay_factor ** (step / member.num_steps)
        if member.inverse_decay_steps is not None:
            rate /= 1 + max(0, step - member.inverse_decay_start) / member.inverse_decay_steps
        optimiser.param_groups[0]["lr"] = rate
        optimiser.step()
        losses.append(loss.item())
    return Trained(model, losses)


def begun_again(state: State, model: Model, streams: Tensor) -> State:
    start = model.initial_state(len(streams))
    rows = [(start if begins else state, row) for row, begins in enumerate(streams.tolist())]
    return State(
        state.step, {part: torch.stack([of.values[part][:, row] for of, row in rows], dim=1) for part in state.values}
    )


def clip(parameters: list[Tensor], member: Hyperparameters) -> None:
    gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
    if member.clip_norm is not None:
        norm = torch.cat([gradient.flatten() for gradient in gradients]).norm()
        for gradient in gradients:
            gradient *= min(1.0, member.clip_norm / norm.item())
    if member.clip_value is not None:
        for gradient in gradients:
            gradient.clamp_(-member.clip_value, member.clip_value)
