"""The papers' experiments: every specification expands at every scale, with the papers' sizes and numbers."""

import re
import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from rnnlab import StudySpec, TuningError
from rnnlab.report.paper_forms import FORMS as DRAWN
from rnnlab.report.paper_values import is_meant
from rnnlab.studies.expansion import LabelledArm, expand
from rnnlab.studies.finding import find_spec
from rnnlab.studies.paper import FORMS, Paper, read_paper
from rnnlab.studies.specification import load_spec

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "rnnlab/studies/papers"
SCALES = ("smoke", "laptop", "gpu", "paper")
NAMES = (
    *(
        "zhang-table1",
        "zhang-table2",
        "zhang-table2-edges",
        "zhang-adding",
        "zhang-copying",
        "zhang-section45",
        "zhang-grid",
    ),
    *(
        "collins-capacity",
        "collins-capacity-long",
        "collins-memory",
        "collins-rcf",
        "collins-text8",
        "collins-parentheses",
    ),
    *("collins-arithmetic", "collins-random", "collins-random-long", "collins-robustness"),
    *("pascanu-music", "pascanu-ptb-char", "pascanu-ptb-word", "mongia-recall", "mongia-sst"),
)


@cache
def spec(name: str, scale: str) -> StudySpec:
    return load_spec(FOLDER / f"{name}.toml", scale=scale)


@cache
def arms(name: str, scale: str) -> tuple[LabelledArm, ...]:
    return expand(spec(name, scale))


def paper(name: str) -> Paper:
    found = read_paper(spec(name, "paper"))
    assert found is not None
    return found


def units(arm: LabelledArm) -> int:
    widths = {node.units for node in arm.arm.architecture.nodes if node.cell is not None}
    return max(widths)


def sizes(name: str) -> dict[tuple[Any, ...], int]:
    """Widths at the paper's scale by task, architecture and label."""
    return {
        (each.labels["task"], each.labels["architecture"], each.labels.get("label", "")): units(each)
        for each in arms(name, "paper")
    }


def test_all_experiments_of_the_papers_are_there() -> None:
    assert {path.stem for path in FOLDER.glob("*.toml")} == set(NAMES)
    assert all(tomllib.loads((FOLDER / f"{name}.toml").read_text())["name"] == name for name in NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_every_specification_expands_at_every_scale(name: str) -> None:
    document = tomllib.loads((FOLDER / f"{name}.toml").read_text())
    assert set(document["scale"]) - {"default"} == set(SCALES)
    assert document["scale"]["default"] == "laptop"
    counts = {scale: sum(each.arm.num_trials for each in arms(name, scale)) for scale in SCALES}
    assert counts["smoke"] <= 20
    assert counts["laptop"] <= counts["gpu"] <= counts["paper"]
    assert {each.arm.precision for each in arms(name, "paper")} == {"float32"}


@pytest.mark.parametrize("name", NAMES)
def test_the_papers_table_fits_the_arms_of_its_study(name: str) -> None:
    found = paper(name)
    labels = [each.labels for each in arms(name, "paper")]
    assert found.form in DRAWN
    for number in found.numbers:  # each is of exactly one arm at the paper's scale, and of one or none at others
        assert sum(is_meant(each, number.where) for each in labels) == 1, number
        for scale in SCALES:
            assert sum(is_meant(each.labels, number.where) for each in arms(name, scale)) <= 1, (scale, number)
    for claim in found.claims:
        for where in (claim.better, claim.worse, claim.near, claim.to, claim.where):
            assert not where or any(is_meant(each, where) for each in labels), claim
            for key, values in where.items():  # no value that no arm has
                assert all(any(each.get(key, "") == value for each in labels) for value in values), (claim, key)


@pytest.mark.parametrize("name", NAMES)
def test_deviations_are_listed_for_every_scale(name: str) -> None:
    found = paper(name)
    own = {scale: [each for each in found.deviations if scale in each.scales] for scale in SCALES}
    assert all(own[scale] for scale in ("smoke", "laptop", "gpu"))
    assert all(set(each.scales) <= set(SCALES) for each in found.deviations)
    assert len(found.deviations_at("paper")) >= 3
    assert found.deviations_at("paper") != found.deviations_at("smoke")


@pytest.mark.parametrize("name", NAMES)
def test_gpu_precision_and_steps_are_told(name: str) -> None:
    (precision,) = {each.arm.precision for each in arms(name, "gpu")}
    words = " ".join(paper(name).deviations_at("gpu"))
    assert {"bf16": "bfloat16", "tf32": "TF32"}[precision] in words
    for steps in {each.arm.hyperparameters.num_steps for each in arms(name, "gpu")}:
        assert f"{steps:,}" in words or f"{steps}" in words


def test_every_form_is_drawn_and_used() -> None:
    assert set(DRAWN) == set(FORMS) == {paper(name).form for name in NAMES}


# ---------------------------------------------------------------- sizes (Z54-Z60, 2.4, 2.6, C6, C7, C53, C71, C73)


def test_table1_has_the_published_sizes() -> None:
    found = sizes("zhang-table1")
    rows = {
        ("ptb-characters", "tanh", "tanh"): (1600, 936, 812, 812),
        ("text8-zhang", "tanh", "tanh small"): (512, 302, 262, 262),
        ("text8-zhang", "tanh", "tanh large"): (2048, 1189, 1031, 1031),
        ("text8-zhang", "lstm", "LSTM small"): (512, 300, 260, 260),
        ("text8-zhang", "lstm", "LSTM large"): (1024, 595, 516, 516),
    }
    for (task, cell, label), widths in rows.items():
        assert tuple(found[task, f"{graph}:{cell}", label] for graph in ("sh", "st", "bu", "td")) == widths
    assert len(found) == 20


def test_grid_has_the_published_size_and_its_matches() -> None:
    text8 = {"2-1": 360, "2-2": 186, "2-3": 153, "3-1": 214, "3-2": 186, "3-3": 153, "4-1": 167, "4-2": 153, "4-3": 153}
    mnist = {"2-1": 90, "2-2": 46, "2-3": 38, "3-1": 53, "3-2": 46, "3-3": 38, "4-1": 41, "4-2": 38, "4-3": 38}
    found = sizes("zhang-grid")
    for task, label, widths in (("text8-zhang", "", text8), ("mnist", "", mnist), ("mnist", "orthogonal", mnist)):
        assert {key: found[task, f"grid-{key}:tanh", label] for key in widths} == widths


def test_table2_and_section45_have_the_published_sizes() -> None:
    found = sizes("zhang-table2")
    for (_, architecture, label), width in found.items():
        assert width == (95 if label else 90 if architecture.startswith("sh") else 64)
    assert {key[:2] for key in found if key[2]} == {("mnist", "skip-21:tanh"), ("permuted-mnist", "skip-11:tanh")}
    matched = sizes("zhang-section45")
    assert {width for (_, architecture, _), width in matched.items() if architecture == "st:tanh"} == {53}
    assert {width for (_, architecture, _), width in matched.items() if architecture != "st:tanh"} == {46}


@pytest.mark.parametrize(
    ("name", "argument", "values", "expected"),
    [
        (
            "zhang-adding",
            "length",
            [100, 200, 400, 750, 1000],
            {"sh:lstm": (128, 67_201), "skip-30:lstm": (90, 65_971)},
        ),
        (
            "zhang-copying",
            "delay",
            [100, 200, 300],
            {"sh:tanh": (724, 538_665)} | {f"skip-{s}:tanh": (512, 534_537) for s in (10, 20, 30, 40, 50)},
        ),
    ],
)
def test_long_tasks_have_the_published_sizes(
    name: str, argument: str, values: list[int], expected: Mapping[str, tuple[int, int]]
) -> None:
    found = arms(name, "paper")
    assert {each.labels[f"task.{argument}"] for each in found} == set(values)
    for each in found:
        network = each.arm.architecture
        assert (units(each), network.num_parameters()) == expected[each.labels["architecture"]]
    assert len(found) == len(values) * len(expected)


def test_zhangs_protocol_is_theirs() -> None:
    for name in (name for name in NAMES if name.startswith("zhang")):
        for each in arms(name, "paper"):
            is_lstm = "lstm" in each.labels["architecture"]
            names = ["learning_rate", *(["gate_bias"] if is_lstm else [])]
            grid = {tuple(point[name] for name in names) for point in each.arm.space.grid()}
            if own := {dimension.name for dimension in each.arm.space} - set(names):
                assert own == {"square_scale"}
                assert any("is tuned" in text for text in paper(name).deviations_at("paper"))
            rates, biases = (1e-2, 1e-3, 1e-4, 1e-5), (-5, -3, -1, 0, 1, 3, 5)
            assert grid == ({(r, b) for r in rates for b in biases} if is_lstm else {(r,) for r in rates})
            assert (each.arm.hyperparameters.optimiser, each.arm.hyperparameters.batch_size) == ("adam", 50)
            assert each.arm.num_trials == len(list(each.arm.space.grid()))


@pytest.mark.parametrize(
    ("name", "thousands"),
    [
        (
            "pascanu-music",
            {
                "nottingham": {"sh": 465, "dts-2": 585, "dots-2": 745, "srnn-2": 550},
                "jsb-chorales": {"sh": 75, "dts-2": 585, "dots-2": 745, "srnn-2": 550},
                "musedata": {"sh": 465, "dts-2": 585, "dots-2": 745, "srnn-2": 1185},
            },
        ),
        ("pascanu-ptb-char", {"ptb-characters": {"sh": 420, "dts-2": 540, "dots-2": 790, "srnn-2": 520}}),
        ("pascanu-ptb-word", {"ptb-words": {"sh": 4040, "dts-2": 6120, "dots-2": 6160, "srnn-2": 8480}}),
    ],
)
def test_pascanus_networks_have_as_many_weights(name: str, thousands: Mapping[str, Mapping[str, int]]) -> None:
    found: dict[str, dict[str, int]] = {}
    for each in arms(name, "paper"):
        network = each.arm.architecture
        biases = sum(node.units for node in network.nodes if node.kind != "input")
        graph = each.labels["architecture"].partition(":")[0]
        found.setdefault(each.labels["task"], {})[graph] = (network.num_parameters() - biases) // 1000
    assert found == thousands


def test_collins_designs_are_theirs() -> None:
    six = {"tanh", "irnn", "ugrnn", "gru", "lstm", "intersection"}
    depths = {
        "capacity": {1, 2, 4},
        "memory": {1, 2, 4, 8},
        "rcf": {1, 2, 4},
        "text8": {1, 2, 4},
        "parentheses": {1, 2, 4, 8},
        "arithmetic": {1, 2, 4, 8},
        "random": {1, 8},
        "robustness": {1},
    }
    trials = {"capacity": 1000, "parentheses": 2500, "arithmetic": 2500, "random": 1000}
    for name, expected in depths.items():
        found = arms(f"collins-{name}", "paper")
        assert {each.labels["depth"] for each in found} == expected
        assert {each.labels["cell"] for each in found} == (six - {"intersection"} if name == "robustness" else six)
        assert not [each for each in found if each.labels["depth"] == 1 and each.labels["cell"] == "intersection"]
        assert {each.arm.num_trials for each in found} <= {trials.get(name, each.arm.num_trials) for each in found}
        assert all("num_steps" in each.arm.space.names for each in found)  # C28: it is tuned
        assert all(each.arm.architecture.num_parameters() <= each.labels.get("parameters", 1e9) for each in found)


def test_collins_sizes_are_theirs() -> None:
    for name in ("capacity", "rcf", "text8"):  # C7: six sizes and more, over orders of magnitude
        found = {each.labels["parameters"] for each in arms(f"collins-{name}", "paper")}
        assert len(found) >= 6
        assert max(found) >= 100 * min(found)
    assert {each.arm.task.input_size for each in arms("collins-memory", "paper")} == {64}
    widths = sorted({each.labels["units"] for each in arms("collins-memory", "paper")})
    assert widths[len(widths) // 2] == 64
    assert {each.labels["parameters"] for each in arms("collins-random", "paper")} == {200_000}
    assert {each.arm.sampler for each in arms("collins-random", "paper")} == {"random"}
    assert {each.labels["parameters"] for each in arms("collins-robustness", "paper")} == {100_000}
    assert spec("collins-robustness", "paper").seeds == 100


def test_mongias_passes_are_ten() -> None:
    for each in arms("mongia-recall", "paper"):
        task, values = each.arm.task, each.arm.hyperparameters
        assert values.num_steps * (values.batch_size or task.batch_size) == 10 * 10_000
        assert task.num_steps == (500 if each.labels["architecture"].startswith("special") else 100)


# ---------------------------------------------------------------- numbers, typed from the papers' elements

ZHANG = {
    "zhang-table1": {
        "Z62": (1.54, 1.59, 1.54, 1.49),
        "Z63": (1.80, 1.82, 1.80, 1.77),
        "Z64": (1.69, 1.67, 1.64, 1.59),
        "Z65": (1.65, 1.66, 1.65, 1.63),
        "Z66": (1.52, 1.53, 1.52, 1.49),
    },
    "zhang-grid": {"Z67": (1.88, 1.86, 1.86, 1.86, 1.84, 1.86, 1.85, 1.86, 1.88)},
    "zhang-copying": {"Z70": (0.2409, 0.0975, 0.2025, 0.1328)},
    "zhang-table2": {
        "Z71": (34.9, 46.9, 74.9, 85.4, 87.8),
        "Z72": (49.8, 79.1, 84.3, 88.9, 88.0),
        "Z73": (56.2, 87.2, 86.4, 86.4, 84.8),
        "Z74": (28.5, 25.0, 60.8, 62.2, 65.9),
        "Z75": (98.1, 94.0),
    },
    "zhang-table2-edges": {"Z73": (56.2, 87.2, 86.4, 86.4, 84.8), "Z74": (28.5, 25.0, 60.8, 62.2, 65.9)},
    "zhang-section45": {
        "Z76": (39.5, 39.4, 54.2, 77.8, 39.5, 39.9, 69.6, 71.8, 55.5, 66.6, 74.7, 81.2, 55.5, 71.1, 78.6, 86.9)
    },
    "pascanu-music": {"P13": (3.225, 3.206, 3.22, 3.258, 8.338, 8.278, 8.44, 8.367, 6.990, 6.988, 6.97, 6.992)},
    "pascanu-ptb-char": {"P15": (1.414, 1.409, 1.39, 1.41)},
    "pascanu-ptb-word": {"P15": (117.7, 112.0, 107.5, 110.0)},
    "mongia-recall": {"M5": (0.00366,)},
}


@pytest.mark.parametrize("name", ZHANG)
def test_numbers_are_the_papers(name: str) -> None:
    found: dict[str, tuple[float, ...]] = {}
    for number in paper(name).numbers:
        found[number.requirement] = (*found.get(number.requirement, ()), number.value)
    assert found == ZHANG[name]


def test_numbers_are_of_the_right_networks() -> None:
    def of(name: str, **where: Any) -> list[float]:
        wanted = {key.replace("_", "."): value for key, value in where.items()}
        return [
            each.value
            for each in paper(name).numbers
            if all(value in each.where.get(key, ()) for key, value in wanted.items())
        ]

    assert of("zhang-table1", label="LSTM large", architecture="td:lstm") == [1.49]
    assert of("zhang-table1", label="tanh", architecture="st:tanh") == [1.59]
    assert of("zhang-grid", architecture="grid-4-1:tanh") == [1.85]
    assert of("zhang-grid", architecture="grid-2-3:tanh") == [1.86]
    assert of("zhang-table2", task="mnist", architecture="skip-21:tanh") == [87.8]
    assert of("zhang-table2", task="permuted-mnist", architecture="skip-4:lstm") == [60.8]
    assert of("zhang-table2", task="permuted-mnist", label="95 units") == [94.0]
    assert of("zhang-section45", architecture="section45-3-21:tanh") == [69.6]
    assert of("zhang-section45", task="permuted-mnist", architecture="st:tanh") == [55.5, 55.5]
    assert of("zhang-copying", task_delay=300, architecture="skip-30:tanh") == [0.1328]
    assert of("pascanu-music", task="jsb-chorales", architecture="dots-2:tanh") == [8.44]
    assert of("pascanu-ptb-char", architecture="srnn-2:tanh") == [1.41]


def test_skips_stand_at_their_coefficients() -> None:
    for number in paper("zhang-table2").numbers:
        (architecture,) = number.where.get("architecture", ("",))
        if number.at is not None:
            assert architecture.startswith("sh:" if number.at == 1 else f"skip-{number.at:g}:")
        else:
            assert number.where["label"] == ("95 units",)


def test_table1_of_collins_is_the_papers() -> None:
    expected = {
        ("intersection", 8): 8.8,
        ("gru", 1): 15.5,
        ("gru", 8): 3.2,
        ("irnn", 1): 56.7,
        ("irnn", 8): 44.6,
        ("lstm", 1): 12.0,
        ("lstm", 8): 4.0,
        ("tanh", 1): 21.5,
        ("tanh", 8): 18.7,
        ("ugrnn", 1): 20.2,
        ("ugrnn", 8): 11.5,
    }
    found = {(*n.where["cell"], *n.where["depth"]): n.value for n in paper("collins-random").numbers}
    assert found == expected
    assert {(n.requirement, n.quantity, n.unit) for n in paper("collins-random").numbers} == {
        ("C72", "infeasible", "%")
    }


def test_table_app1_of_collins_is_the_papers() -> None:
    columns = ("best", "repeat_infeasible", "least", "mean", "most", "deviation", "relative_deviation")
    rows = {
        "tanh": (1.16e-2, 0, 1.41e-2, 8.21e-2, 0.294, 5.22e-2, 0.636),
        "irnn": (4.20e-4, 48, 2.24e-4, 5.02e-4, 8.69e-4, 1.35e-4, 0.269),
        "ugrnn": (1.02e-4, 0, 3.66e-5, 2.71e-4, 6.06e-3, 7.12e-4, 2.63),
        "gru": (2.80e-4, 1, 7.66e-5, 1.89e-4, 5.48e-4, 9.08e-5, 0.480),
        "lstm": (7.96e-4, 0, 8.10e-4, 2.02e-3, 0.0145, 2.31e-3, 1.14),
    }
    found = {(*number.where["cell"], number.quantity): number.value for number in paper("collins-robustness").numbers}
    assert found == {(cell, key): value for cell, row in rows.items() for key, value in zip(columns, row, strict=True)}


def test_quoted_numbers_are_the_papers() -> None:
    def quoted(name: str) -> list[tuple[str, str, float, bool]]:
        return [(each.model.split(" (")[0], each.column, each.value, each.is_about) for each in paper(name).quoted]

    assert quoted("zhang-table2") == [
        *(("iRNN", "MNIST", 97.0, False), ("iRNN", "pMNIST", 82.0, True)),
        *(("uRNN", "MNIST", 95.1, False), ("uRNN", "pMNIST", 91.4, False)),
        *(("LSTM", "MNIST", 98.2, False), ("LSTM", "pMNIST", 88.0, False)),
        *(("RNN(tanh)", "MNIST", 35.0, True), ("RNN(tanh)", "pMNIST", 35.0, True)),
    ]
    assert sorted(each.value for each in paper("zhang-table1").quoted) == [1.48, 1.54]
    assert [each.value for each in paper("pascanu-music").quoted] == [2.95, 7.92, 6.59, 3.09, 8.01, 6.75]
    assert [each.value for each in paper("pascanu-ptb-char").quoted] == [1.41, 1.24]
    assert [each.value for each in paper("pascanu-ptb-word").quoted] == [123.0, 117.0]


def test_recollected_numbers_say_so() -> None:
    for name in NAMES:
        is_pascanu = name.startswith("pascanu")
        kinds = {each.certainty for each in (*paper(name).numbers, *paper(name).quoted)}
        assert kinds <= ({"recollected", "second-hand"} if is_pascanu else {"stated"})
    second = [each.column for each in paper("pascanu-ptb-word").numbers if each.certainty == "second-hand"]
    assert second == ["DOT(S)-RNN", "sRNN"]


# ---------------------------------------------------------------- the table itself


def made(**changes: Any) -> StudySpec:
    table: dict[str, Any] = {
        "source": "Doe 2020, table 1",
        "form": "table",
        "numbers": [{"value": 1.0, "where": {"architecture": "sh"}, "requirement": "Z62"}],
        "claims": [{"text": "sh is better", "requirement": "Z77", "better": {"cell": "a"}, "worse": {"cell": "b"}}],
        "deviations": [{"text": "smaller", "scales": ["smoke"]}],
    }
    values = {
        "name": "own",
        "task": "adding",
        "architectures": ["sh"],
        "units": 4,
        "trials": 1,
        "paper": table | changes,
    }
    return StudySpec.from_json(values)


def test_a_study_of_no_paper_has_no_table() -> None:
    assert read_paper(None) is None
    assert read_paper(StudySpec.from_json({k: v for k, v in made().to_json().items() if k != "paper"})) is None


def test_table_survives_json() -> None:
    found = made()
    assert read_paper(StudySpec.from_json(found.to_json())) == read_paper(found)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"sauce": "x"}, "paper has no key 'sauce'; did you mean 'source'?"),
        ({"form": "tables"}, "paper.form is capacity or"),
        ({"source": 3}, "paper.source is a text, got 3"),
        ({"numbers": [{"valu": 1.0}]}, "paper.numbers[0] has no key 'valu'; did you mean 'value'?"),
        (
            {"numbers": [{"value": "1", "where": {"cell": "a"}, "requirement": "Z1"}]},
            "paper.numbers[0].value is a number, got '1'",
        ),
        ({"numbers": [{"value": 1, "where": {"sell": "a"}, "requirement": "Z1"}]}, "no label 'sell'"),
        ({"numbers": [{"value": 1, "where": {}, "requirement": "Z1"}]}, "selects arms by their labels, got none"),
        ({"numbers": [{"value": 1, "where": {"cell": "a"}, "requirement": "table 1"}]}, "such as Z62, got 'table 1'"),
        (
            {"numbers": [{"value": 1, "where": {"cell": "a"}, "requirement": "Z1", "quantity": "sum"}]},
            "paper.numbers[0].quantity is score or",
        ),
        (
            {"numbers": [{"value": 1, "where": {"cell": "a"}, "requirement": "Z1", "about": 1}]},
            "about is true or false",
        ),
        ({"claims": [{"text": "x", "requirement": "Z1", "better": {"cell": "a"}}]}, "rather_than; got better"),
        ({"claims": [{"text": "x", "requirement": "Z1", "where": {"cell": "a"}}]}, "rather_than; got where"),
        ({"claims": [{"text": "x", "requirement": "Z1", "low": 1.0}]}, "rather_than; got low"),
        (
            {"claims": [{"text": "x", "requirement": "Z1", "near": {"cell": "a"}, "to": {"cell": "b"}}]},
            "rather_than; got near, to",
        ),
        (
            {"claims": [{"text": "x", "requirement": "Z1", "explained_by": "sizes", "rather_than": "units"}]},
            "paper.claims[0].explained_by is parameters or",
        ),
        ({"deviations": [{"txt": "x"}]}, "paper.deviations[0] has no key 'txt'; did you mean 'text'?"),
        ({"deviations": ["x"]}, "paper.deviations[0] is a table"),
        ({"quoted": [{"model": "x", "value": 1, "requirement": "Z1"}]}, "paper.quoted[0].column is a text"),
    ],
)
def test_mistakes_in_the_table_are_named(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(TuningError, match=re.escape(message)):
        read_paper(made(**changes))


# ---------------------------------------------------------------- shipping, docs


def test_specifications_are_shipped() -> None:
    data = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]
    assert "papers/*.toml" in data["rnnlab.studies"]


@pytest.mark.parametrize("name", NAMES)
def test_specifications_are_found_by_name(name: str) -> None:
    assert find_spec(name, scale="smoke").study == f"{name}-smoke"


@pytest.mark.parametrize("name", NAMES)
def test_docs_list_every_specification(name: str) -> None:
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in (ROOT / "docs/papers-experiments.md").read_text().splitlines()
        if line.startswith(f"| `{name}`")
    ]
    counts = [
        f"{len(arms(name, scale))} / {sum(each.arm.num_trials for each in arms(name, scale)):,}" for scale in SCALES
    ]
    assert rows == [[f"`{name}`", paper(name).source, *counts]]
