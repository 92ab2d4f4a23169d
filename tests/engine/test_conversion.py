"""Models from torch's recurrent modules compute what the modules compute."""

from pathlib import Path

import pytest
import torch
from torch import nn

from rnnlab import ModelError, from_torch, load_model

MODULES = {
    "tanh": (nn.RNN, {}),
    "relu": (nn.RNN, {"nonlinearity": "relu"}),
    "gru": (nn.GRU, {}),
    "lstm": (nn.LSTM, {}),
    "lstm without bias": (nn.LSTM, {"bias": False}),
    "gru without bias": (nn.GRU, {"bias": False}),
}


@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("num_layers", [1, 3])
@pytest.mark.parametrize("name", MODULES)
def test_outputs_and_input_gradients_are_the_modules(name: str, num_layers: int, bidirectional: bool) -> None:
    kind, options = MODULES[name]
    torch.manual_seed(0)  # torch's modules take no generator
    module = kind(3, 5, num_layers, bidirectional=bidirectional, batch_first=True, dtype=torch.float64, **options)
    model = from_torch(module)
    results = []
    for network in (module, model):
        x = torch.linspace(-2, 2, 2 * 7 * 3, dtype=torch.float64).sin().reshape(2, 7, 3).requires_grad_()
        y, _ = network(x)
        (y * torch.linspace(-1, 1, y.numel(), dtype=torch.float64).reshape(y.shape)).sum().backward()
        results.append((y.detach(), x.grad))
    for mine, theirs in zip(*results, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-12, atol=1e-12)


def test_parameters_match_in_number() -> None:
    """One bias a gate where torch has two, a candidate's two in a GRU; the read-out adds nothing that trains."""
    model = from_torch(nn.LSTM(3, 5))
    trained = sum(value.numel() for value in model.parameters() if value.requires_grad)
    assert trained == 4 * 5 * (3 + 5 + 1)
    gru = from_torch(nn.GRU(3, 5))
    assert sum(value.numel() for value in gru.parameters() if value.requires_grad) == 3 * 5 * (3 + 5) + 4 * 5


def test_what_has_no_counterpart_is_refused() -> None:
    with pytest.raises(ModelError, match="proj_size"):
        from_torch(nn.LSTM(3, 5, proj_size=2))
    with pytest.raises(ModelError, match="got Linear"):
        from_torch(nn.Linear(3, 5))  # type: ignore[arg-type]


def test_what_is_frozen_stays_frozen(tmp_path: Path) -> None:
    lstm = nn.LSTM(3, 5, num_layers=2)
    for value in (lstm.weight_hh_l0, lstm.bias_ih_l0, lstm.bias_ih_l1, lstm.bias_hh_l1):
        value.requires_grad_(False)
    with torch.no_grad():
        model = from_torch(lstm)
    model.save(tmp_path / "lstm.safetensors")
    for each in (model, load_model(tmp_path / "lstm.safetensors")):
        frozen = {name for name, value in each.arrays.items() if not value.requires_grad}
        assert frozen == {"h0->h0[1]", "h1 bias", "y bias"}


def test_gradients_pass_where_a_relu_is_nan() -> None:
    """As in torch: a state that has diverged does not look like one that nothing depends on."""
    rnn = nn.RNN(3, 5, nonlinearity="relu", batch_first=True)
    with torch.no_grad():
        rnn.bias_ih_l0[1] = torch.nan
    model, x = from_torch(rnn), torch.ones(2, 1, 3)
    model(x)[0].sum().backward()
    rnn(x)[0].sum().backward()
    torch.testing.assert_close(model.arrays["h0 bias"].grad, rnn.bias_ih_l0.grad[None])
    assert rnn.bias_ih_l0.grad[1] == 2


def test_dropout_is_left_out() -> None:
    module = nn.LSTM(3, 5, num_layers=2, dropout=0.5, batch_first=True)
    x = torch.linspace(-2, 2, 2 * 7 * 3).sin().reshape(2, 7, 3)
    torch.testing.assert_close(from_torch(module).train()(x)[0], module.eval()(x)[0])
