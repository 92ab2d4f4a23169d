"""What a recorded step of a stream reads and writes, with a recorder that needs no GPU: it does the step again."""

from collections import defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from rnnlab import Hyperparameters, Run, TrainingError, train
from rnnlab.training import graphs, population
from tests.training.small import assert_same_run, network, quick
from tests.training.streams import Letters


class Recorded:
    """Stands for a CUDA graph, which would read the same tensors at every replay."""

    def __init__(self, step: Callable[[], None], generators: Iterable[torch.Generator], stream: None) -> None:
        self.replay = step


@pytest.fixture
def on_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graphs, "borrowed_stream", lambda owner, device: None)
    monkeypatch.setattr(graphs, "aside", lambda step, stream: step())
    monkeypatch.setattr(graphs, "recorded", Recorded)
    monkeypatch.setattr(population, "_is_graphed", lambda architecture, task, device, use_graph: use_graph)


def members() -> list[Hyperparameters]:
    return [quick(seed=seed, batch_size=2, num_steps=12 + 9 * (seed == 0)) for seed in range(3)]


def trained(problem: Letters, *, use_graph: bool, **options) -> Run:
    return train(network(problem), problem, members(), use_graph=use_graph, **options)


@pytest.mark.parametrize("size", [13, 25, 61])  # passes of one batch, of two, and of five
@pytest.mark.parametrize(("truncation", "restart"), [(None, 0.0), (2, 0.0), (None, 0.4)])
def test_recorded_steps_of_a_stream_are_the_ordinary_ones(
    on_the_cpu: None, size: int, truncation: int | None, restart: float
) -> None:
    problem = Letters(size=size)
    of = [member.changed(truncation=truncation, restart=restart) for member in members()]
    recorded, plain = (train(network(problem), problem, of, use_graph=use) for use in (True, False))
    assert_same_run(recorded, plain)


def test_step_is_recorded_with_the_multiprocessors_of_the_last_ordinary_one() -> None:
    """Otherwise kernels might have to be loaded while it is, which CUDA refuses."""
    warm_ups = graphs.WarmUps(torch.device("cpu"))
    rooms = [(8, 8), (8, 8), (8, 8), (4, 8), (2, 8), (2, 8)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(graphs, "processors", lambda device: rooms[len(due)])
        due: list[bool] = []
        while len(due) < len(rooms):
            due.append(warm_ups.is_another_due())
    assert due == [True] * 5 + [False]


def test_recorded_steps_read_the_same_tensors(on_the_cpu: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """A graph knows places in memory, not names."""
    places: set[tuple[int, ...]] = set()
    bring = graphs.GraphedStreamStep._bring

    def watched(step: graphs.GraphedStreamStep, batch) -> None:
        bring(step, batch)
        assert step._batch is not None
        carried = step._step.state.carried
        assert carried is not None
        tensors = (step._batch.inputs, step._batch.targets, step._batch.weights, *carried.values.values())
        places.add(tuple(tensor.data_ptr() for tensor in tensors if tensor is not None))

    monkeypatch.setattr(graphs.GraphedStreamStep, "_bring", watched)
    problem = Letters()
    train(network(problem), problem, quick(num_steps=40, batch_size=2), use_graph=True)
    assert len(places) == 1


def test_stream_goes_on_from_a_checkpoint(on_the_cpu: None, tmp_path: Path) -> None:
    problem, asked = Letters(), []

    def stop() -> bool:
        asked.append(None)
        return len(asked) == 9

    trained(problem, use_graph=True, checkpoint=tmp_path, stop=stop)
    resumed = trained(problem, use_graph=True, checkpoint=tmp_path, resume=True)
    assert_same_run(resumed, trained(problem, use_graph=False))


def test_a_stream_is_nobody_elses_as_long_as_its_owner_lives(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graphs, "_SPARE", defaultdict(list))
    monkeypatch.setattr(graphs, "new_stream", lambda device: SimpleNamespace(device=device))

    class Owner:
        pass

    owners = [Owner() for _ in range(40)]  # torch would hand out its 32 streams, and then the first again
    streams = [graphs.borrowed_stream(owner, torch.device("cuda:0")) for owner in owners]
    assert len({id(stream) for stream in streams}) == 40
    del owners[7]
    assert graphs.borrowed_stream(owners[0], torch.device("cuda:1")).device == 1
    assert graphs.borrowed_stream(owners[0], torch.device("cuda:0")) is streams[7]


def test_graph_is_refused_without_a_gpu() -> None:
    with pytest.raises(TrainingError, match="CUDA graphs need a GPU; for a stream, batches of whole periods"):
        trained(Letters(), use_graph=True)
