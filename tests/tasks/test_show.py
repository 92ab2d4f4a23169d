"""What people see: examples as text and as figures."""

from pathlib import Path

import numpy as np
import pytest
import torch

from rnnlab import TaskError, show, task
from rnnlab.tasks.copying import Copying
from rnnlab.tasks.example import Curve, Example, Grid, Symbols, plain_example
from rnnlab.tasks.figure import height_of, pieces, width_of
from rnnlab.tasks.registry import TASKS
from rnnlab.tasks.show import description, number_text, score_line, summary, task_table
from rnnlab.tasks.task import AbstractTask
from rnnlab.tasks.terminal import LABEL_WIDTH, terminal_lines
from tests.tasks.generated_tasks import ALL

GENERATED = [name for name, entry in TASKS.items() if entry.data_set is None]


def lines(example: Example, width: int = 100) -> list[str]:
    return ["".join(text for text, _ in line) for line in terminal_lines(example, width=width)]


@pytest.mark.parametrize("problem", ALL, ids=str)
@pytest.mark.parametrize("width", [20, 80])
def test_every_task_fits_the_terminal(problem: AbstractTask, width: int) -> None:
    shown = lines(show(problem), width)
    assert shown[0] == str(problem)
    assert shown[-1].startswith("answer")
    assert all(len(line) <= width for line in shown[1:-1] if "rows, " not in line and "…" not in line)


def test_steps_of_several_rows_stay_in_one_column() -> None:
    example = Example("x", (Symbols("in", tuple("abcdefghij")), Symbols("out", tuple("0123456789"))), "done")
    assert lines(example, LABEL_WIDTH + 8) == [
        "x",
        "",
        "steps       1 to 8",
        "in          abcdefgh",
        "out         01234567",
        "",
        "steps       9 to 10",
        "in          ij",
        "out         89",
        "",
        "answer      done",
    ]


def test_marked_steps_are_pieces_of_their_own() -> None:
    example = Example("x", (Symbols("in", tuple("abcd"), frozenset({1, 2})),), "done")
    (line,) = (line for line in terminal_lines(example, width=80) if line and line[0][0].startswith("in"))
    assert line[1:] == (("a", ""), ("bc", "mark"), ("d", ""))


def test_wide_symbols_are_padded_and_words_become_prose() -> None:
    assert "in          10 2  3  " in lines(Example("x", (Symbols("in", ("10", "2", "3")),), ""))
    words = Symbols("in", ("there", "is", "a", "house"))
    assert "in          there is a house" in lines(Example("x", (words, words), ""))


def test_line_ends_are_shown_as_signs() -> None:
    assert "in          a¶b" in lines(Example("x", (Symbols("in", ("a", "\n", "b")),), ""))


def test_curves_rise_from_the_lowest_to_the_highest() -> None:
    assert "c           ▁▅█" in lines(Example("x", (Curve("c", (-1.0, 0.0, 1.0)),), ""))
    assert "c           ▁▁" in lines(Example("x", (Curve("c", (3.0, 3.0)),), ""))


def test_pictures_are_shades_or_half_blocks() -> None:
    shades = lines(Example("x", (Grid("g", np.array([[0.0, 0.5], [0.5, 1.0]])),), ""))
    assert [line[LABEL_WIDTH:] for line in shades[3:5]] == ["  ▒▒", "▒▒██"]
    binary = lines(Example("x", (Grid("g", np.array([[0, 1, 0, 1], [0, 0, 1, 1], [1, 0, 0, 1]])),), ""))
    assert [line[LABEL_WIDTH:] for line in binary[3:5]] == [" ▀▄█", "▀  ▀"]


def test_pictures_say_what_their_shades_mean() -> None:
    assert "g           2 rows, 1 columns: time; blank is -1.5, █ is 2" in lines(
        Example("x", (Grid("g", np.array([[-1.5], [2.0]])),), "")
    )
    assert "g           1 rows, 2 columns: pixels" in lines(
        Example("x", (Grid("g", np.array([[0, 1]]), "pixels"),), "")
    )


def test_rows_of_pictures_have_their_names_and_blocks_their_steps() -> None:
    notes = Grid("g", np.array([[1, 0] * 5, [0] * 10, [1] * 10]), row_names=("C5", "B4", "A#4"))
    assert lines(Example("x", (notes,), ""), LABEL_WIDTH + 8)[2:10] == [
        "g           3 rows, 10 columns: time",
        "steps       1 to 8",
        "C5          ▀ ▀ ▀ ▀ ",
        "A#4         ▀▀▀▀▀▀▀▀",
        "",
        "steps       9 to 10",
        "C5          ▀ ",
        "A#4         ▀▀",
    ]
    with pytest.raises(TaskError, match="2 names for a grid of 3 rows"):
        Grid("g", np.zeros((3, 1)), row_names=("a", "b"))


def test_units_are_said_once() -> None:
    beginnings = {
        "jsb-chorales": "nats_per_step, lower is better: chance 11.06 (",
        "text8-zhang": "bits_per_character_first74, lower is better: chance 4.119 (",
        "capacity": "mutual_information in bits, higher is better: chance 0 (",
        "parentheses": "cross_entropy in nats over all streams, lower is better: chance 18.21 (",
    }
    for name, beginning in beginnings.items():
        assert score_line(task(name).scores[0]).startswith(beginning)


def test_tall_pictures_are_cut_and_say_so() -> None:
    shown = lines(Example("x", (Grid("g", np.random.default_rng(0).random((40, 3))),), ""))
    assert "            … the first 32 rows; -o FILE draws all 40" in shown
    assert len(shown) < 45


@pytest.mark.parametrize("shape", [(0, 3), (3,)])
def test_grids_without_rows_or_columns_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(TaskError, match="a grid has rows and columns"):
        Grid("g", np.zeros(shape))


def test_parentheses_show_streams_and_running_counts() -> None:
    example = show(task("parentheses", length=30, num_types=3))
    for stream, (characters, counts) in enumerate(zip(example.rows[::2], example.rows[1::2], strict=True)):
        assert isinstance(characters, Symbols)
        assert isinstance(counts, Symbols)
        opening, closing = ("()", "[]", "{}")[stream]
        count = 0
        for step, sign in enumerate(characters.symbols):
            count = min(max(count + (sign == opening) - (sign == closing), 0), 9)
            assert counts.symbols[step] == str(count)
            assert (step in characters.marked) == (sign in (opening, closing))
        assert example.answer.split(":")[0].split()[stream] == str(count)


def test_examples_are_the_sequences_of_the_validation_split() -> None:
    problem = task("copying", delay=2, num_items=3)
    third = list(problem.batches("validation", 1))[2]
    example = show(problem, number=3)
    assert isinstance(example.rows[0], Symbols)
    assert list(example.rows[0].symbols) == [str(token) for token in third.inputs[0].tolist()]


def test_only_existing_sequences_can_be_shown() -> None:
    problem = Copying(delay=2, num_evaluation=4)
    show(problem, number=4)
    with pytest.raises(TaskError, match="copying has no sequence 5: validation has 4"):
        show(problem, number=5)
    with pytest.raises(TaskError, match="number must be an integer of at least 1, got 0"):
        show(problem, number=0)


def test_arithmetic_example_is_a_true_sum() -> None:
    problem, answer = show(task("arithmetic")).answer.split(",")[0].split("=")
    first, second = problem.split("+")
    assert int(first) + int(second) == int(answer)


def test_any_batch_has_a_plain_example() -> None:
    tokens = plain_example("x", torch.tensor([[3, 1, 2]]), torch.tensor([[1.5]]))
    assert tokens.rows == (Symbols("input", ("3", "1", "2")),)
    assert tokens.answer == "first numbers of the target: 1.5"
    one = plain_example("x", torch.ones(2, 3, 1), torch.tensor([[4, 5, 6], [7, 8, 9]]))
    assert one.rows == (Curve("input", (1.0, 1.0, 1.0)), Symbols("target", ("4", "5", "6")))
    assert one.answer == "first numbers of the target: 4, 5, 6"
    grids = plain_example("x", torch.ones(5, 2, 3, 4), torch.ones(5, 2, 3, 2)).rows
    assert [grid.values.shape for grid in grids if isinstance(grid, Grid)] == [(4, 3), (2, 3)]
    assert len(plain_example("x", torch.ones(5, 2, 3, 4), torch.ones(2)).rows) == 1


def test_description_holds_everything_for_a_program() -> None:
    assert description(task("copying", delay=200)) == {
        "name": "copying",
        "arguments": {
            "delay": 200,
            "num_items": 10,
            "num_symbols": 8,
            "num_training": 100_000,
            "num_evaluation": 10_000,
            "seed": 0,
        },
        "input_size": 10,
        "output_size": 9,
        "encoding": "tokens",
        "num_steps": 220,
        "batch_size": 50,
        "feed": "samples",
        "scores": [
            {
                "name": "cross_entropy",
                "unit": "nats per step",
                "better": "lower",
                "chance": pytest.approx(0.0945, abs=5e-5),
                "baseline": "blanks, then symbols at random",
                "best": 0.0,
            },
            {
                "name": "accuracy",
                "unit": "",
                "better": "higher",
                "chance": 0.125,
                "baseline": "blanks, then symbols at random",
                "best": 1.0,
            },
        ],
    }


def test_summary_says_how_training_is_fed() -> None:
    assert "training    drawn at random; one pass is 100,000 sequences" in summary(task("adding"))
    assert "training    new sequences in every batch" in summary(task("parentheses"))
    assert "2 inputs, 1 output, 100 steps, batches of 50" in summary(task("adding"))
    assert "--num-samples 3,5 --num-inputs 32 --length 5 --input-once false --seed 0" in summary(
        task("capacity", num_samples=(3, 5))
    )
    assert "chance 0 (toss a coin), best 3 to 5" in summary(task("capacity", num_samples=(3, 5)))
    assert number_text((2.0, 2.0)) == "2"


def test_table_has_a_line_for_every_task() -> None:
    header, *rows = task_table(task(name) for name in GENERATED).splitlines()
    assert header.split()[:4] == ["task", "inputs", "outputs", "steps"]
    assert [row.split()[0] for row in rows] == GENERATED
    assert all("[" in row for row in rows)


def test_signs_are_cut_to_what_can_be_read() -> None:
    row = Symbols("x", ("a",) * 400, frozenset({0, 181, 399}))
    cut = list(pieces(row))
    assert [len(piece.symbols) for piece in cut if isinstance(piece, Symbols)] == [180, 180, 40]
    assert [piece.marked for piece in cut if isinstance(piece, Symbols)] == [{0}, {1}, {39}]
    curve = Curve("c", (1.0,) * 400)
    assert list(pieces(curve)) == [curve]
    assert width_of(curve) <= 14
    assert 0.8 <= height_of(Grid("g", np.ones((1000, 2)))) <= 4.5


@pytest.mark.figures
@pytest.mark.parametrize("name", GENERATED)
@pytest.mark.parametrize("suffix", ["svg", "png"])
def test_figures_are_written(tmp_path: Path, name: str, suffix: str) -> None:
    pytest.importorskip("matplotlib", reason="needs matplotlib: pip install 'rnnlab[figures]'")
    arguments = {"rcf": {"num_samples": 100}, "parentheses": {"length": 40}}.get(name, {})
    path = tmp_path / f"{name}.{suffix}"
    example = show(task(name, **arguments))
    example.save(path)
    first = path.read_bytes()
    assert first.startswith(b"<?xml" if suffix == "svg" else b"\x89PNG")
    if suffix == "svg":
        assert example.title in first.decode()
        example.save(path)
        assert path.read_bytes() == first


@pytest.mark.figures
def test_words_are_drawn_as_prose(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="needs matplotlib: pip install 'rnnlab[figures]'")
    Example("x", (Symbols("in", ("there", "is") * 60),), "done").save(tmp_path / "x.svg")
    assert "there is there is" in (tmp_path / "x.svg").read_text()


@pytest.mark.figures
def test_rows_of_drawn_pictures_have_names_and_colours_a_meaning(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="needs matplotlib: pip install 'rnnlab[figures]'")
    names = tuple(f"row {number}" for number in range(40))
    signed = Grid("g", np.linspace(-1, 1, 80).reshape(40, 2), row_names=names)
    Example("x", (signed,), "done").save(tmp_path / "x.svg")
    drawn = (tmp_path / "x.svg").read_text()
    assert "answer: done" in drawn
    assert "time; red is above 0, blue below" in drawn
    assert [name for name in names if f">{name}<" in drawn] == list(names[::3])


def test_other_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(TaskError, match=r"the suffix must be \.svg, \.png, \.pdf"):
        show(Copying()).save(tmp_path / "x.gif")
