"""`rnnlab train`: the twin of `rnnlab.train`, what it prints, and what it says to bad input."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from rnnlab import Hyperparameters, architecture, load_model, task, train
from rnnlab.cli import main
from rnnlab.training import console
from tests.training.test_checkpoints import limited_file_size

SMALL = ["--task", "adding", "--length", "6", "--num-evaluation", "40", "--units", "5", "--steps", "12"]
EVERY = ["-p", "evaluate_every=5", "-p", "batch_size=4", "--report-every", "4"]


def run(capsys, *arguments: str) -> str:
    assert main(["train", *arguments]) == 0
    return capsys.readouterr().out


def events(text: str) -> list[dict]:
    return [json.loads(line) for line in text.splitlines()]


def test_command_and_function_are_twins(capsys, tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    words = ["-p", "learning_rate=0.1,0.01", "-p", "optimiser=sgd", "--seed", "3", "-o", str(path), "--json"]
    *_, shown = events(run(capsys, "gru", *SMALL, *EVERY, *words))
    start = Hyperparameters(seed=3, optimiser="sgd", num_steps=12, evaluate_every=5, batch_size=4)
    twin = train(
        architecture("gru", input_size=2, output_size=1, units=5),
        task("adding", length=6, num_evaluation=40),
        [start.changed(learning_rate=rate) for rate in (0.1, 0.01)],
        seed=3,
    )
    assert shown["event"] == "Result"
    assert shown["members"] == json.loads(json.dumps(twin.to_json()))["members"]
    saved = load_model(path)
    assert saved.population == 2
    for name, value in twin.model.arrays.items():
        assert torch.equal(saved.arrays[name], value)


def test_json_tells_everything_in_order(capsys) -> None:
    found = events(run(capsys, "lstm", *SMALL, *EVERY, "--population", "2", "--json"))
    assert [event["event"] for event in found if event["event"] not in ("MemberFinished", "Stepped")] == [
        *("Started", "Evaluated", "Evaluated", "Evaluated", "Evaluated", "Finished", "Result"),
    ]
    assert found[0]["architecture"] == "lstm"
    assert found[0]["population"] == 2
    steps = [event["step"] for event in found if event["event"] == "Stepped"]
    assert {4, 8, 12} <= set(steps)
    assert [event["split"] for event in found if event["event"] == "Evaluated"] == ["validation"] * 3 + ["test"]
    assert [member["hyperparameters"]["seed"] for member in found[-1]["members"]] == [0, 1]


def test_people_see_a_table_on_standard_output_and_progress_beside_it(capsys, tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    assert main(["train", "td:lstm", *SMALL, *EVERY, "--population", "3", "-o", str(path)]) == 0
    captured = capsys.readouterr()
    lines = captured.out.splitlines()
    assert lines[0] == "td:lstm on adding, scored by mse"
    assert lines[1].split()[:4] == ["member", "validation", "test", "outcome;"]
    assert [line.split()[0] for line in lines[2:5]] == ["0", "1", "2"]
    assert len({line.index("  finished") for line in lines[2:5]} | {lines[1].index("  outcome")}) == 1
    assert lines[5] == f"wrote {path}"
    told = captured.err.splitlines()
    assert told[0].startswith("td:lstm on adding(num_evaluation=40, length=6): 3 members of 506 parameters; cpu")
    assert told[-1].startswith("finished at step 12 after")


def test_one_network_has_no_population_axis(capsys, tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    run(capsys, "lstm", *SMALL, *EVERY, "-o", str(path))
    assert load_model(path).population is None


def test_argument_of_a_task_that_is_also_an_option_can_be_given(capsys) -> None:
    small = ["--num-samples", "10", "--units", "3", "--steps", "2"]
    *_, result = events(run(capsys, "sh", "--task", "capacity", *small, "--task-seed", "5", "--seed", "2", "--json"))
    assert (result["task"]["seed"], result["seed"]) == (5, 2)


def test_parameters_are_written_as_people_do(capsys) -> None:
    sized = [word for word in SMALL if word not in ("--units", "5")]
    counts = [
        events(run(capsys, "lstm", *sized, *EVERY, "--parameters", text, "--json"))[0]["num_parameters"]
        for text in ("1000", "1k", "0.001M")
    ]
    assert len(set(counts)) == 1
    assert 800 < counts[0] <= 1000


def test_resumed_run_of_a_finished_one_gives_its_result_again(capsys, tmp_path: Path) -> None:
    words = ["lstm", *SMALL, *EVERY, "--checkpoint", str(tmp_path / "run"), "--json"]
    first = events(run(capsys, *words))[-1]
    again = events(run(capsys, *words, "--resume"))
    assert again[-1] == first
    assert again[0]["step"] == 12


def bad(capsys, *arguments: str) -> str:
    """The one line that refuses a command."""
    assert main(["train", *arguments]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("rnnlab: ")
    assert captured.err.count("\n") == 1
    return captured.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["lstm"], "Missing option '--task'"),
        (["--task", "adding"], "Missing argument"),
        (["lsmt", *SMALL], "no architecture is named 'lsmt'; did you mean 'lstm'?"),
        (["lstm", "--task", "addign"], "no task is named 'addign'; did you mean 'adding'?"),
        (["lstm", *SMALL, "--lenght", "3"], "adding has no argument 'lenght'; did you mean 'length'?"),
        (["lstm", *SMALL, "gru"], "the arguments of a task are --NAME VALUE, got 'gru'"),
        (
            ["lstm", *SMALL, "--start", "m.safetensors", "-p", "square=normal"],
            "with --start nothing is drawn: leave out square",
        ),
        (["lstm", *SMALL, "-p", "learningrate=1"], "did you mean 'learning_rate'"),
        (["lstm", *SMALL, "-p", "learning_rate=fast"], "learning_rate must be a number above 0, got 'fast'"),
        (["lstm", *SMALL, "-p", "num_steps=3"], "hyperparameter num_steps is given twice"),
        (["lstm", *SMALL, "-p", "batch_size=3,4"], "batch_size is the same for all members"),
        (["lstm", *SMALL, "--steps", "0"], "num_steps must be an integer of at least 1, got 0"),
        (["lstm", *SMALL, "--population", "0"], "a population has at least 1 member, got 0"),
        (["lstm", *SMALL, "--device", "gpu"], "device is cpu, cuda or cuda:NUMBER, got 'gpu'"),
        (["lstm", *SMALL, "--device", "cuda:77"], "device cuda:77 cannot be used here"),
        (["lstm", *SMALL, "--precision", "float8"], "precision is one of float32, tf32, bf16, got 'float8'"),
        (
            ["lstm", *SMALL, "--parameters", "many"],
            "--parameters takes a number such as 20000, 20k or 1.5M, got 'many'",
        ),
        (["lstm", *SMALL, "--parameters", "20k"], "units"),
        (["lstm", *SMALL, "--resume"], "--resume needs --checkpoint FOLDER"),
        (["lstm", *SMALL, "--checkpoint", "none", "--resume"], "no checkpoint to resume in none"),
        (["lstm", *SMALL, "--checkpoint", "file"], "cannot write to file: File exists"),
        (["lstm", *SMALL, "--report-every", "0"], "report_every must be an integer of at least 1, got 0"),
        (["lstm", *SMALL, "--save-every", "0"], "save_every must be an integer of at least 1, got 0"),
        (["lstm", *SMALL, "-o", "none/model.safetensors"], "there is no folder none"),
        (["lstm", *SMALL, "-o", "."], "cannot write .: Is a directory"),
        (["lstm", *SMALL, "-o", "model.pt"], "a model is written to a .safetensors file, got 'model.pt'"),
        (["lstm", *SMALL, "--seed", "one"], "--seed"),
        (["lstm", *SMALL, "--seed", "-1"], "seed must be an integer of at least 0, got -1"),
        (["none.json", *SMALL[:-4]], "cannot read none.json: No such file or directory"),
    ],
)
def test_bad_input_is_one_line_and_status_two(capsys, tmp_path, monkeypatch, arguments, message: str) -> None:
    monkeypatch.chdir(tmp_path)
    Path("file").write_text("")
    assert message in bad(capsys, *arguments)


def test_checkpoint_of_another_run_is_one_line_and_stays(capsys, tmp_path: Path) -> None:
    words = [*SMALL, *EVERY, "--checkpoint", str(tmp_path / "run")]
    run(capsys, "lstm", *words)
    before = (tmp_path / "run" / "checkpoint.safetensors").read_bytes()
    assert "holds a checkpoint already: resume it, or choose another folder" in bad(capsys, "lstm", *words)
    assert "belongs to another run: architecture" in bad(capsys, "gru", *words, "--resume")
    assert "hyperparameters[0].l2 is 0.0 there, 1 here" in bad(capsys, "lstm", *words, "--resume", "-p", "l2=1")
    assert "seed is 0 there, 1 here" in bad(capsys, "lstm", *words, "--resume", "--seed", "1")
    longer = [word.replace("6", "7") if word == "6" else word for word in words]
    assert "task.length is 6 there, 7 here" in bad(capsys, "lstm", *longer, "--resume")
    assert (tmp_path / "run" / "checkpoint.safetensors").read_bytes() == before


def test_damaged_checkpoint_is_one_line(capsys, tmp_path: Path) -> None:
    words = ["lstm", *SMALL, *EVERY, "--checkpoint", str(tmp_path / "run")]
    run(capsys, *words)
    path = tmp_path / "run" / "checkpoint.safetensors"
    path.write_bytes(path.read_bytes()[:-5])
    assert "is damaged or no checkpoint" in bad(capsys, *words, "--resume")


def test_full_disk_ends_the_run_with_one_line(capsys, tmp_path: Path) -> None:
    words = ["lstm", *SMALL, *EVERY, "--save-every", "5", "--json", "--checkpoint", str(tmp_path / "run")]
    with limited_file_size(1000):
        assert main(["train", *words]) == 2
    captured = capsys.readouterr()
    assert captured.err.count("\n") == 1
    assert "cannot save a checkpoint in" in captured.err
    assert not list((tmp_path / "run").iterdir())


def test_model_that_cannot_be_written_is_one_line(capsys, tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    with limited_file_size(100):
        assert main(["train", "lstm", *SMALL, *EVERY, "--json", "-o", str(path)]) == 2
    assert f"rnnlab: cannot write {path}: " in capsys.readouterr().err


def test_missing_tensorboard_is_one_line(capsys, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard.writer", None)
    assert "pip install 'rnnlab[tensorboard]'" in bad(capsys, "lstm", *SMALL, "--tensorboard", str(tmp_path))


def test_tensorboard_folder_is_filled(capsys, tmp_path: Path) -> None:
    pytest.importorskip("tensorboard", reason="needs TensorBoard: pip install 'rnnlab[tensorboard]'")
    run(capsys, "lstm", *SMALL, *EVERY, "--tensorboard", str(tmp_path / "log"))
    assert list((tmp_path / "log").glob("events.out.tfevents.*"))


def test_help_names_the_options() -> None:
    command = [sys.executable, "-m", "rnnlab", "train", "--help"]
    shown = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    for option in ("--task", "--population", "--hyperparameter", "--checkpoint", "--resume", "--json", "--output"):
        assert option in shown


def refused(capsys, *words: str) -> str:
    """The one line that a command is refused with."""
    assert main([*words]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    return line


def test_what_does_not_fit_into_memory_is_one_line(capsys, monkeypatch) -> None:
    def full(*words, **options):
        raise RuntimeError("[enforce fail at alloc_cpu.cpp:127] DefaultCPUAllocator: can't allocate memory")

    monkeypatch.setattr(console, "train", full)
    line = refused(capsys, "train", "gru", *SMALL)
    assert "do not fit into the memory of cpu: make something smaller: --units" in line


def test_what_cannot_fit_into_memory_is_not_tried(capsys) -> None:
    line = refused(capsys, "train", "gru", "--task", "adding", "--length", "9999999999999", "--num-evaluation", "10")
    assert "a training step takes" in line
    assert "of memory: make something smaller" in line


def test_plan_of_very_many_steps_is_refused(capsys) -> None:
    line = refused(capsys, "measure", "td", "--plan", "--steps", "100000000")
    assert "--steps must be at most 1000000 with --plan" in line


@pytest.mark.parametrize("option", ["--seed", "--number", "--length"])
def test_integers_of_more_than_64_bits_are_refused(option: str, capsys) -> None:
    line = refused(capsys, "show", "adding", option, "9223372036854775808")
    assert f"{option[2:]} must be below 2**63 in size, got 9223372036854775808" in line
    line = refused(capsys, "train", "gru", *SMALL, "-p", "seed=9223372036854775808")
    assert "seed must be below 2**63 in size" in line


def test_largest_seed_of_a_task_can_be_used(capsys) -> None:
    assert main(["show", "adding", "--length", "4", "--seed", str(2**63 - 1)]) == 0
    assert main(["show", "capacity", "--num-samples", "4", "--seed", str(2**63 - 1)]) == 0
