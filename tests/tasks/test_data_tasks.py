"""What holds for every task on a data set: scores, chance, populations, repeated passes, real networks, bad input."""

import gc
import math
import pickle
import warnings
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from rnnlab import architecture
from rnnlab.engine.model import Model
from rnnlab.errors import TaskError
from rnnlab.tasks.data_baselines import BASELINES
from rnnlab.tasks.data_catalogue import DATA_SETS, DataSet, register_data_set
from rnnlab.tasks.data_tasks import AbstractDataTask
from rnnlab.tasks.mnist import PermutedMnist, SequentialMnist
from rnnlab.tasks.music import JsbChorales, MuseData, Nottingham, PianoMidi
from rnnlab.tasks.penn_treebank import PennTreebankCharacters, PennTreebankWords
from rnnlab.tasks.sentiment import Sentiment
from rnnlab.tasks.task import SPLITS, Batch, Tally
from rnnlab.tasks.text8 import Text8Collins, Text8Zhang
from tests.tasks.small_data import ptb_files, save_data_set

KINDS: tuple[type[AbstractDataTask], ...] = (
    *(SequentialMnist, PermutedMnist, PennTreebankCharacters, PennTreebankWords, Text8Zhang, Text8Collins),
    *(JsbChorales, Nottingham, MuseData, PianoMidi, Sentiment),
)
SMALL: dict[str, Callable[[], AbstractDataTask]] = {
    "mnist": lambda: SequentialMnist(data="small-mnist", num_validation=9),
    "permuted": lambda: PermutedMnist(data="small-mnist", num_validation=9, seed=3),
    "ptb-characters": lambda: PennTreebankCharacters(data="small-ptb", length=7),
    "ptb-words": lambda: PennTreebankWords(data="small-ptb", length=7, num_words=12),
    "text8-zhang": lambda: Text8Zhang(data="small-text8", length=11, num_evaluation=300),
    "text8-collins": lambda: Text8Collins(data="small-text8", length=11, warm_up=3, num_evaluation=300),
    "music": lambda: JsbChorales(data="small-music", length=6),
    "music-mat": lambda: JsbChorales(data="small-music-mat", length=6),
    "sst": lambda: Sentiment(data="small-sst", length=9, num_words=12),
    "sst-phrases": lambda: Sentiment(data="small-sst", length=9, num_words=12, phrases=True),
}
STREAMS = ("ptb-characters", "ptb-words", "text8-zhang")


@pytest.fixture(params=SMALL)
def small(request: pytest.FixtureRequest, small_data: dict[str, DataSet]) -> AbstractDataTask:
    return SMALL[request.param]()


def evaluate(task: AbstractDataTask, split: str, batch_size: int, outputs_of: Callable[[Batch], Tensor]) -> dict:
    tally = Tally.empty()
    for batch in task.batches(split, batch_size):
        tally = tally + task.tally(outputs_of(batch), batch)
    return {name: value.tolist() for name, value in task.finish(tally).items()}


def shape_of_outputs(task: AbstractDataTask, batch: Batch) -> tuple[int, ...]:
    return (*batch.inputs.shape[:2], task.output_size)


def constant_answer(task: AbstractDataTask) -> Tensor:
    """The logits that know nothing but the training split's frequencies."""
    if isinstance(task, JsbChorales):
        batches = list(task.batches("train", 3))
        notes = torch.cat([batch.targets[batch.weights > 0] for batch in batches]).double()
        return torch.logit((notes.sum(0) + 1) / (len(notes) + 2))
    if isinstance(task, SequentialMnist | PermutedMnist | Sentiment):
        whole = replace(task, phrases=False) if isinstance(task, Sentiment) else task
        labels = torch.cat([batch.targets for batch in whole.batches("train", 7)])
        return log_frequencies(labels, task.output_size)
    (text,) = task.tensors("train", "cpu")
    return log_frequencies(text, task.output_size)


def log_frequencies(classes: Tensor, num_classes: int) -> Tensor:
    """By counting one by one, from one on."""
    counts = [1] * num_classes
    for number in classes.tolist():
        counts[number] += 1
    return torch.tensor([count / sum(counts) for count in counts], dtype=torch.float64).log()


def test_constant_answer_scores_the_chance_level(small: AbstractDataTask) -> None:
    """What `scores` promises of a network that ignores its input is what that network gets."""
    answer = constant_answer(small)
    found = evaluate(small, "test", 5, lambda batch: answer.expand(shape_of_outputs(small, batch)))
    assert found == pytest.approx({score.name: score.chance for score in small.scores}, rel=1e-9)


def right_answer(task: AbstractDataTask, batch: Batch) -> Tensor:
    if isinstance(task, JsbChorales):
        return 200.0 * batch.targets.double() - 100
    logits = torch.nn.functional.one_hot(batch.targets, task.output_size) * 100.0
    return logits if logits.dim() == 3 else logits[:, None].expand(shape_of_outputs(task, batch))


def test_right_answer_scores_the_best(small: AbstractDataTask) -> None:
    found = evaluate(small, "validation", 4, lambda batch: right_answer(small, batch))
    best = {"accuracy": 1.0, "perplexity": 1.0}
    assert found == pytest.approx({score.name: best.get(score.name, 0.0) for score in small.scores}, abs=1e-9)
    for score in small.scores:
        assert score.best in (None, best.get(score.name, 0.0))


def answer_by_input(task: AbstractDataTask, batch: Batch) -> Tensor:
    """Logits that depend on the input of their step only: a network without memory, the same at any batch size."""
    generator = torch.Generator().manual_seed(7)
    if task.encoding == "tokens":
        return torch.randn(task.input_size, task.output_size, generator=generator)[batch.inputs]
    return batch.inputs @ torch.randn(task.input_size, task.output_size, generator=generator)


def test_scores_do_not_depend_on_the_batch_size(small: AbstractDataTask) -> None:
    for split in SPLITS:
        found = [evaluate(small, split, size, lambda batch: answer_by_input(small, batch)) for size in (1, 3, 64)]
        assert found[1] == pytest.approx(found[0], rel=1e-6)
        assert found[2] == pytest.approx(found[0], rel=1e-6)


def same(one: Batch, other: Batch) -> bool:
    weights = (one.weights is None) == (other.weights is None) and (
        one.weights is None or torch.equal(one.weights, other.weights)
    )
    return weights and torch.equal(one.inputs, other.inputs) and torch.equal(one.targets, other.targets)


def test_passes_over_a_split_are_the_same(small: AbstractDataTask) -> None:
    for split in SPLITS:
        first, second = (list(small.batches(split, 4)) for _ in range(2))
        assert len(first) == len(second)
        assert all(same(*pair) for pair in zip(first, second, strict=True))


def test_streams_continue_and_samples_do_not(small: AbstractDataTask) -> None:
    continues = [batch.continues for batch in small.batches("train", 2)]
    assert continues == [small.feed == "stream" and number > 0 for number in range(len(continues))]


@pytest.mark.parametrize("name", [name for name in SMALL if name not in STREAMS])
def test_samples_follow_the_generator(name: str, small_data: dict[str, DataSet]) -> None:
    task = SMALL[name]()
    seeds = [torch.Generator().manual_seed(seed) for seed in (0, 0, 1)]
    one, again, other = (task.sample(6, generator=generator) for generator in seeds)
    assert same(one, again)
    assert not same(one, other)
    assert one.inputs.shape[:2] == (6, task.num_steps)


@pytest.mark.parametrize("name", [name for name in SMALL if name not in STREAMS])
def test_members_may_have_samples_of_their_own(name: str, small_data: dict[str, DataSet]) -> None:
    task = SMALL[name]()
    apart = task.sample(4, generator=torch.Generator().manual_seed(0), members=3)
    together = task.sample(12, generator=torch.Generator().manual_seed(0))
    assert torch.equal(apart.inputs.flatten(0, 1), together.inputs)
    outputs = torch.randn(3, *shape_of_outputs(task, task.sample(4, generator=torch.Generator())))
    losses = task.loss(outputs, apart)
    for member in range(3):
        alone = Batch(
            inputs=apart.inputs[member],
            targets=apart.targets[member],
            weights=None if apart.weights is None else apart.weights[member],
        )
        assert losses[member].item() == pytest.approx(task.loss(outputs[member], alone).item(), rel=1e-6)


@pytest.mark.parametrize("name", STREAMS)
def test_streams_cannot_be_sampled(name: str, small_data: dict[str, DataSet]) -> None:
    with pytest.raises(TaskError, match="is one stream: take its batches in order"):
        SMALL[name]().sample(2, generator=torch.Generator())


def test_population_has_a_loss_for_each_member(small: AbstractDataTask) -> None:
    batch = next(iter(small.batches("train", 4)))
    outputs = torch.randn(3, *shape_of_outputs(small, batch), generator=torch.Generator().manual_seed(1))
    losses = small.loss(outputs, batch)
    assert losses.tolist() == pytest.approx([small.loss(each, batch).item() for each in outputs], rel=1e-6)
    scores = small.finish(small.tally(outputs, batch))
    for name, value in scores.items():
        alone = [small.finish(small.tally(each, batch))[name].item() for each in outputs]
        assert value.tolist() == pytest.approx(alone, rel=1e-6)


def test_loss_is_the_score_where_both_measure_the_same(small: AbstractDataTask) -> None:
    """One batch that holds the whole split: the loss in nats is the score in its own unit."""
    (batch,) = small.batches("validation", 1000)
    outputs = torch.randn(shape_of_outputs(small, batch), generator=torch.Generator().manual_seed(2))
    scores = {name: value.item() for name, value in small.finish(small.tally(outputs, batch)).items()}
    (key,) = [name for name in scores if name != "accuracy"]
    nats = math.log(scores[key]) if key == "perplexity" else scores[key] * (math.log(2) if "bits" in key else 1)
    assert small.loss(outputs, batch).item() == pytest.approx(nats, rel=1e-5)


def test_steps_that_do_not_count_have_no_gradient(small: AbstractDataTask) -> None:
    *_, batch = small.batches("train", 4)
    outputs = torch.randn(shape_of_outputs(small, batch), requires_grad=True)
    small.loss(outputs, batch).backward()
    assert outputs.grad is not None
    touched = outputs.grad.abs().sum(-1) > 0  # [B, T]
    if batch.weights is None:  # the last step alone
        assert torch.equal(touched, torch.arange(touched.shape[1]).expand_as(touched) == touched.shape[1] - 1)
    else:
        assert torch.equal(touched, batch.weights > 0)


def test_network_of_the_tasks_sizes_runs_and_has_gradients(small: AbstractDataTask) -> None:
    sizes = {"input_size": small.input_size, "output_size": small.output_size, "units": 4}
    network = architecture("sh:gru", **sizes, encoding=small.encoding)
    model = Model(network, generator=torch.Generator().manual_seed(0), population=2)
    batch = next(iter(small.batches("train", 3)))
    outputs, _ = model(batch.inputs)
    loss = small.loss(outputs, batch)
    assert loss.shape == (2,)
    loss.sum().backward()
    assert all(parameter.grad is not None for parameter in model.parameters())
    assert any(bool(parameter.grad.abs().sum() > 0) for parameter in model.parameters())


def test_task_is_rebuilt_from_its_json(small: AbstractDataTask) -> None:
    written = small.to_json()
    assert written.pop("name") == small.name
    assert type(small)(**written) == small


def test_task_prints_what_it_is_on(small: AbstractDataTask) -> None:
    assert str(small).startswith(small.name)
    assert f"data='{small.data}'" in str(small)


def test_example_shows_the_first_sequence(small: AbstractDataTask) -> None:
    example = small.example(next(iter(small.batches("test", 3))))
    assert example.title == str(small)
    assert example.rows
    assert example.answer


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_default_task_is_known_without_its_files(kind: type[AbstractDataTask], tmp_path: Path, monkeypatch) -> None:
    """Sizes, scores and chance come without the data; batches do not."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("RNNLAB_DATA", str(tmp_path))
    task = kind()
    assert min(task.input_size, task.output_size, task.num_steps, task.batch_size) >= 1
    assert all(isinstance(score.chance, float) for score in task.scores)
    moved = replace(DATA_SETS[task.data], name="moved", terms="for this test")
    register_data_set(moved)
    try:
        with pytest.raises(TaskError, match=r"data set moved: .* missing .*rnnlab data add FOLDER") as caught:
            next(iter(replace(task, data="moved").batches("test", 2)))
    finally:
        del DATA_SETS["moved"]
    assert "\n" not in str(caught.value)


def test_every_default_task_has_a_baseline() -> None:
    assert set(BASELINES) == {kind.name for kind in KINDS}


def test_tensors_live_as_long_as_their_task_and_do_not_travel(small: AbstractDataTask) -> None:
    """A recorded CUDA graph goes on reading them, whatever other tasks have read since."""
    found = {split: small.tensors(split, "cpu") for split in SPLITS}
    for length in range(20, 40):
        PennTreebankCharacters(data="small-ptb", length=length).tensors("test", "cpu")
    for split in SPLITS:
        again = small.tensors(split, "cpu")
        assert all(one is other for one, other in zip(found[split], again, strict=True))
    copy = pickle.loads(pickle.dumps(small))
    assert copy == small
    assert not copy.kept
    assert same(next(iter(copy.batches("test", 3))), next(iter(small.batches("test", 3))))


def test_equal_tasks_share_what_was_read_but_do_not_hold_each_other(small_data: dict[str, DataSet]) -> None:
    task, equal = (PennTreebankCharacters(data="small-ptb", length=13) for _ in range(2))
    (text,) = task.tensors("test", "cpu")
    assert equal.tensors("test", "cpu")[0] is text
    first = weakref.ref(task)
    del task
    gc.collect()
    assert first() is None  # with all that it kept on a GPU


def test_data_set_of_the_same_name_is_another(tmp_path: Path, monkeypatch) -> None:
    """Kept tensors belong to checksums, not to names."""
    monkeypatch.setenv("RNNLAB_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setitem(DATA_SETS, "changing", save_data_set(tmp_path, "changing", ptb_files(30)))
    task = PennTreebankCharacters(data="changing")
    before = len(task.tensors("train", "cpu")[0])
    monkeypatch.setitem(DATA_SETS, "changing", save_data_set(tmp_path, "changing", ptb_files(50)))
    for other in (task, PennTreebankCharacters(data="changing")):
        assert len(other.tensors("train", "cpu")[0]) > before


def test_name_of_a_data_set_cannot_be_taken_twice(small_data: dict[str, DataSet]) -> None:
    register_data_set(small_data["small-ptb"])
    with pytest.raises(TaskError, match="there is another data set small-ptb already"):
        register_data_set(replace(small_data["small-ptb"], files=()))


@pytest.mark.parametrize("batch_size", [0, -1, 2.0])
def test_wrong_batch_sizes_and_splits_are_refused(small: AbstractDataTask, batch_size) -> None:
    with pytest.raises(TaskError, match="batch_size must be an integer of at least 1"):
        next(iter(small.batches("test", batch_size)))
    with pytest.raises(TaskError, match="a split is train, validation or test, got 'dev'"):
        next(iter(small.batches("dev", 1)))


@contextmanager
def waiting_is_an_error() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch says that it may overlook some
        torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode("default")


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
def test_gpu_makes_the_same_batches_and_never_waits(small: AbstractDataTask) -> None:
    """Files are read before; then batches, losses and tallies are made without a word to the host."""
    results: list[Tensor] = []
    for split in SPLITS:
        on_cpu = list(small.batches(split, 4))
        list(small.batches(split, 4, device="cuda"))
        with waiting_is_an_error():
            on_gpu = list(small.batches(split, 4, device="cuda"))
            for batch in on_gpu:
                zeros = torch.zeros(shape_of_outputs(small, batch), device="cuda")
                results += [small.loss(zeros, batch), *small.finish(small.tally(zeros, batch)).values()]
        assert all(same(one.to("cpu"), other) for one, other in zip(on_gpu, on_cpu, strict=True))
    if small.feed == "samples":
        generator = torch.Generator("cuda").manual_seed(0)
        with waiting_is_an_error():
            drawn = small.sample(5, generator=generator)
        assert drawn.inputs.is_cuda
    assert small.tensors("train", "cuda")[0] is small.tensors("train", "cuda:0")[0]
    assert all(torch.isfinite(value) for value in results)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
@pytest.mark.parametrize("name", [name for name in SMALL if name not in STREAMS])
def test_recorded_batches_outlive_what_other_tasks_read(name: str, small_data: dict[str, DataSet]) -> None:
    task, source = SMALL[name](), torch.Generator("cuda").manual_seed(5)
    expected = [task.sample(4, generator=source) for _ in range(2)]
    graph = torch.cuda.CUDAGraph()
    graph.register_generator_state(source)
    with torch.cuda.graph(graph):
        recorded = task.sample(4, generator=source)
    others = [PennTreebankCharacters(data="small-ptb", length=length) for length in range(20, 40)]
    assert all(other.tensors("train", "cuda") for other in others)
    source.manual_seed(5)
    for batch in expected:
        graph.replay()
        assert same(recorded, batch)
