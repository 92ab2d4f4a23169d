"""Which path runs and why, as far as it shows without a GPU."""

import os

import pytest
import torch

from rnnlab import ModelError, architecture
from rnnlab.engine.model import Model

NETWORK = architecture("sh:tanh", input_size=3, output_size=2, units=4)
is_interpreted = os.environ.get("TRITON_INTERPRET") == "1"


def make(**options) -> Model:
    return Model(NETWORK, generator=torch.Generator().manual_seed(0), **options)


def test_precision_is_one_of_three() -> None:
    with pytest.raises(ModelError, match="precision is one of float32, tf32, bf16, got 'fp8'"):
        make(precision="fp8")


@pytest.mark.skipif(is_interpreted, reason="Triton's interpreter runs the gpu path on the CPU")
def test_gpu_path_refuses_the_cpu() -> None:
    with pytest.raises(ModelError, match="the gpu path runs float32 on CUDA devices"):
        make(path="gpu")(torch.zeros(1, 2, 3))


def test_gpu_path_refuses_float64() -> None:
    with pytest.raises(ModelError, match="the gpu path runs float32 on CUDA devices"):
        make(path="gpu").double()(torch.zeros(1, 2, 3))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
def test_gpu_path_is_chosen_and_explained() -> None:
    assert "gpu: float32 on a GPU; precision bf16" in make(precision="bf16").cuda().explain()
    assert "reference: no fast path for float64 on cuda yet" in make().cuda().double().explain()
