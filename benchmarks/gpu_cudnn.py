"""cuDNN as a peer: torch.nn's layers and a read-out, in every precision that it has."""

# torch has no public way to lay out weights in bfloat16, nor one that always sets the precision
# pyright: reportPrivateUsage=false

import warnings
from dataclasses import dataclass
from typing import Any

import gpu_timing
import torch
from gpu_models import OUTPUTS
from gpu_process import spending
from gpu_timing import Timed
from torch import Tensor, nn

LAYERS = {"tanh": nn.RNN, "lstm": nn.LSTM, "gru": nn.GRU, "gru-cudnn": nn.GRU}
SETTINGS = {
    "bf16": (torch.bfloat16, "ieee"),
    "float16": (torch.float16, "ieee"),
    "tf32": (torch.float32, "tf32"),
    "float32": (torch.float32, "ieee"),
}
AT_LEAST_AS_EXACT = {"bf16": tuple(SETTINGS), "tf32": ("tf32", "float32"), "float32": ("float32",)}
MOST_WRONG = 0.3  # as a norm: what is farther from float64 computes something else


class Network(nn.Module):
    """A layer of torch's, or a stack of them, and a read-out, made on the GPU in their own dtype; time comes first."""

    def __init__(self, cell: str, inputs: int, units: int, num_layers: int, dtype: torch.dtype) -> None:
        super().__init__()
        options: Any = {"device": gpu_timing.DEVICE, "dtype": dtype}
        self.layer: Any = LAYERS[cell](inputs, units, num_layers=num_layers, **options)
        self.read_out = nn.Linear(units, OUTPUTS, **options)
        if gpu_timing.DEVICE == "cuda":
            flatten(self.layer)

    def forward(self, x: Tensor) -> tuple[Tensor, None]:
        """Outputs [T, B, M] of inputs [T, B, N]."""
        return self.read_out(self.layer(x)[0]), None


def flatten(layer: Any) -> None:
    """Put a layer's weights into one piece of memory, as cuDNN wants them.

    torch's own `flatten_parameters` does nothing for bfloat16, and cuDNN then gathers them in every call.
    """
    from torch.backends.cudnn import rnn

    weights = layer._flat_weights
    mode = rnn.get_cudnn_mode(layer.mode)
    with torch.no_grad():
        torch._cudnn_rnn_flatten_weight(  # pyright: ignore[reportPrivateImportUsage]
            weights, 4, layer.input_size, mode, layer.hidden_size, 0, layer.num_layers, False, False
        )


@dataclass(frozen=True)
class Found:
    """What was measured of one setting."""

    setting: str
    timed: Timed
    gigabytes: float
    error: float


@spending("cudnn")
def measure(
    cell: str, inputs: int, units: int, batch: int, steps: int, num_layers: int = 1
) -> tuple[dict[str, Found], dict[str, str]]:
    """Training steps in every setting, and why some could not be measured."""
    found: dict[str, Found] = {}
    failed: dict[str, str] = {}
    for setting in SETTINGS:
        try:
            found[setting] = _measure(setting, cell, inputs, units, batch, steps, num_layers)
        except Exception as error:
            failed[setting] = f"{type(error).__name__}: {error}"[:300]
    return found, failed


def _measure(setting: str, cell: str, inputs: int, units: int, batch: int, steps: int, num_layers: int) -> Found:
    dtype, precision = SETTINGS[setting]
    multiply_in(precision)
    sizes = (cell, inputs, units, num_layers)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*single contiguous chunk.*")
        error = _error(sizes, batch, steps, dtype)
        if not error < MOST_WRONG:
            raise ArithmeticError(f"off by {error:.2g}")
        step, gigabytes = gpu_timing.peak_gigabytes(
            lambda: gpu_timing.training_step(Network(*sizes, dtype), *_data(inputs, batch, steps, dtype))
        )
        return Found(setting, gpu_timing.timed(step), gigabytes, error)


def _error(sizes: tuple[str, int, int, int], batch: int, steps: int, dtype: torch.dtype) -> float:
    """How far output and gradients are from float64."""
    network, exact = Network(*sizes, dtype), Network(*sizes, torch.float64)
    exact.load_state_dict(network.state_dict())
    given = _data(sizes[1], batch, steps, dtype)
    wanted = gpu_timing.trained_once(exact, *(each.double() for each in given))
    return gpu_timing.largest_error(gpu_timing.trained_once(network, *given), wanted)


def _data(inputs: int, batch: int, steps: int, dtype: torch.dtype) -> list[Tensor]:
    """Inputs and the gradient of the outputs, time first."""
    generator = torch.Generator(gpu_timing.DEVICE).manual_seed(1)
    options: Any = {"generator": generator, "device": gpu_timing.DEVICE}
    return [torch.randn(steps, batch, width, **options).to(dtype) for width in (inputs, OUTPUTS)]


def multiply_in(precision: str) -> None:
    """How cuDNN and cuBLAS multiply float32 from now on: `tf32` or `ieee`."""
    # what torch.backends.cudnn.rnn names depends on what was imported before; only its setter always has an effect
    torch._C._set_fp32_precision_setter("cuda", "rnn", precision)
    torch.backends.cuda.matmul.fp32_precision = precision


def fastest(found: dict[str, Found], precision: str) -> Found | None:
    """The fastest setting that is at least as exact as a precision of rnnlab's."""
    able = [found[setting] for setting in AT_LEAST_AS_EXACT[precision] if setting in found]
    return min(able, key=lambda each: each.timed.best, default=None)
