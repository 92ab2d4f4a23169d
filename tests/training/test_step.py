"""A whole step against training as anybody would write it, and each device by itself (C29-C34, P's devices)."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from rnnlab import AbstractTask, Batch, TrainingError, train
from rnnlab.engine.state import State
from rnnlab.training.feed import Feed
from rnnlab.training.learning import member_norms
from rnnlab.training.noise import Disturbance, Noise
from rnnlab.training.numbers import Layout, arrays_of
from rnnlab.training.restarts import Restarts
from rnnlab.training.step import pieces
from tests.tasks.contract import WAITING, Recorder
from tests.training.oracle import train_plainly
from tests.training.small import CPU, adding, network, quick, training_step
from tests.training.streams import Letters

DEVICES = {
    "sgd": {"optimiser": "sgd", "learning_rate": 0.1},
    "momentum": {"optimiser": "momentum", "learning_rate": 0.05, "momentum": 0.8},
    "rmsprop": {"optimiser": "rmsprop", "momentum": 0.95, "epsilon": 1e-4},
    "adam": {"learning_rate": 0.01},
    "decay": {"optimiser": "sgd", "learning_rate": 0.2, "decay_factor": 0.01},
    "inverse": {"optimiser": "sgd", "learning_rate": 0.5, "inverse_decay_steps": 2.0, "inverse_decay_start": 3},
    "clip norm": {"optimiser": "sgd", "learning_rate": 1.0, "clip_norm": 0.05},
    "clip value": {"optimiser": "sgd", "learning_rate": 1.0, "clip_value": 0.02},
    "both clips": {"optimiser": "sgd", "learning_rate": 1.0, "clip_value": 0.02, "clip_norm": 0.1},
    "l2": {"optimiser": "momentum", "learning_rate": 0.1, "l2": 0.1},
    "l2 in adam": {"learning_rate": 0.01, "l2": 0.1},
    "l2 in rmsprop": {"optimiser": "rmsprop", "epsilon": 1e-4, "l2": 0.1},
    "l2 and clip": {"optimiser": "sgd", "learning_rate": 0.5, "l2": 0.2, "clip_norm": 0.05},
    "initialisation": {"square": "orthogonal", "gate_bias": 2.0, "bias": "normal", "bias_scale": 0.3},
    "nonlinearity": {"nonlinearity": "relu", "optimiser": "sgd", "learning_rate": 0.1},
    "truncation": {"truncation": 5, "optimiser": "sgd", "learning_rate": 0.5},
}
TASKS: dict[str, AbstractTask] = {"samples": adding(), "stream": Letters()}


def trained(problem: AbstractTask, values: dict[str, Any], num_steps: int = 12) -> tuple[list[float], torch.Tensor]:
    """The losses and the last numbers of one member, which has a quite different one beside it."""
    options = {"num_steps": num_steps, "batch_size": 2}
    common = {name: values[name] for name in ("truncation",) if name in values}
    other = quick(**options, seed=9, learning_rate=0.5, **common, nonlinearity=values.get("nonlinearity"))
    step = training_step(problem, [other, quick(**options, **values)], "gru")
    losses: list[float] = []
    for _ in range(num_steps):
        step()
        losses.append(float(step.state.losses[1]))
    return losses, step.state.numbers[1]


@pytest.mark.parametrize("problem", TASKS)
@pytest.mark.parametrize("device", DEVICES)
def test_training_is_that_of_torch(device: str, problem: str) -> None:
    values = DEVICES[device]
    task = TASKS[problem]
    net = network(task, "gru")
    wanted = train_plainly(net, task, quick(num_steps=12, batch_size=2, **values))
    losses, numbers = trained(task, values)
    torch.testing.assert_close(losses, wanted.losses, rtol=2e-4, atol=1e-6)
    (expected,) = Layout(net).gather(arrays_of(wanted.model))
    torch.testing.assert_close(numbers, expected, rtol=2e-3, atol=2e-5)


@pytest.mark.parametrize(
    "changes",
    [
        *({"clip_norm": 0.05}, {"clip_value": 0.02}, {"decay_factor": 0.01}, {"inverse_decay_steps": 2.0}),
        *({"weight_noise": 0.5}, {"dropout": 0.5}, {"l2": 0.5}, {"momentum": 0.1}),
    ],
    ids=str,
)
def test_every_device_makes_a_difference(changes: dict[str, float]) -> None:
    plain = {"optimiser": "momentum", "learning_rate": 0.1}
    assert trained(adding(), plain | changes)[0][2:] != trained(adding(), plain)[0][2:]


def test_truncation_of_the_whole_length_is_none() -> None:
    values = {"optimiser": "sgd", "learning_rate": 0.5}
    whole = trained(adding(), values)
    assert trained(adding(), values | {"truncation": 12})[0] == whole[0]
    assert trained(adding(), values | {"truncation": 3})[0][1:] != whole[0][1:]


def test_stream_carries_its_state_from_batch_to_batch_and_begins_anew() -> None:
    step = training_step(Letters(), [quick(batch_size=2)], "gru")
    states: list[torch.Tensor] = []
    for _ in range(7):
        step()
        assert step.state.carried is not None
        states.append(next(iter(step.state.carried.values.values())).clone())
    assert not any(torch.equal(one, other) for one, other in pairwise(states))
    assert step.feed.position == 2, "a pass has 5 batches"


@pytest.mark.parametrize("name", ["gru", "clockwork"])
@pytest.mark.parametrize("restart", [0.3, 1.0])
def test_streams_begin_again_as_in_torch(restart: float, name: str) -> None:
    """Each from the learned initial state, which then has a gradient; whatever period the network has."""
    letters, values = Letters(), {"optimiser": "sgd", "learning_rate": 0.5, "restart": restart, "seed": 3}
    member = quick(num_steps=12, batch_size=2, **values)
    wanted = train_plainly(network(letters, name), letters, member)
    step = training_step(letters, [member.changed(restart=0.0, learning_rate=0.1), member], name)
    losses: list[float] = []
    for _ in range(12):
        step()
        losses.append(float(step.state.losses[1]))
    torch.testing.assert_close(losses, wanted.losses, rtol=2e-4, atol=1e-6)
    torch.testing.assert_close(
        step.state.numbers[1], Layout(network(letters, name)).gather(arrays_of(wanted.model))[0], rtol=2e-3, atol=2e-5
    )
    carried_on = train_plainly(network(letters, name), letters, member.changed(restart=0.0))
    assert losses[:1] == pytest.approx(carried_on.losses[:1])
    assert not np.allclose(losses[2:], carried_on.losses[2:], rtol=1e-3)


def test_as_many_streams_begin_again_as_their_member_says() -> None:
    members = [quick(restart=0.25), quick(), quick(restart=0.25, seed=1), quick(restart=0.25, learning_rate=0.1)]
    shape = (len(members), 4000, 2, 3)  # two steps are remembered, of three units
    carried, start = State(1, {("h", "h"): torch.ones(shape)}), State(0, {("h", "h"): torch.zeros(shape)})
    found = Restarts(members, CPU).applied(carried, start, 4000, Noise(members, 0, CPU))
    (values,) = found.values.values()
    assert found.step == 1
    assert (values == values[:, :, :1, :1]).all(), "a stream begins again as a whole"
    again = values[:, :, 0, 0] == 0
    assert again.float().mean(dim=1).tolist() == pytest.approx([0.25, 0.0, 0.25, 0.25], abs=0.03)
    assert (again[0] == again[3]).all()
    assert (again[0] != again[2]).any()


def test_weight_noise_is_drawn_for_matrices_alone_and_alike_for_members_of_one_seed() -> None:
    layout = Layout(network(adding(), "gru"))
    members = [quick(weight_noise=0.1), quick(), quick(weight_noise=0.2), quick(weight_noise=0.1, seed=1)]
    noise = Disturbance(layout, members, "cpu").noise(Noise(members, 0, CPU))
    assert noise is not None
    is_matrix = layout.is_matrix("cpu")
    sizes = sum(spec.size for spec in layout.specs if len(spec.shape) == 2)
    assert int(is_matrix.sum()) == sizes
    assert noise[0, is_matrix].std() == pytest.approx(0.1, rel=0.2)
    assert not noise[:, ~is_matrix].any()
    assert not noise[1].any()
    torch.testing.assert_close(noise[2], 2 * noise[0])
    assert (noise[3, is_matrix] != noise[0, is_matrix]).all()


def test_a_members_noise_does_not_depend_on_who_else_is_trained() -> None:
    members = [quick(seed=seed, weight_noise=0.1, dropout=0.5) for seed in (4, 2, 4)]
    together, alone, others = Noise(members, 0, CPU), Noise(members[1:2], 0, CPU), Noise(members[1:2], 1, CPU)
    for _ in range(2):
        normal, uniform = together.normal(5), together.uniform(5)
        assert torch.equal(normal[0], normal[2])
        assert not (uniform[0] == uniform[1]).any()
        assert torch.equal(normal[1], alone.normal(5))
        assert torch.equal(uniform[1], alone.uniform(5))
        assert not (normal[1] == others.normal(5)).any()
    together.select_members([1])
    assert torch.equal(together.normal(5), alone.normal(5))
    assert not Noise([quick()], 0, CPU).generators, "a checkpoint would hold them"


def test_dropout_hides_whole_units_from_the_outputs_and_nothing_else() -> None:
    net = network(adding(), "gru", units=400)
    layout = Layout(net)
    members = [quick(dropout=0.25), quick()]
    share = Disturbance(layout, members, "cpu").share(Noise(members, 0, CPU))
    assert share is not None
    assert (share[1] == 1).all()
    for spec, part in zip(layout.specs, share[0].split(layout.sizes), strict=True):
        if spec.category != "read-out weights":
            assert (part == 1).all(), spec.name
            continue
        rows = part.view(spec.shape)
        assert rows.unique().tolist() == pytest.approx([0, 4 / 3])
        assert (rows == 0).float().mean() == pytest.approx(0.25, abs=0.08)
        assert (rows == rows[:, :1]).all()


def test_hidden_units_get_no_gradient_of_their_read_out() -> None:
    members = [quick(dropout=0.5, optimiser="sgd", learning_rate=1.0)]
    step = training_step(adding(), members, "tanh")
    before = step.state.numbers.clone()
    share = Disturbance(step.layout, members, "cpu").share(Noise(members, 0, CPU))
    assert share is not None
    step()
    moved = step.state.numbers != before
    assert not moved[share == 0].any()
    assert moved[share > 1].all()


def test_hidden_units_are_not_heard_through_noise() -> None:
    member = quick(dropout=0.5, weight_noise=0.1)
    step = training_step(adding(), [member], "tanh")
    share = Disturbance(step.layout, [member], "cpu").share(Noise([member], 0, CPU))
    assert share is not None
    before = step.state.numbers.clone()
    step()
    run_with = step.layout.gather(arrays_of(step.model))
    assert (run_with[share == 0] == 0).all()
    is_matrix = step.layout.is_matrix("cpu") & (share[0] > 0)
    assert (run_with[0, is_matrix] != (before * share)[0, is_matrix]).all()


def test_member_that_ends_stands_still_while_others_go_on() -> None:
    step = training_step(adding(), [quick(num_steps=2), quick(num_steps=4)])
    step()
    step()
    ended, going = step.state.numbers.clone()
    step()
    assert torch.equal(step.state.numbers[0], ended)
    assert not torch.equal(step.state.numbers[1], going)
    assert step.state.loss_count.tolist() == [2, 3]


def test_truncation_refuses_sequences_of_different_lengths() -> None:
    batch = Batch(inputs=torch.zeros(2, 4, 1), targets=torch.zeros(2), lengths=torch.tensor([3, 4]))
    with pytest.raises(TrainingError, match="truncation needs sequences of one length"):
        pieces(batch, 2, adding())


def test_length_of_a_gradient_does_not_depend_on_who_is_beside_it() -> None:
    gradients = torch.randn(20, 200_001, generator=torch.Generator().manual_seed(0))
    num_threads = torch.get_num_threads()
    torch.set_num_threads(2)
    together = member_norms(gradients)
    alone = torch.cat([member_norms(row[None]) for row in gradients])
    torch.set_num_threads(num_threads)
    assert torch.equal(together, alone)
    torch.testing.assert_close(together, gradients.double().norm(dim=1).float())


def test_length_of_a_huge_gradient_is_known() -> None:
    """Of 1e30 the square is no float32; a network with a skip has such gradients over 784 steps (Z71)."""
    gradients = torch.tensor([[3e30, 4e30], [3e38, 3e38]])
    assert member_norms(gradients).tolist() == [pytest.approx(5e30), torch.inf]


class Waits(TorchDispatchMode):
    """Counts operations that need a number on the host, outside of the networks' own checks."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self.is_in_model = False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        waits = ("_local_scalar_dense", "nonzero", "masked_select", "is_nonzero", "equal")
        if func.overloadpacket.__name__ in waits and not self.is_in_model:
            self.found.append(func.overloadpacket.__name__)
        return func(*args, **(kwargs or {}))


def test_nothing_in_a_step_waits_for_a_number() -> None:
    members = [quick(weight_noise=0.1, dropout=0.1, clip_norm=1.0, l2=0.1), quick(optimiser="sgd", clip_value=1.0)]
    step = training_step(adding(), members, "gru", path="reference")
    waits = Waits()
    forward = step.model.forward

    def watched(*arguments: Any, **options: Any) -> Any:
        waits.is_in_model = True  # on the CPU a model looks whether its input holds NaN
        result = forward(*arguments, **options)
        waits.is_in_model = False
        return result

    step.model.forward = watched
    step()
    with waits:
        step()
        assert waits.found == []
        assert float(step.state.losses[0]) > 0  # which is seen
    assert waits.found == ["_local_scalar_dense"]


def test_two_members_alike_stay_alike() -> None:
    problem = adding()
    run = train(network(problem), problem, [quick(seed=3, dropout=0.2, weight_noise=0.1)] * 2)
    assert run.members[0] == run.members[1]


def test_batches_of_seeds_that_some_members_share_wait_for_nothing() -> None:
    """An index made of numbers of Python's would be copied to a GPU, for which the host waits."""
    feed = Feed(adding(), 4, [3, 5, 3], torch.device("cpu"))
    feed.next()
    with Recorder() as recorder:
        batch = feed.next()
    assert torch.equal(batch.inputs[0], batch.inputs[2])
    assert not torch.equal(batch.inputs[0], batch.inputs[1])
    assert recorder.names
    assert not [name for name in recorder.names if name.startswith(WAITING)]
