"""Generated tasks on a GPU: the host never waits, a batch can be recorded, and fixed sets are those of the CPU."""

import warnings

import pytest
import torch

from rnnlab.tasks.task import AbstractTask
from tests.tasks import contract
from tests.tasks.generated_tasks import ALL

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
every = pytest.mark.parametrize("problem", ALL, ids=str)


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator("cuda").manual_seed(seed)


@every
def test_host_never_waits(problem: AbstractTask) -> None:
    source = generator()
    batch = problem.sample(4, generator=source)
    outputs = contract.random_outputs(problem, batch, problem.population).float().cuda()
    problem.loss(outputs, batch), problem.tally(outputs, batch)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch says that it may overlook some
        torch.cuda.set_sync_debug_mode("error")
    try:
        batch = problem.sample(4, generator=source)
        problem.loss(outputs, batch), problem.tally(outputs, batch)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert all(tensor.is_cuda for tensor in contract.tensors(batch))


@every
def test_recorded_batches_are_those_of_plain_calls(problem: AbstractTask) -> None:
    source = generator(5)
    expected = [problem.sample(4, generator=source) for _ in range(3)]
    graph = torch.cuda.CUDAGraph()
    graph.register_generator_state(source)
    with torch.cuda.graph(graph):
        recorded = problem.sample(4, generator=source)
    source.manual_seed(5)
    for batch in expected:
        graph.replay()
        contract.assert_same(recorded, batch)


@every
def test_fixed_sets_are_those_of_the_cpu(problem: AbstractTask) -> None:
    for here, there in zip(problem.batches("test", 20), problem.batches("test", 20, device="cuda"), strict=True):
        contract.assert_same(here, there.to("cpu"))
    kept = len(problem.kept)
    next(problem.batches("test", 20, device="cuda:0"))
    assert len(problem.kept) == kept  # the same device by another name
