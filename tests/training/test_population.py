"""Each member is trained as it would be alone, whoever is beside it and whoever leaves (C10, issue: compaction)."""

import json
from collections.abc import Generator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from rnnlab import AbstractTask, Architecture, Hyperparameters, TrainingError, architecture, evaluate, task, train
from rnnlab.training import evaluation
from rnnlab.training.events import Compacted, Evaluated, Event, Finished, MemberFinished, Started, Stepped
from rnnlab.training.loop import Training, train_together, training
from rnnlab.training.numbers import Layout
from tests.training.small import adding, assert_same_member, assert_same_run, mixed, network, quick
from tests.training.streams import Letters


@pytest.mark.parametrize("name", ["tanh", "lstm", "td:gru", "skip-3:lstm"])
def test_member_equals_itself_trained_alone_bit_for_bit(name: str) -> None:
    problem, members = adding(), [replace(member, nonlinearity=None) for member in mixed()]
    net = network(problem, name)
    together = train(net, problem, members)
    for number, member in enumerate(members):
        assert_same_member(together, number, train(net, problem, member), 0)
    assert len({tuple(member.curve.losses) for member in together.members}) == len(members)


@pytest.mark.parametrize("name", ["tanh", "gru", "lstm"])
def test_members_of_different_nonlinearities_equal_themselves_alone(name: str) -> None:
    """Up to rounding: the engine compiles other code for members that differ, which an LSTM's products show."""
    problem, members = adding(), mixed()
    net = network(problem, name)
    together = train(net, problem, members)
    for number, member in enumerate(members):
        alone = train(net, problem, member)
        assert together.members[number].curve.losses == pytest.approx(alone.members[0].curve.losses, rel=1e-5)
        if name != "lstm":
            assert_same_member(together, number, alone, 0)


def test_members_with_batches_of_their_own_equal_themselves_alone(tmp_path: Path) -> None:
    """C73; two share theirs, one leaves, and the run is resumed after that."""
    problem, net = adding(), network(adding())
    members = [quick(seed=seed, batch_seed=seed // 2, num_steps=20 if seed else 5) for seed in range(4)]
    together = train(net, problem, members, checkpoint=tmp_path, save_every=5)
    for number, member in enumerate(members):
        assert_same_member(together, number, train(net, problem, member), 0)
    asked: list[None] = []

    def stop() -> bool:
        asked.append(None)
        return len(asked) == 13

    train(net, problem, members, checkpoint=tmp_path / "cut", stop=stop)
    assert_same_run(together, train(net, problem, members, checkpoint=tmp_path / "cut", resume=True))
    alike = [replace(member, seed=0) for member in members[1:]]
    losses = [member.curve.losses for member in train(net, problem, alike).members]
    assert losses[0] != losses[1] == losses[2]


@pytest.mark.parametrize(
    ("problem", "message"),
    [(Letters(), "is read in order"), (task("capacity", num_samples=(4, 5), num_inputs=6), "differs between members")],
    ids=["stream", "arguments by member"],
)
def test_batches_that_cannot_be_drawn_for_each_member_are_refused(problem: AbstractTask, message: str) -> None:
    members = [quick(batch_seed=seed, batch_size=2) for seed in range(2)]
    with pytest.raises(TrainingError, match=message):
        train(network(problem, "gru"), problem, members)


@pytest.mark.parametrize("seed", ["x", None, 2.5, -1])
def test_seed_is_an_integer(seed: Any) -> None:
    problem = adding()
    with pytest.raises(TrainingError, match="seed must be an integer of at least 0"):
        train(network(problem), problem, quick(), seed=seed)


def test_restarts_need_streams() -> None:
    problem = adding()
    with pytest.raises(TrainingError, match=r"adding.* has no streams that could begin again: leave out restart"):
        train(network(problem), problem, [quick(), quick(restart=0.1)])


def test_runs_in_turn_are_those_one_after_another(tmp_path: Path) -> None:
    problem = adding()
    names, members = ("tanh", "td:gru"), [quick(seed=seed, num_steps=5 + 10 * seed) for seed in range(2)]
    runs = [training(network(problem, name), problem, members, checkpoint=tmp_path / name) for name in names]
    for name, run in zip(names, train_together(runs), strict=True):
        assert_same_run(run, train(network(problem, name), problem, members))


def test_a_run_that_fails_lets_go_of_the_folders_of_all(tmp_path: Path) -> None:
    problem, net = adding(), network(adding())

    def fail() -> bool:
        raise KeyError("broken")

    runs = [training(net, problem, quick(), checkpoint=tmp_path / str(n), stop=fail if n else None) for n in range(2)]
    with pytest.raises(KeyError, match="broken"):
        train_together(runs)
    train(net, problem, quick(), checkpoint=tmp_path / "0")


def test_every_step_of_a_run_is_done_on_its_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """And each of several runs has a stream there; devices are recorded, for there may be no GPU."""
    present, seen, streams = ["cuda:0"], [], []

    @contextmanager
    def on(device: torch.device) -> Generator[None]:
        present.append(str(device))
        yield
        present.pop()

    def steps(number: int) -> Generator[None, None, Any]:
        for _ in range(2):
            seen.append((number, present[-1]))
            yield
        return number

    monkeypatch.setattr(torch.cuda, "device", on)
    monkeypatch.setattr(torch.cuda, "Stream", lambda device: streams.append(str(device)))
    monkeypatch.setattr(torch.cuda, "stream", lambda stream: nullcontext())
    runs = [Training(steps(number), torch.device(device)) for number, device in enumerate(["cuda:1", "cpu", "cuda:2"])]
    assert train_together(runs) == [0, 1, 2]
    assert seen == [(0, "cuda:1"), (1, "cuda:0"), (2, "cuda:2")] * 2
    assert streams == ["cuda:1", "cuda:2"]


def test_the_last_member_of_a_nonlinearity_stays() -> None:
    problem = adding()
    members = [quick(seed=seed, nonlinearity="tanh", num_steps=5) for seed in range(4)]
    members += [quick(seed=seed, nonlinearity="relu", num_steps=15) for seed in range(2)]
    events: list[Event] = []
    compacted = train(network(problem), problem, members, report=events.append)
    assert [event.members for event in events if isinstance(event, Compacted)] == [[0, 4, 5]]
    assert_same_run(compacted, train(network(problem), problem, members, compact=False))


@pytest.mark.parametrize("path", ["cpu", "reference"])
def test_paths_agree(path: str) -> None:
    problem = adding()
    run = train(network(problem), problem, mixed(), path=path)
    other = train(network(problem), problem, mixed())
    for ours, theirs in zip(run.members, other.members, strict=True):
        assert ours.curve.losses == pytest.approx(theirs.curve.losses, rel=1e-3)


def test_taking_out_ended_members_changes_nothing() -> None:
    problem, members = adding(), [quick(seed=seed, num_steps=5 * (seed + 1)) for seed in range(5)]
    events: list[Event] = []
    compacted = train(network(problem), problem, members, report=events.append)
    assert_same_run(compacted, train(network(problem), problem, members, compact=False))
    assert [event.members for event in events if isinstance(event, Compacted)] == [[3, 4], [4]]
    assert [member.num_steps for member in compacted.members] == [5, 10, 15, 20, 25]


@pytest.mark.parametrize("length", [1, 5])
def test_task_with_arguments_for_each_member_loses_them_with_the_members(length: int) -> None:
    sizes = (4, 12, 20)
    problem = task("capacity", num_samples=sizes, num_inputs=6, length=length)
    net = network(problem, "gru")
    members = [quick(seed=1, num_steps=10 if number < 2 else 20, batch_size=16) for number in range(3)]
    together = train(net, problem, members)
    assert together.members[0].validation["mutual_information"] <= 4
    assert_same_run(together, train(net, problem, members, compact=False))
    for number in range(3):
        assert_same_member(together, number, train(net, problem.select_members([number]), members[number]), 0)


def test_member_is_evaluated_at_its_own_end_with_its_own_numbers() -> None:
    problem = adding()
    run = train(network(problem), problem, [quick(num_steps=7), quick(num_steps=12)])
    assert [member.curve.steps for member in run.members] == [(5, 7), (5, 10, 12)]
    assert [member.outcome for member in run.members] == ["finished", "finished"]


def test_model_holds_the_numbers_that_were_best_on_validation() -> None:
    problem = adding()
    run = train(network(problem), problem, [quick(seed=seed, learning_rate=0.3, num_steps=40) for seed in range(4)])
    assert any(member.best_step != 40 for member in run.members), "the last evaluation is never all that could be kept"
    scores = evaluate(run.model, problem, "validation", 8)["mse"]
    assert [member.validation["mse"] for member in run.members] == scores
    assert [min(member.curve.scores["mse"]) for member in run.members] == scores
    assert [member.test["mse"] for member in run.members] == evaluate(run.model, problem, "test", 8)["mse"]


def test_scores_do_not_depend_on_how_many_sequences_run_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = adding()
    model = train(network(problem), problem, mixed()).model
    few = evaluate(model, problem, "test", 3)["mse"]
    first = evaluate(model, problem, "test", 3, num_sequences=7)["mse"]
    monkeypatch.setattr(evaluation, "sequences_at_once", lambda model, task, batch_size: 3 * batch_size)
    assert evaluate(model, problem, "test", 3)["mse"] == pytest.approx(few, rel=1e-6)
    assert evaluate(model, problem, "test", 3, num_sequences=7)["mse"] == pytest.approx(first, rel=1e-6)  # nine of them
    assert first != pytest.approx(few, rel=1e-6)


def test_one_network_has_no_population_axis() -> None:
    problem = adding()
    assert train(network(problem), problem, quick()).model.population is None
    assert train(network(problem), problem, [quick()]).model.population == 1


def test_runs_with_one_seed_are_the_same_and_with_another_differ() -> None:
    problem = adding()
    net = network(problem)
    run = train(net, problem, quick(weight_noise=0.1), seed=3)
    assert_same_run(run, train(net, problem, quick(weight_noise=0.1), seed=3))
    assert run.members[0].curve.losses != train(net, problem, quick(weight_noise=0.1), seed=4).members[0].curve.losses


def test_initial_numbers_depend_on_the_seed_of_the_member_alone() -> None:
    layout = Layout(network(adding()))
    first, second, third = layout.initial([quick(seed=1), quick(seed=2), quick(seed=1, learning_rate=0.5)])
    assert torch.equal(first, third)
    assert not torch.equal(first, second)
    (alone,) = layout.initial([quick(seed=2)])
    assert torch.equal(second, alone)
    (other,) = layout.initial([quick(seed=1, gate_bias=1.0)])
    assert 0 < int((other != first).sum()) <= 6, "a bias of the forget gate for each unit"


def test_training_neither_uses_nor_changes_the_global_generator() -> None:
    torch.manual_seed(0)
    before = torch.random.get_rng_state()
    problem = adding()
    train(network(problem), problem, quick(weight_noise=0.1, dropout=0.5))
    assert torch.equal(torch.random.get_rng_state(), before)


def test_events_tell_the_run_in_order() -> None:
    problem = adding()
    events: list[Event] = []
    run = train(network(problem), problem, quick().with_seeds(2), report=events.append, report_every=4)
    kinds = [(type(event).__name__, event.step) for event in events]
    assert kinds[0] == ("Started", 0)
    assert [step for kind, step in kinds if kind == "Stepped"] == [4, 5, 8, 10, 12]
    validations = [event for event in events if isinstance(event, Evaluated) and event.split == "validation"]
    assert [event.step for event in validations] == [5, 10, 12]
    assert [event.scores["mse"][1] for event in validations] == list(run.members[1].curve.scores["mse"])
    assert [event.member for event in events if isinstance(event, MemberFinished)] == [0, 1]
    last = events[-1]
    assert isinstance(last, Finished)
    assert last.is_complete
    assert last.best == [member.validation["mse"] for member in run.members]
    started, stepped = events[0], events[1]
    assert isinstance(started, Started)
    assert (started.population, started.num_steps, started.score, started.better) == (2, 12, "mse", "lower")
    assert isinstance(stepped, Stepped)
    assert stepped.num_active == 2
    assert stepped.learning_rates == [1e-3, 1e-3]


def test_run_prints_every_member() -> None:
    problem = adding()
    lines = str(train(network(problem), problem, mixed()[:2])).splitlines()
    assert len(lines) == 4
    assert "mse" in lines[0]
    assert lines[1].split() == ["member", "validation", "test", "outcome;", "hyperparameters"]
    assert "finished at step 12; seed=2 nonlinearity=relu optimiser=momentum" in lines[3]


def test_run_is_saved_with_all_that_it_says(tmp_path: Path) -> None:
    problem = adding()
    run = train(network(problem), problem, mixed()[:2], seed=5)
    run.save(tmp_path / "run.json")
    saved = json.loads((tmp_path / "run.json").read_text())
    assert saved["seed"] == 5
    assert task(**saved["task"]) == problem
    assert Architecture.from_json(saved["architecture"]) == network(problem)
    for member, found in zip(run.members, saved["members"], strict=True):
        assert Hyperparameters.from_json(found["hyperparameters"]) == member.hyperparameters
        assert found["curve"]["losses"] == list(member.curve.losses)
        assert (found["outcome"], found["test"]) == ("finished", member.test)


def wide() -> AbstractTask:
    return task("copying", delay=3)


def test_what_does_not_fit_is_refused() -> None:
    problem = adding()
    net = network(problem)
    with pytest.raises(TrainingError, match="inputs of width 10, the architecture 2: build it with input_size=10"):
        train(net, wide())
    with pytest.raises(TrainingError, match="outputs of width 1, the architecture 3"):
        train(architecture("tanh", input_size=2, output_size=3, units=4), problem)
    with pytest.raises(TrainingError, match="inputs of values, the architecture of tokens"):
        train(architecture("tanh", input_size=2, output_size=1, units=4, encoding="tokens"), problem)
    with pytest.raises(TrainingError, match="a sequence of one or more"):
        train(net, problem, [])
    with pytest.raises(TrainingError, match="a nonlinearity to every member"):
        train(net, problem, [quick(nonlinearity="tanh"), quick()])
    capacity = task("capacity", num_samples=(3, 4), num_inputs=2)
    with pytest.raises(TrainingError, match="arguments for 2 members, the population has 1"):
        train(network(capacity), capacity)
    with pytest.raises(TrainingError, match="report_every must be an integer of at least 1, got 0"):
        train(net, problem, report_every=0)
    with pytest.raises(TrainingError, match="resume needs a checkpoint"):
        train(net, problem, resume=True)
    with pytest.raises(TrainingError, match="CUDA graphs need a GPU"):
        train(net, problem, use_graph=True)


def test_defaults_train_one_network() -> None:
    problem = adding()
    run = train(network(problem), problem, Hyperparameters(num_steps=1))
    assert run.members[0].hyperparameters == Hyperparameters(num_steps=1)
    assert run.is_complete


def test_names_are_neither_architecture_nor_task() -> None:
    wrong: Any = "adding"
    made = architecture("gru", input_size=2, output_size=1, units=3)
    with pytest.raises(TrainingError, match=r"train takes an object for its task: task\('adding', \.\.\.\) makes one"):
        train(made, wrong, Hyperparameters(num_steps=1))
    with pytest.raises(TrainingError, match=r"an object for its architecture: architecture\('adding', \.\.\.\) makes"):
        train(wrong, task("adding"), Hyperparameters(num_steps=1))


def test_graphs_and_tables_are_neither_architecture_nor_task() -> None:
    made: Any = architecture("gru", input_size=2, output_size=1, units=3)
    table: Any = {"name": "adding"}
    with pytest.raises(TrainingError, match=r"train takes an architecture, got <CyclicGraph.*architecture\(graph,"):
        train(made.graph, task("adding"), Hyperparameters(num_steps=1))
    with pytest.raises(TrainingError, match=r"train takes a task, got \{'name': 'adding'\}"):
        train(made, table, Hyperparameters(num_steps=1))
