"""What every task must do, generated or read from files. Checkers raise."""

import hashlib

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from rnnlab.tasks.task import SPLITS, AbstractTask, Batch, Tally

# on a GPU these make the host wait for a number or copy one over; none can be recorded in a CUDA graph
WAITING = ("_local_scalar_dense", "nonzero", "masked_select", "unique", "lift_fresh", "is_nonzero", "equal")


class Recorder(TorchDispatchMode):
    """Which operations of torch have run."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.names.append(func.overloadpacket.__name__)
        return func(*args, **(kwargs or {}))


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def tensors(batch: Batch) -> list[Tensor]:
    return [each for each in (batch.inputs, batch.targets, batch.weights, batch.lengths) if each is not None]


def assert_same(first: Batch, second: Batch) -> None:
    assert first.continues == second.continues
    for one, other in zip(tensors(first), tensors(second), strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=0)


def fingerprint(task: AbstractTask) -> str:
    """A checksum of what it draws for training and of its test set."""
    digest = hashlib.sha256()
    for batch in (task.sample(5, generator=generator(8)), *task.batches("test", 20)):
        for tensor in tensors(batch):
            digest.update(tensor.contiguous().numpy().tobytes())
    return digest.hexdigest()


def random_outputs(task: AbstractTask, batch: Batch, population: int | None = None, seed: int = 1) -> Tensor:
    axes = 2 if task.encoding == "tokens" else 3
    size = batch.inputs.shape[-axes : len(batch.inputs.shape) - axes + 2]
    members = [] if population is None else [population]
    return torch.randn(*members, *size, task.output_size, generator=generator(seed), dtype=torch.float64)


def check_batch(task: AbstractTask, batch: Batch, batch_size: int) -> None:
    """Shapes and types that `Model` takes."""
    axes = 2 if task.encoding == "tokens" else 3
    members = batch.inputs.shape[:-axes]
    assert list(members) in ([], [task.population])
    assert batch.inputs.shape[-axes] == batch_size
    assert batch.inputs.shape[1 - axes] <= task.num_steps
    if task.encoding == "tokens":
        assert not batch.inputs.dtype.is_floating_point
        assert 0 <= int(batch.inputs.min()) <= int(batch.inputs.max()) < task.input_size
    else:
        assert batch.inputs.dtype.is_floating_point
        assert batch.inputs.shape[-1] == task.input_size
    if batch.lengths is not None:
        assert batch.lengths.shape == (batch_size,)
        assert 1 <= int(batch.lengths.min()) <= int(batch.lengths.max()) <= batch.inputs.shape[1 - axes]


def check_splits(task: AbstractTask, batch_size: int) -> None:
    """A pass is the same every time, holds every sequence once, and splits have the sizes they say."""
    for split in SPLITS:
        first, second = (list(task.batches(split, batch_size)) for _ in range(2))
        for one, other in zip(first, second, strict=True):
            assert_same(one, other)
        if task.feed == "samples":
            counted = sum(batch.inputs.shape[-2 if task.encoding == "tokens" else -3] for batch in first)
            assert task.num_sequences(split) in (counted, None)
            assert not any(batch.continues for batch in first)
        else:
            assert [batch.continues for batch in first] == [False] + [True] * (len(first) - 1)


def check_scores(task: AbstractTask, batch: Batch, population: int | None) -> None:
    """Loss and scores are a number for one model, and one for each member of a population."""
    outputs = random_outputs(task, batch, population)
    loss, scores = task.loss(outputs, batch), task.finish(task.tally(outputs, batch))
    assert set(scores) == {score.name for score in task.scores}
    for value in (loss, *scores.values()):
        assert list(value.shape) == ([] if population is None else [population])
        assert bool(value.isfinite().all())
    assert task.loss(outputs.float(), batch).dtype == torch.float32


def check_members_are_apart(task: AbstractTask, batch: Batch, population: int) -> None:
    """A member's loss depends on its own outputs alone, NaN of a neighbour included, and equals that of one model."""
    outputs = random_outputs(task, batch, population).requires_grad_()
    losses = task.loss(outputs, batch)
    (gradient,) = torch.autograd.grad(losses[0], outputs)
    assert bool(gradient[0].any())
    assert not bool(gradient[1:].any())
    broken = outputs.detach().clone()
    broken[1] = torch.nan
    torch.testing.assert_close(task.loss(broken, batch)[0], losses[0].detach(), rtol=0, atol=0)
    for name, values in task.finish(task.tally(broken, batch)).items():
        torch.testing.assert_close(values[0], task.finish(task.tally(outputs, batch))[name][0], rtol=0, atol=0)


def check_tally_is_exact(task: AbstractTask, split: str, batch_sizes: tuple[int, int]) -> None:
    """Scores do not depend on how a split is cut into batches."""
    if task.feed == "stream":
        return
    found = [
        task.finish(
            sum((task.tally(_judged(task, batch), batch) for batch in task.batches(split, size)), Tally.empty())
        )
        for size in batch_sizes
    ]
    for name in found[0]:
        torch.testing.assert_close(found[0][name], found[1][name], rtol=1e-9, atol=1e-9)


def _judged(task: AbstractTask, batch: Batch) -> Tensor:
    """Outputs that depend on each sequence's own inputs alone, [B, T, M], or [P, B, T, M] where members differ."""
    axes = 2 if task.encoding == "tokens" else 3
    inputs = batch.inputs.double()
    mixed = inputs if axes == 2 else inputs.sum(-1)
    steps = torch.arange(1, mixed.shape[-1] + 1, dtype=torch.float64)
    phase = (mixed * steps).cumsum(-1)[..., None] + torch.arange(task.output_size, dtype=torch.float64)
    outputs = torch.sin(phase)
    if task.population is not None and outputs.dim() == 3:
        outputs = torch.stack([outputs * member for member in range(1, task.population + 1)])
    return outputs


def check_never_waits(task: AbstractTask) -> None:
    """Once it has run, nothing about a training step makes the host wait for the device or copies numbers to it."""
    batch = task.sample(4, generator=generator())
    outputs = random_outputs(task, batch, task.population)
    task.loss(outputs, batch), task.tally(outputs, batch)
    with Recorder() as recorder:
        batch = task.sample(4, generator=generator())
        task.loss(outputs, batch)
        task.tally(outputs, batch)
    assert recorder.names
    assert not [name for name in recorder.names if name.startswith(WAITING)]


def check_samples(task: AbstractTask) -> None:
    """A generator decides everything, and nothing else is touched."""
    before = torch.get_rng_state()
    one, again, other = (task.sample(6, generator=generator(seed)) for seed in (3, 3, 4))
    check_batch(task, one, 6)
    assert_same(one, again)
    assert any(not torch.equal(x, y) for x, y in zip(tensors(one), tensors(other), strict=True))
    assert torch.equal(torch.get_rng_state(), before)
    advancing = generator(3)
    task.sample(6, generator=advancing)
    second = task.sample(6, generator=advancing)
    assert any(not torch.equal(x, y) for x, y in zip(tensors(one), tensors(second), strict=True))
