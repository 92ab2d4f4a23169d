"""Model as users meet it: shapes, populations, states, files, errors."""

import copy
import io
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from rnnlab import Architecture, EdgeSpec, Signal, architecture, compose, plus, predict
from rnnlab.engine.costs import show_bytes
from rnnlab.engine.memory import training_memory
from rnnlab.engine.model import Model, _taken_names
from rnnlab.errors import ModelError
from tests.engine.comparison import parameter
from tests.engine.models import PATHS, SIZES, gradients, make, random, seeded, two_inputs, with_initial_state


def test_a_seed_stands_for_a_generator() -> None:
    network = architecture("lstm", **SIZES)
    one, same = Model(network, seed=3), Model(network, generator=torch.Generator().manual_seed(3))
    other = Model(network, seed=4)
    assert all(torch.equal(value, same.state_dict()[name]) for name, value in one.state_dict().items())
    assert any(not torch.equal(value, other.state_dict()[name]) for name, value in one.state_dict().items())


# ------------------------------------------------------------------------------------------------------------- shapes


@pytest.mark.parametrize("path", PATHS)
def test_inputs_whose_sign_is_still_to_come_are_read_with_it(path: str) -> None:
    lazy = torch.complex(random(2, 4, 3), random(2, 4, 3)).conj().imag
    assert lazy.is_neg()
    model = make(path=path)
    torch.testing.assert_close(model(lazy)[0], model(-random(2, 4, 3))[0])


def test_matrices_may_have_the_names_of_methods() -> None:
    """And such names with what is put behind them; all others are written as they are."""
    plain = architecture("sh:tanh", **SIZES)
    expected = Model(plain, generator=seeded())(random(2, 4, 3))[0]
    taken = sorted(_taken_names())  # torch.compile adds a name of its own to modules, in whichever test runs it first
    for pair in zip([*taken, "update\N{MIDDLE DOT}", "W.1"], [*taken[1:], *["update", "W.2", "W.3"]], strict=True):
        names = dict(zip(("x", "h"), pair, strict=True))
        edges = [
            replace(edge, weights=names[edge.source[0]] if edge.target[0] == "h" else None) for edge in plain.edges
        ]
        model = Model(Architecture(plain.nodes, edges), generator=seeded()).train()
        assert len(model.state_dict()) == len(plain.parameters)
        assert "arrays.h bias" in model.state_dict()
        torch.testing.assert_close(model(random(2, 4, 3))[0], expected)
        assert all(array is parameter(model, name) for name, array in model._arrays_by_name().items())


@pytest.mark.parametrize("path", PATHS)
def test_model_maps_batches_of_sequences(path: str) -> None:
    y, state = make(path=path)(random(5, 7, 3))
    assert y.shape == (5, 7, 2)
    assert state.step == 0  # 7, modulo the period
    assert {part: tuple(value.shape) for part, value in state.values.items()} == {
        ("h", "h"): (1, 5, 1, 4),
        ("h", "c"): (1, 5, 1, 4),
    }


@pytest.mark.parametrize("path", PATHS)
def test_population_has_its_axis_first(path: str) -> None:
    model = make(path=path, population=3)
    assert model(random(3, 5, 7, 3))[0].shape == (3, 5, 7, 2)
    assert model(random(5, 7, 3))[0].shape == (3, 5, 7, 2)
    assert make(path=path, population=1)(random(5, 7, 3))[0].shape == (1, 5, 7, 2)


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("name", ["td:lstm", "stack-3:intersection", "mongia-d:gru"])
def test_member_equals_itself_alone(name: str, path: str) -> None:
    """Outputs, state and gradients of member k are those of a single model with its numbers."""
    nonlinearity = ("tanh", "relu", "tanh")
    together = make(name, population=3, path=path, nonlinearity=nonlinearity).double()
    x = random(3, 2, 5, 3).double()
    y, state = together(x)
    weights = random(*y.shape).double()
    (y * weights).sum().backward()
    for k in range(3):
        alone = make(name, path=path, nonlinearity=nonlinearity[k]).double()
        alone.load_state_dict({key: value[k : k + 1] for key, value in together.state_dict().items()})
        own, own_state = alone(x[k])
        torch.testing.assert_close(own, y[k])
        for part, value in own_state.values.items():
            torch.testing.assert_close(value[0], state.values[part][k])
        (own * weights[k]).sum().backward()
        for key, gradient in gradients(alone).items():
            torch.testing.assert_close(gradient[0], gradients(together)[key][k])


@pytest.mark.parametrize("path", PATHS)
def test_member_is_a_model_of_its_own(path: str) -> None:
    several = make("td:gru", path=path, population=3, nonlinearity=("tanh", "relu", "tanh")).double().eval()
    several.arrays["y bias"].requires_grad_(False)
    x = random(2, 5, 3).double()
    outputs = several(x)[0]
    for number in range(3):
        alone = several.member(number)
        assert (alone.population, alone.path, alone.training) == (None, path, False)
        assert [name for name, array in alone.arrays.items() if not array.requires_grad] == ["y bias"]
        torch.testing.assert_close(alone(x)[0], outputs[number])
    with torch.no_grad():
        alone.arrays["y bias"].add_(1.0)
    torch.testing.assert_close(several(x)[0], outputs)


def test_numbers_of_numpy_are_numbers() -> None:
    network = architecture("lstm", **SIZES)
    several, same = Model(network, seed=np.int64(3), population=np.int64(2)), Model(network, seed=3, population=2)  # pyright: ignore[reportArgumentType]
    x = random(2, 4, 3)
    torch.testing.assert_close(several.member(np.argmax([0, 1]))(x)[0], same(x)[0][1])  # pyright: ignore[reportArgumentType]


def test_member_that_is_not_there_is_refused() -> None:
    for number in (-1, 3):
        with pytest.raises(ModelError, match="members have the numbers 0 to 2, got"):
            make(population=3).member(number)


def test_members_start_differently() -> None:
    model = make(population=2)
    assert not torch.equal(parameter(model, "h->h[1]")[0], parameter(model, "h->h[1]")[1])


@pytest.mark.parametrize("path", PATHS)
def test_shared_input_equals_the_same_input_for_each(path: str) -> None:
    model, x = make(path=path, population=3), random(2, 5, 3)
    torch.testing.assert_close(model(x)[0], model(x.expand(3, 2, 5, 3))[0])


@pytest.mark.parametrize("path", PATHS)
def test_gradient_of_a_shared_input_is_the_sum_over_members(path: str) -> None:
    model, x = make(path=path, population=3), random(2, 5, 3).requires_grad_()
    each = x.detach().expand(3, 2, 5, 3).clone().requires_grad_()
    model(x)[0].sum().backward()
    model(each)[0].sum().backward()
    torch.testing.assert_close(x.grad, each.grad.sum(dim=0))


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("population", [None, 2])
def test_tokens_equal_one_hot_values(path: str, population: int | None) -> None:
    words = make(input_size=6, encoding="tokens", path=path, population=population)
    vectors = make(input_size=6, path=path, population=population)
    vectors.load_state_dict(words.state_dict())
    tokens = torch.randint(6, (3, 5), generator=seeded())
    y, _ = words(tokens)
    wanted, _ = vectors(torch.nn.functional.one_hot(tokens, 6).float())
    torch.testing.assert_close(y, wanted)
    y.pow(2).sum().backward()
    wanted.pow(2).sum().backward()
    for name, gradient in gradients(words).items():
        torch.testing.assert_close(gradient, gradients(vectors)[name])
    assert torch.equal(words(tokens.to(torch.int32))[0], words(tokens)[0])


@pytest.mark.parametrize("path", PATHS)
def test_several_inputs_go_by_name_or_side_by_side(path: str) -> None:
    model = Model(two_inputs(), generator=seeded(), path=path)
    u, v = random(2, 5, 2), random(2, 5, 3, seed=2)
    y, _ = model({"v": v, "u": u})
    assert y.shape == (2, 5, 3)  # y and z side by side
    torch.testing.assert_close(model(torch.cat([u, v], dim=-1))[0], y)


def test_tokens_among_several_inputs_go_by_name() -> None:
    model = Model(two_inputs(tokens=True), generator=seeded())
    tokens, v = torch.randint(2, (2, 5), generator=seeded()), random(2, 5, 3)
    assert model({"u": tokens, "v": v})[0].shape == (2, 5, 3)
    with pytest.raises(ModelError, match="by name: u, v"):
        model(v)


def test_outputs_lie_side_by_side_in_order() -> None:
    model = Model(two_inputs(), generator=seeded())
    with torch.no_grad():
        for spec in model.architecture.parameters:
            parameter(model, spec.name).zero_()
        parameter(model, "y bias").fill_(1)
        parameter(model, "z bias").fill_(2)
    y, _ = model(random(1, 2, 5))
    assert y.tolist() == [[[1, 2, 2], [1, 2, 2]]]


# -------------------------------------------------------------------------------------------------------------- states


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("name", ["sh:gru", "skip-3:tanh", "mongia-d:lstm"])
def test_streaming_step_by_step_equals_the_whole(name: str, path: str) -> None:
    model, x = make(name, path=path).double(), random(2, 7, 3).double()
    whole, final = model(x)
    state, steps = None, []
    for t in range(7):
        y, state = model(x[:, t : t + 1], state)
        steps.append(y)
    torch.testing.assert_close(torch.cat(steps, dim=1), whole)
    assert state is not None
    assert state.step == final.step == 7 % model.architecture.period
    for part, value in final.values.items():
        torch.testing.assert_close(state.values[part], value)


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("name", ["td:lstm", "skip-3:tanh", "mongia-d:gru"])
@pytest.mark.parametrize("population", [None, 2])
def test_initial_state_is_what_a_run_starts_from(name: str, path: str, population: int | None) -> None:
    model, x = with_initial_state(make(name, path=path, population=population)).double(), random(2, 5, 3).double()
    found, wanted = [], []
    for results, state in ((wanted, None), (found, model.initial_state(2))):
        model.zero_grad()
        y, final = model(x, state)
        y.pow(2).sum().backward()
        results += [y, *final.values.values()]
        results += [torch.zeros_like(value) if value.grad is None else value.grad for value in model.parameters()]
    assert model.initial_state(2).step == 0
    torch.testing.assert_close(found, wanted)


@pytest.mark.parametrize("path", PATHS)
def test_initial_state_of_tokens_is_no_token(path: str) -> None:
    words = architecture("sh:tanh", encoding="tokens", **SIZES)
    late = EdgeSpec(source=("x", 0), target=("h", 0), delay=2)
    model = Model(Architecture(words.nodes, [*words.edges, late]), generator=seeded(), path=path)
    tokens, state = torch.randint(3, (2, 5), generator=seeded()), model.initial_state(2)
    assert state.values["x", ""].tolist() == [[[-1, -1], [-1, -1]]]
    torch.testing.assert_close(model(tokens, state)[0], model(tokens)[0])


@pytest.mark.parametrize("path", PATHS)
def test_states_cross_paths(path: str) -> None:
    """A state of the one path continues on the other."""
    model, x = make("td:lstm").double(), random(2, 6, 3).double()
    whole, _ = model(x)
    model.path = path
    _, state = model(x[:, :2])
    model.path = {"cpu": "reference", "reference": "cpu"}[path]
    torch.testing.assert_close(model(x[:, 2:], state)[0], whole[:, 2:])


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("name", ["skip-3:lstm", "td:gru", "clockwork:tanh"])
@pytest.mark.parametrize("population", [None, 2])
def test_trajectories_are_the_states_of_a_stream(name: str, path: str, population: int | None) -> None:
    """And their gradients too; from a state on, and where not every node is computed at every step."""
    model = make(name, path=path, population=population).double()
    x = random(2, 8, 3).double().requires_grad_()
    before = model(x[:, :3])[1]
    found = model.trajectories(x[:, 3:], before)
    assert {value.shape[-3:-1] for value in found.values()} == {(2, 5)}
    gradient = torch.autograd.grad(sum(value.sin().sum() for value in found.values()), x)
    state, steps = model(x[:, :3])[1], []
    for time in range(3, 8):
        _, state = model(x[:, time : time + 1], state)
        steps.append({part: value[:, :, -1] for part, value in state.values.items()})
    streamed = {part: torch.stack([step[part] for step in steps], dim=-2) for part in found}
    wanted = torch.autograd.grad(sum(value.sin().sum() for value in streamed.values()), x)
    for part, value in found.items():
        torch.testing.assert_close(value, streamed[part] if population else streamed[part][0])
    torch.testing.assert_close(gradient, wanted)


def test_states_can_be_told_apart_and_kept_in_sets() -> None:
    one, other = (make().initial_state(2) for _ in range(2))
    assert one == one
    assert one != other
    assert len({one, other}) == 2


def test_state_of_one_network_starts_another() -> None:
    """An encoder and a decoder: gradients flow back through the state."""
    encoder, decoder = make("td:lstm"), make("td:lstm", input_size=5)
    _, state = encoder(random(2, 4, 3))
    decoder(random(2, 6, 5), state)[0].square().sum().backward()
    gradient = parameter(encoder, "x->h1[0]").grad
    assert gradient is not None
    assert gradient.abs().sum() > 0


@pytest.mark.parametrize("path", PATHS)
def test_detached_state_stops_gradients(path: str) -> None:
    model, x = make(path=path), random(2, 6, 3).requires_grad_()
    _, state = model(x[:, :3])
    assert all(value.requires_grad for value in state.values.values())
    y, _ = model(x[:, 3:], state.detach())
    y.sum().backward()
    assert x.grad[:, :3].abs().max() == 0
    assert x.grad[:, 3:].abs().min() > 0
    assert parameter(model, "h initial h").grad is None or parameter(model, "h initial h").grad.abs().max() == 0


@pytest.mark.parametrize("path", PATHS)
def test_backward_can_run_through_many_pieces(path: str) -> None:
    """Truncated backpropagation: a loss in each piece, gradients of all of them gathered."""
    model, x, state = make(path=path), random(2, 6, 3), None
    for start in (0, 2, 4):
        y, state = model(x[:, start : start + 2], None if state is None else state.detach())
        y.pow(2).mean().backward()
    assert all(value.grad.isfinite().all() for value in model.parameters())


def test_changing_results_in_place_leaves_gradients_right() -> None:
    """Users clear states in place, where an episode ends."""
    model, x = make(), random(1, 5, 3)
    wanted = torch.autograd.grad(model(x)[0].sum(), list(model.parameters()))
    y, state = model(x)
    loss = y.sum()
    for value in (y, *state.values.values()):
        value.data.zero_()
    for found, right in zip(torch.autograd.grad(loss, list(model.parameters())), wanted, strict=True):
        torch.testing.assert_close(found, right)


def test_two_runs_do_not_share_memory() -> None:
    """Results of one run stay as they are when the next one runs, and its backward pass may come after that."""
    model, x, other = make("td:gru"), random(2, 5, 3), random(2, 5, 3, seed=9)
    wanted = torch.autograd.grad(model(x)[0].sum(), list(model.parameters()))
    y, state = model(x)
    kept = [value.clone() for value in (y, *state.values.values())]
    model(other)[0].sum().backward()
    with torch.no_grad():
        model(other)
    for value, copied in zip((y, *state.values.values()), kept, strict=True):
        assert torch.equal(value, copied)
    for found, right in zip(torch.autograd.grad(y.sum(), list(model.parameters())), wanted, strict=True):
        torch.testing.assert_close(found, right)


def test_gradients_of_two_runs_do_not_share_memory() -> None:
    model, x = make(), random(2, 5, 3).requires_grad_()
    first = torch.autograd.grad(model(x)[0].sum(), [x, *model.parameters()])
    kept = [value.clone() for value in first]
    torch.autograd.grad((model(2 * x)[0] * 3).sum(), [x, *model.parameters()])
    assert all(torch.equal(value, copied) for value, copied in zip(first, kept, strict=True))


# ------------------------------------------------------------------------------------------------------- torch manners


def test_state_dict_goes_into_another_model() -> None:
    one, other, x = make(), make(generator=seeded(5)), random(2, 5, 3)
    assert not torch.equal(one(x)[0], other(x)[0])
    other.load_state_dict(one.state_dict())
    assert torch.equal(one(x)[0], other(x)[0])


def test_state_dict_survives_torch_save() -> None:
    model, file = make(), io.BytesIO()
    torch.save(model.state_dict(), file)
    file.seek(0)
    other = make(generator=seeded(5))
    other.load_state_dict(torch.load(file, weights_only=True))
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), other.parameters(), strict=True))


def test_parameters_are_those_of_the_architecture() -> None:
    model = make("td:lstm", population=2)
    named = {name.removeprefix("arrays."): tuple(value.shape) for name, value in model.named_parameters()}
    assert named == {spec.name: (2, *spec.shape) for spec in model.architecture.parameters}


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_to_another_dtype_runs_in_it(dtype: torch.dtype) -> None:
    model = make().to(dtype)
    y, state = model(random(2, 5, 3))
    assert {y.dtype, *(value.dtype for value in state.values.values())} == {dtype}
    y.sum().backward()


def test_copies_run_alike_and_apart() -> None:
    model, x = make(), random(2, 5, 3)
    wanted, _ = model(x)
    copied = copy.deepcopy(model)
    assert torch.equal(copied(x)[0], wanted)
    with torch.no_grad():
        for value in copied.parameters():
            value.zero_()
    assert torch.equal(model(x)[0], wanted)


def test_names_with_dots_are_possible() -> None:
    """The operators call a layer inside another one h.1."""
    x, h = Signal("x"), Signal("h")
    network = compose({"h": plus(plus(x), h[-1]), "y": predict(h)}, **SIZES)
    assert any("." in spec.name for spec in network.parameters)
    model = Model(network, generator=seeded())
    again = Model(network, generator=seeded(1))
    again.load_state_dict(model.state_dict())
    assert torch.equal(model(random(2, 5, 3))[0], again(random(2, 5, 3))[0])


@pytest.mark.parametrize("path", PATHS)
def test_no_grad_leaves_no_graph(path: str) -> None:
    model, x = make(path=path), random(2, 5, 3)
    with torch.no_grad():
        y, state = model(x)
    assert not y.requires_grad
    assert not any(value.requires_grad for value in state.values.values())
    assert torch.equal(y, model(x)[0])


def test_inference_mode_runs() -> None:
    with torch.inference_mode():
        assert make()(random(2, 5, 3))[0].shape == (2, 5, 2)


def test_frozen_parameters_get_no_gradient() -> None:
    model = make()
    frozen = parameter(model, "h->h[1]").requires_grad_(False)
    model(random(2, 5, 3))[0].sum().backward()
    assert frozen.grad is None
    assert parameter(model, "x->h[0]").grad is not None


def test_second_backward_raises() -> None:
    y, _ = make()(random(2, 5, 3))
    loss = y.sum()
    loss.backward()
    with pytest.raises(RuntimeError, match=r"second time|twice|again"):
        loss.backward()


def test_gradients_of_gradients_raise() -> None:
    """At once: a penalty on gradients would otherwise be left out in silence."""
    model = make()
    for loss in (torch.Tensor.sum, lambda y: y.pow(2).sum()):
        with pytest.raises(ModelError, match="no gradients of gradients: make the model with path='reference'"):
            torch.autograd.grad(loss(model(random(2, 5, 3))[0]), list(model.parameters()), create_graph=True)


def test_parameters_changed_before_backward_raise() -> None:
    """As everywhere in torch: gradients would be those of numbers that are gone."""
    model = make()
    y, _ = model(random(2, 5, 3))
    with torch.no_grad():
        parameter(model, "h->h[1]").mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


@pytest.mark.parametrize("name", ["sh:lstm", "td:gru", "mongia-d:tanh"])
def test_training_lowers_the_loss_alike_on_both_paths(name: str) -> None:
    """The task: the sum of the last two inputs. Fifty steps of Adam, numbers equal to the last but few digits."""
    x = random(16, 10, 3).double()
    wanted = (x + torch.nn.functional.pad(x, (0, 0, 1, 0))[:, :-1]).sum(dim=-1, keepdim=True)
    losses = {path: train(make(name, output_size=1, path=path).double(), x, wanted) for path in PATHS}
    assert losses["cpu"][-1] < 0.3 * losses["cpu"][0]
    torch.testing.assert_close(losses["cpu"], losses["reference"], rtol=1e-7, atol=1e-9)


def train(model: Model, x: Tensor, wanted: Tensor) -> Tensor:
    optimiser = torch.optim.Adam(model.parameters(), lr=0.03)
    losses: list[Tensor] = []
    for _ in range(50):
        optimiser.zero_grad()
        loss = (model(x)[0] - wanted).pow(2).mean()
        loss.backward()
        optimiser.step()
        losses.append(loss.detach())
    return torch.stack(losses)


# ------------------------------------------------------------------------------------------------------------- explain


def test_explain_says_which_path_runs_and_why() -> None:
    text = make().explain()
    assert "path        cpu: float32 on the CPU\norder       by component: " in text
    assert "recurrent   h: T steps run in T sequential slots" in text
    assert f"parameters  {make().architecture.num_parameters()}: " in text


def test_explain_counts_for_the_batch_and_length_that_are_given() -> None:
    """With float64 and three members: six times the bytes."""
    assert "T, that is 100 for T = 100" in make().explain()
    assert "training step of B = 32, T = 100" in make().explain()
    text = make(population=3).double().explain(batch=2, steps=10)
    assert "T, that is 10 for T = 10" in text
    memory = training_memory(make().plan, batch=2, steps=10)
    assert f"memory      {show_bytes(6 * memory.total)} on the cpu path" in text
    assert "training step of P = 3, B = 2, T = 10" in text
    with pytest.raises(ModelError, match="steps must be an integer of at least 1, got 0"):
        make().explain(steps=0)


def test_explain_names_the_reason_for_the_reference() -> None:
    assert "reference: asked for" in make(path="reference").explain()
    assert "cpu: asked for" in make(path="cpu").explain()
    assert "reference: no fast path for bfloat16 on cpu yet" in make().bfloat16().explain()
    assert "3 members" in make(population=3).explain()


def test_explain_of_an_impossible_path_raises() -> None:
    with pytest.raises(ModelError, match="bfloat16"):
        make(path="cpu").bfloat16().explain()


def test_model_and_state_show_what_they_are_without_their_numbers() -> None:
    model = Model(architecture("st:lstm", input_size=3, output_size=2, units=4), seed=0, population=5)
    _, state = model(torch.zeros(5, 6, 7, 3))
    assert repr(state) == "<State: h1 c [5, 6, 1, 4], h1 h [5, 6, 1, 4], h2 c [5, 6, 1, 4], h2 h [5, 6, 1, 4]>"
    first, second, *_ = repr(model).splitlines()
    assert first == "Model("
    assert second.strip().startswith("<Architecture: <CyclicGraph: 4 nodes,")
    assert second.endswith(", population=5")
