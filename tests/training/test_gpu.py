"""Training on a GPU: as a CUDA graph and step by step, and against the CPU. Skipped where there is none."""

import pytest
import torch

from rnnlab import Hyperparameters, Run, task, train
from rnnlab.training import evaluation
from rnnlab.training.evaluation import evaluate, sequences_at_once
from rnnlab.training.loop import Training, train_together, training
from tests.training.small import adding, assert_same_run, mixed, network, quick
from tests.training.streams import Letters

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


def members() -> list[Hyperparameters]:
    return [*mixed(), quick(optimiser="sgd", learning_rate=1e30, nonlinearity="relu")]  # which diverges


def losses(run: Run) -> list[tuple[float, ...]]:
    return [member.curve.losses for member in run.members]


@pytest.mark.parametrize("name", ["tanh", "gru", "lstm"])
def test_graph_and_single_steps_are_the_same_bit_for_bit(name: str) -> None:
    problem = adding()
    graphed = train(network(problem, name), problem, members(), device="cuda")
    assert_same_run(graphed, train(network(problem, name), problem, members(), device="cuda", use_graph=False))
    assert graphed.members[-1].outcome == "infeasible"


@pytest.mark.parametrize("restart", [0.0, 0.3])
@pytest.mark.parametrize("size", [13, 61])  # passes of one batch and of several
def test_graph_of_a_stream_and_single_steps_are_the_same_bit_for_bit(size: int, restart: float) -> None:
    problem = Letters(size=size)
    of = [quick(seed=seed, batch_size=2, num_steps=25, restart=restart) for seed in range(3)]
    graphed, plain = (train(network(problem), problem, of, device="cuda", use_graph=use) for use in (True, False))
    assert_same_run(graphed, plain)


def test_training_set_of_fixed_size_is_the_same_on_both_devices() -> None:
    problem = task("capacity", num_samples=16, num_inputs=6)  # whose batches hold the whole set
    of = [quick(seed=seed, batch_size=16, num_steps=20, learning_rate=0.01) for seed in range(3)]
    gpu, cpu = (train(network(problem, "gru"), problem, of, device=device) for device in ("cuda", "cpu"))
    for ours, theirs in zip(losses(gpu), losses(cpu), strict=True):
        assert ours == pytest.approx(theirs, rel=1e-3)


def test_member_equals_itself_alone() -> None:
    problem = adding()
    together = train(network(problem), problem, members(), device="cuda")
    for number, member in enumerate(members()):
        alone = train(network(problem), problem, member, device="cuda")
        assert losses(together)[number] == pytest.approx(losses(alone)[0], rel=1e-3)
        assert together.members[number].outcome == alone.members[0].outcome


def test_scores_are_those_of_small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = adding()
    model = train(network(problem), problem, members(), device="cuda").model
    assert sequences_at_once(model, problem, 8) == 1024
    assert sequences_at_once(model, Letters(), 8) == 8
    many = evaluate(model, problem, "test", 8)["mse"]
    monkeypatch.setattr(evaluation, "sequences_at_once", lambda model, task, batch_size: batch_size)
    assert evaluate(model, problem, "test", 8)["mse"] == pytest.approx(many, rel=1e-5, nan_ok=True)


def test_compaction_and_streams_run() -> None:
    of = [quick(seed=seed, batch_size=2, num_steps=5 + 10 * (seed == 0)) for seed in range(3)]
    for problem in (Letters(), adding()):
        compacted = train(network(problem), problem, of, device="cuda")
        whole = train(network(problem), problem, of, device="cuda", compact=False)
        for ours, theirs in zip(losses(compacted), losses(whole), strict=True):
            assert ours == pytest.approx(theirs, rel=1e-3)


def test_resumed_run_is_close(tmp_path) -> None:
    problem = adding()
    asked: list[None] = []

    def stop() -> bool:
        asked.append(None)
        return len(asked) == 6

    train(network(problem), problem, members(), device="cuda", checkpoint=tmp_path, stop=stop)
    resumed = train(network(problem), problem, members(), device="cuda", checkpoint=tmp_path, resume=True)
    whole = train(network(problem), problem, members(), device="cuda")
    for ours, theirs in zip(losses(resumed), losses(whole), strict=True):
        assert ours == pytest.approx(theirs, rel=1e-3)


@pytest.mark.filterwarnings("ignore:Synchronization debug mode")  # a prototype, it says
def test_a_replayed_step_does_not_wait_for_the_device() -> None:
    problem = adding()
    calls: list[int] = []

    def stop() -> bool:
        calls.append(1)
        torch.cuda.set_sync_debug_mode("error" if 5 < len(calls) < 19 else "default")
        return False

    run = train(
        network(problem), problem, quick(num_steps=20, evaluate_every=20).with_seeds(4), device="cuda", stop=stop
    )
    torch.cuda.set_sync_debug_mode("default")
    assert run.is_complete


def populations() -> list[Training]:
    """Of different lengths, and sequences so long that cuBLAS adds up gradients of matrices in parts."""
    problem = adding(length=300)
    found: list[Training] = []
    for number, num_steps in enumerate([40, 80, 40, 120, 80, 120]):
        of = [quick(seed=seed, num_steps=num_steps, evaluate_every=40, batch_size=50) for seed in range(4)]
        found.append(
            training(
                network(problem, units=50 + 4 * number),
                problem,
                of,
                device="cuda",
                precision="bf16",
                report=lambda event: torch.cuda.empty_cache(),  # nobody keeps the memory of those who have ended
            )
        )
    return found


def test_populations_side_by_side_train_as_they_do_alone() -> None:
    together = train_together(populations())
    for run, population in zip(together, populations(), strict=True):
        assert_same_run(run, train_together([population])[0])
