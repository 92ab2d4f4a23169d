"""Runs that are killed or stopped, and gone on with: the result is the one of never stopping, bit for bit."""

import json
import os
import random
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from torch import Tensor

from rnnlab import load_model
from rnnlab.training.checkpoints import FILE
from rnnlab.training.interruption import Interruption
from tests.patience import PATIENCE

# members of one population with different ends: one is infeasible, one stops early, others go through
WORDS = [
    *("train", "gru", "--task", "adding", "--length", "12", "--num-evaluation", "50", "--units", "8"),
    *("-p", "optimiser=adam,sgd,rmsprop,momentum", "-p", "learning_rate=0.01,1e9,0.003,0.01", "-p", "batch_size=8"),
    *("-p", "weight_noise=0.01,0,0,0.02", "-p", "dropout=0,0,0.2,0", "-p", "num_steps=400,400,200,400"),
    *("-p", "evaluate_every=40", "--report-every", "10", "--save-every", "15", "--json"),
]
CLEAN = {**os.environ, "OMP_NUM_THREADS": "1"}


def start(*words: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "rnnlab", *words]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=CLEAN)


def finish(process: subprocess.Popen[str]) -> tuple[list[dict], str]:
    out, err = process.communicate(timeout=PATIENCE)
    return [json.loads(line) for line in out.splitlines()], err


def numbers(path: Path) -> dict[str, list]:
    """The numbers of a model's file, bit for bit."""
    arrays: dict[str, Tensor] = dict(load_model(path).arrays.items())
    return {name: array.detach().numpy().view("int32").tolist() for name, array in arrays.items()}


@pytest.fixture(scope="module")
def never_stopped(tmp_path_factory) -> tuple[dict, dict[str, list]]:
    """The result of a run that nobody stops, and its model's numbers."""
    path = tmp_path_factory.mktemp("whole") / "model.safetensors"
    process = start(*WORDS, "-o", str(path))
    events, err = finish(process)
    assert process.returncode == 0, err
    return events[-1], numbers(path)


def test_whole_run_has_members_with_different_ends(never_stopped) -> None:
    outcomes = [member["outcome"] for member in never_stopped[0]["members"]]
    assert outcomes == ["finished", "infeasible", "finished", "finished"]
    assert [member["num_steps"] for member in never_stopped[0]["members"]][2:] == [200, 400]


def test_killed_run_ends_as_if_nothing_had_happened(never_stopped, tmp_path: Path) -> None:
    seed = random.randrange(10**6)
    print("seed of the moments:", seed)
    chance, folder, path = random.Random(seed), tmp_path / "run", tmp_path / "model.safetensors"
    words = [*WORDS, "--checkpoint", str(folder), "-o", str(path)]
    starts: list[int] = []
    for _ in range(4):
        process = start(*words, *(["--resume"] if (folder / FILE).exists() else []))
        starts.append(kill_somewhere(process, chance))
    process = start(*words, "--resume")
    events, err = finish(process)
    assert process.returncode == 0, err
    starts.append(events[0]["step"])
    assert starts == sorted(starts)
    assert starts[-1] > 0  # it did go on, and did not begin anew
    assert (events[-1], numbers(path)) == never_stopped


def kill_somewhere(process: subprocess.Popen[str], chance: random.Random) -> int:
    """Kill a run some time after it began; returns the step that it began with."""
    assert process.stdout is not None
    first = json.loads(process.stdout.readline())
    for _ in range(chance.randrange(1, 8)):
        if '"Finished"' in process.stdout.readline():
            break
    time.sleep(chance.uniform(0, 0.05))
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    return first["step"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_stopped_run_saves_and_says_how_to_go_on(never_stopped, tmp_path: Path, number: signal.Signals) -> None:
    path = tmp_path / "model.safetensors"
    process = start(*WORDS, "--checkpoint", str(tmp_path / "a run"), "-o", str(path))
    assert process.stdout is not None
    while '"Stepped"' not in process.stdout.readline():
        pass
    process.send_signal(number)
    events, err = finish(process)
    assert process.returncode == 130
    assert [event["event"] for event in events][-3:] == ["Saved", "Finished", "Result"]
    assert not events[-2]["is_complete"]
    assert not path.exists()
    assert "Traceback" not in err
    last = err.splitlines()[-1]
    assert last.startswith("stopped; resume with: rnnlab train gru --task adding")
    process = start(*shlex.split(last.partition("rnnlab ")[2]))
    again, err = finish(process)
    assert process.returncode == 0, err
    assert again[0]["step"] == events[-2]["step"] > 0
    assert (again[-1], numbers(path)) == never_stopped


def test_stopped_run_without_a_folder_says_what_was_missing() -> None:
    process = start(*WORDS)
    assert process.stdout is not None
    while '"Stepped"' not in process.stdout.readline():
        pass
    process.send_signal(signal.SIGINT)
    _, err = finish(process)
    assert process.returncode == 130
    assert err == "stopped; nothing was saved: with --checkpoint FOLDER it could be resumed\n"


def test_stopped_run_without_a_folder_writes_the_model_that_was_asked_for(tmp_path: Path) -> None:
    """Half trained, which is better than lost."""
    path = tmp_path / "half.safetensors"
    process = start(*WORDS, "-o", str(path))
    assert process.stdout is not None
    while '"Stepped"' not in process.stdout.readline():
        pass
    process.send_signal(signal.SIGINT)
    events, err = finish(process)
    assert process.returncode == 130
    assert not events[-2]["is_complete"]
    written, last = err.splitlines()
    assert written == f"wrote {path}"
    is_evaluated = any(event["event"] == "Evaluated" for event in events)
    which = "were best so far" if is_evaluated else "it came to before its first evaluation"
    assert last == f"stopped; the file has the parameters that {which}, and cannot be resumed"
    assert numbers(path)


def test_second_request_stops_at_once_and_leaves_signals_as_they_were() -> None:
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    with Interruption() as interruption:
        assert not interruption()
        signal.raise_signal(signal.SIGINT)
        assert interruption()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGTERM)
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before
