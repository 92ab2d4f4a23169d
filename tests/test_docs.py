"""Every block of README and docs runs, every test that the mathematics names exists, nothing generated is stale."""

import ast
import json
import re
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from rnnlab import CELLS
from rnnlab.cli import main
from rnnlab.studies.expansion import expand
from rnnlab.studies.finding import find_spec
from rnnlab.studies.statistics import explained_share
from tests.pages import blocks, run_examples
from tests.report.made_records import demo_record

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "docs"))
import make_reference  # noqa: E402
import make_reproduction  # noqa: E402

PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]


def named(paths: list[Path]) -> list:
    return [pytest.param(path, id=str(path.relative_to(ROOT))) for path in paths]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    cells = dict(CELLS)
    yield tmp_path
    CELLS.clear()  # a page may register a cell of its own
    CELLS.update(cells)


# the examples of the reference are those of the docstrings, which run where they stand
@pytest.mark.parametrize(
    "page", named([page for page in PAGES if blocks(page, "pycon") and page != make_reference.PAGE])
)
def test_python_blocks_run(page: Path, folder: Path) -> None:
    run_examples(page)


@pytest.mark.parametrize("page", named([page for page in PAGES if blocks(page, "console")]))
def test_console_blocks_print_what_they_show(page: Path, folder: Path, capsys) -> None:
    for name, text in re.findall(r"`(\w+\.json)`:\n\n```json\n(.*?)^```$", page.read_text(), re.DOTALL | re.MULTILINE):
        json.loads(text)
        Path(name).write_text(text)
    for block in blocks(page, "console"):
        for command, shown in re.findall(r"^\$ rnnlab (.*)\n((?:(?!\$).*\n)*)", block, re.MULTILINE):
            assert main(command.split()) == 0
            assert capsys.readouterr().out == shown, command


@pytest.mark.parametrize("page", named([page for page in PAGES if blocks(page, "sh")]))
def test_make_targets_exist(page: Path) -> None:
    targets = set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for command in "".join(blocks(page, "sh")).splitlines():
        assert re.fullmatch(r"make (\w+)", command).group(1) in targets


@pytest.mark.parametrize("page", named([*PAGES, *sorted((ROOT / "docs" / "howto").glob("*.md"))]))
def test_links_lead_somewhere(page: Path) -> None:
    for link in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text()):
        assert link.startswith("https://") or (page.parent / link).exists(), link


def test_mathematics_names_tests_that_exist() -> None:
    trees = [ast.parse(path.read_text()) for path in (ROOT / "tests").rglob("test_*.py")]
    existing = {node.name for tree in trees for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    mentioned = set(re.findall(r"`(test_\w+)`", (ROOT / "docs" / "maths.md").read_text()))
    assert len(mentioned) > 20
    assert mentioned <= existing


def test_speed_in_the_readme_is_the_measured_one() -> None:
    results = json.loads((ROOT / "benchmarks" / "results" / "measures.json").read_text())
    peer, _, _, ours = (row["seconds"] for row in results["race"])
    million = results["scaling"][-1]["seconds"]
    readme = " ".join((ROOT / "README.md").read_text().split())
    assert f"take about {ours * 1e3:.0f} ms; digraphx, the exact peer, needs {peer:.1f} s" in readme
    assert f"A million edges take about {million:.1f} s and {results['peak_memory_bytes'] / 1e9:.1f} GB" in readme


def test_training_speed_in_the_readme_is_the_measured_one() -> None:
    rows = json.loads((ROOT / "benchmarks" / "results" / "cpu-1-threads.json").read_text())["rows"]
    readme = " ".join((ROOT / "README.md").read_text().split())

    def spread(*peers: str) -> str:
        ratios = [row["ratio"] for row in rows if row["peer"] in peers]
        return f"{min(ratios):.1f} to {max(ratios):.1f} times as fast as"

    assert f"{spread('torch.nn.RNN', 'torch.nn.GRU', 'torch.nn.LSTM')} torch.nn's RNN, GRU and LSTM" in readme
    assert f"{spread('jax.jit of lax.scan')} `jax.jit` of `lax.scan`" in readme
    assert f"{spread('loop by hand')} a careful loop" in readme
    assert f"Populations of 16 are {spread('jax.vmap of lax.scan')} `jax.vmap`" in readme
    in_turn = spread("torch.nn.RNN in turn", "torch.nn.GRU in turn")
    assert f"one network after another, tanh networks and GRUs are {in_turn.removesuffix(' as')}" in readme
    (lstm,) = (row["ratio"] for row in rows if row["peer"] == "torch.nn.LSTM in turn")
    assert f"but LSTMs only {lstm:.1f} times" in readme


def test_readme_states_the_recorded_speed_on_a_gpu() -> None:
    results = json.loads((ROOT / "benchmarks" / "results" / "gpu-h200.json").read_text())
    readme = " ".join((ROOT / "README.md").read_text().split())

    def ratios(part: str, peer: str, **of: str) -> list[float]:
        rows = [row for row in results[part] if row.get("peer") == peer and "times_faster" in row]
        return [row["times_faster"] for row in rows if all(row[key].startswith(value) for key, value in of.items())]

    rows = {
        "one layer, against the fastest setting of cuDNN, which runs three cells": ("single", "cudnn", 1, "sh:"),
        "132 or 528 networks, against cuDNN one after another": ("populations", "cudnn", 0, ""),
        "132 networks, against `jax.vmap` of `lax.scan`": ("populations", "jax", 1, ""),
        "six networks that cuDNN lacks, against a loop as a CUDA graph": (
            "single",
            "loop as a CUDA graph",
            1,
            "",
        ),
        "the same six, against `jax.jit` of `lax.scan`": ("single", "jax", 1, ""),
    }
    for what, (part, peer, digits, network) in rows.items():
        found = [ratios(part, peer, precision=each, network=network) for each in ("bf16", "tf32", "float32")]
        spreads = [f"{min(each):.{digits}f} to {max(each):.{digits}f}" if each else "" for each in found]
        assert " ".join(f"| {what} | {' | '.join(spreads)} |".split()) in readme
    trained = json.loads((ROOT / "benchmarks" / "results" / "train-h200.json").read_text())["rows"]
    speeds = [each["ratio"] for each in trained]
    assert f"is [{min(speeds):.0f} to {max(speeds):.0f} times]" in readme


def test_page_on_the_engine_states_how_long_first_calls_take_and_wide_layers_against_cudnn() -> None:
    results = json.loads((ROOT / "benchmarks" / "results" / "gpu-h200.json").read_text())
    page = " ".join((ROOT / "docs" / "engine.md").read_text().split())
    calls = results["first_calls"]
    assert (
        f"the longest of {calls['cases']} first calls, sixteen at a time, took {calls['longest_seconds']:.0f} s" in page
    )
    found = [
        row["times_faster"]
        for cell in ("lstm", "gru-cudnn")
        for row in results["single"]
        if (row["network"], row["units"], row["precision"]) == (f"sh:{cell}", 2048, "bf16")
    ]
    lstm, gru = found
    assert f"run LSTMs and GRUs of 2048 units {lstm:.2f} and {gru:.2f} times as fast as cuDNN in bf16" in page


def test_notes_count_the_races_that_met_their_goals() -> None:
    """Those against FlashRNN apart."""
    results = json.loads((ROOT / "benchmarks" / "results" / "gpu-h200.json").read_text())
    rows = [row for row in results["single"] if row["peer"] != "flashrnn"]
    notes = " ".join((ROOT / "benchmarks" / "NOTES.md").read_text().split())
    assert f"with pairs: {len(rows)} of them (" in notes
    assert f"of which {sum(row['met'] for row in rows)} are won by as much as was asked" in notes


def test_page_on_the_engine_states_the_measured_errors_of_relays() -> None:
    rows = json.loads((ROOT / "benchmarks" / "results" / "gpu-relay-h200.json").read_text())["rows"]

    def worst(path: str) -> str:
        first, *others, last = (
            f"{max(row['error'] for row in rows if (row['path'], row['precision']) == (path, precision)):.0e}"
            for precision in ("float32", "tf32", "bf16")
        )
        return f"{', '.join([first, *others])} and {last}"

    stated = " ".join((ROOT / "docs" / "engine.md").read_text().split())
    assert f"their worst array is off by {worst('gpu-relay')}," in stated
    assert f"the same networks layer after layer by {worst('gpu-population')}." in stated


def test_recorded_speed_meets_its_goals() -> None:
    results = json.loads((ROOT / "benchmarks" / "results" / "measures.json").read_text())
    assert results["times_faster_than_digraphx"] >= 20
    assert results["growth_of_cost_an_edge"] <= 2
    assert results["scaling"][-1]["num_edges"] == 1_000_000
    assert max(results["scaling"][-1]["all_seconds"]) < 10
    assert results["peak_memory_bytes"] < 2e9


def test_reference_is_fresh() -> None:
    assert make_reference.reference() == make_reference.PAGE.read_text(), "run `make docs`"


def test_page_of_the_papers_results_is_fresh() -> None:
    assert make_reproduction.reproduction() == make_reproduction.PAGE.read_text(), "run `make docs`"


def test_page_of_the_papers_results_says_how_settings_were_chosen() -> None:
    """And counts the trials of all of them."""
    plain, three = (demo_record(trials=4, seeds=5, finalists=number) for number in (1, 3))
    assert make_reproduction._circumstances(plain).endswith("best settings over 5 seeds.")
    assert make_reproduction._circumstances(three).endswith("the best of 3 settings of each network, over 5 seeds.")
    found = {"zhang-table2": replace(three, spec=find_spec("zhang-table2", scale="gpu"))}
    (row,) = [line for line in make_reproduction._overview(found) if line.startswith("| [")]
    assert f"| {len(three.arms) * 4 + sum(len(each.finalists) for each in three.arms) * 5} |" in row
    assert min(len(each.finalists) for each in three.arms) > 1


@pytest.mark.parametrize("name", make_reproduction.records())
def test_records_are_of_the_specifications_as_they_stand(name: str) -> None:
    """But for the paper's words: deviations that are told of a record are those of its specification now."""
    record = make_reproduction.records()[name]
    assert record.spec is not None
    assert record.spec.document == find_spec(name, scale=record.spec.scale).document


@pytest.mark.parametrize("name", make_reproduction.records())
def test_records_can_be_continued_by_their_specifications(name: str) -> None:
    """Their arms are those of today, whatever they were called then."""
    record = make_reproduction.records()[name]
    assert record.spec is not None
    rows = expand(find_spec(name, scale=record.spec.scale))
    assert {each.arm.content for each in record.arms} == {row.arm.content for row in rows}


@pytest.mark.parametrize("name", make_reproduction.records())
def test_results_come_from_the_machine_that_they_are_said_to(name: str) -> None:
    """Every trial of a record was trained on the GPU, by our kernels, and the time is known."""
    record = make_reproduction.records()[name]
    runs = [trial.run for each in record.arms for trial in each.all_trials if trial.has_ended]
    assert {(run["device"], run["path"].partition(":")[0]) for run in runs} == {("NVIDIA H200", "gpu")}
    assert sum(each.num_trials for each in record.sittings) == len(runs)
    assert (make_reproduction.RESULTS / "reports" / f"{name}.html").exists()
    assert all(each.study.startswith(f"{name}-gpu") for each in record.sittings)


def test_notes_state_the_whole_run_of_checks_and_races() -> None:
    results = json.loads((ROOT / "benchmarks" / "results" / "gpu-h200.json").read_text())
    notes = " ".join((ROOT / "benchmarks" / "NOTES.md").read_text().split())
    checks, seconds = results["checks"], results["seconds"]["all"]
    assert (checks["wrong"], checks["not_finished"], checks["random_networks"]) == ([], [], 200)
    assert f"{checks['comparisons']} comparisons, the 200 random networks among them, none wrong." in notes
    assert f"It took {seconds:.0f} s (goal 480)" in notes
    assert seconds < 480
    memory = [row["memory_ratio"] for row in results["single"] if row["peer"] == "cudnn"]
    assert f"four layers of 512 {max(memory):.2f} (goal 1.5)" in notes


def test_remarks_on_long_capacity_state_what_its_record_has() -> None:
    names = {"tanh": "RNN", "ugrnn": "a UGRNN", "irnn": "an IRNN", "lstm": "an LSTM", "gru": "a GRU"}
    best: dict[str, float] = {}
    for each in make_reproduction.records()["collins-capacity-long"].arms:
        trials = [trial for trial in each.all_trials if trial.value is not None]
        best[names[each.labels["cell"]]] = max((trial.value or 0.0) / trial.num_parameters for trial in trials)
    (first, most), *others = sorted(best.items(), key=lambda item: -item[1])
    *middle, last = (f"{name} {bits:.1f}" for name, bits in others)
    stated = f"the best {first} stores {most:.1f} bits per parameter, {', '.join(middle)} and {last}."
    assert stated in remarks("collins-capacity-long")


def test_deviations_state_the_measured_first_gradients_of_networks_with_skips() -> None:
    rows = json.loads((ROOT / "results" / "checks" / "start-scale.json").read_text())["gradients"]
    skips = [row for row in rows if not row["network"].startswith("grid") and row["scale"] == 1.0]
    norms = [norm for row in skips for norm in row["norms"]]
    least, most = (f"{norm:.0e}".replace("e+0", "e").replace("e+", "e") for norm in (min(norms), max(norms)))
    for name in ("zhang-table2", "zhang-section45"):
        deviations = str(find_spec(name, scale="gpu").document["paper"]["deviations"])
        assert f"first gradients of networks with skips on MNIST are {least} to {most} (" in deviations


def test_docs_state_what_lstms_need_from_nothing_and_where_they_go_on() -> None:
    runs = json.loads((ROOT / "results" / "checks" / "carried-state.json").read_text())["runs"]
    last = {(run["network"], run["by"], run["restart"]): run["marks"][-1] for run in runs}
    assert {mark["step"] for mark in last.values()} == {6000}
    td, torchs = last["td:lstm", "rnnlab", 0.0], last["sh:lstm", "torch", 0.0]
    nothing = [f"{mark['from_nothing']:.1f}" for mark in (td, torchs)]
    (same,) = {f"{mark['carried_on']:.1f}" for mark in last.values()}
    restarted = [mark["from_nothing"] for (*_, restart), mark in last.items() if restart == 0.01]
    assert {f"{bits:.1f}" for bits in restarted} == {same}
    stated = " ".join((ROOT / "docs" / "training.md").read_text().split())
    assert f"needed {same} bits per character where they went on from training, but {' and '.join(nothing)}" in stated
    assert f"with a `restart` of 0.01 needed {same} either way" in stated


CELL_NAMES = {"gru": "GRUs", "lstm": "LSTMs", "ugrnn": "UGRNNs", "tanh": "RNNs", "irnn": "IRNNs"}


def remarks(name: str) -> str:
    return " ".join((make_reproduction.RESULTS / "notes" / f"{name}.md").read_text().split())


def test_remarks_on_lstms_of_table_1_state_what_its_record_has() -> None:
    stated = remarks("zhang-table1")
    found = {each.labels["architecture"]: each for each in make_reproduction.records()["zhang-table1"].arms[8:]}
    bits = {
        name: [(trial.outcome, trial.scores["test"]["bits_per_character_first74"]) for trial in each.trials_over_seeds]
        for name, each in found.items()
    }
    mean = {name: sum(score for _, score in each) / len(each) for name, each in bits.items()}
    assert f"st has {mean['st:lstm']:.3f} bits and bu {mean['bu:lstm']:.3f}," in stated
    early, ended = (
        {name: sorted(score for outcome, score in each if outcome == wanted) for name, each in bits.items()}
        for wanted in ("stopped early", "finished")
    )
    sh, td = early["sh:lstm"], early["td:lstm"]
    assert (len(sh), len(td), early["st:lstm"], early["bu:lstm"]) == (1, 4, [], [])
    assert f"at {sh[0]:.2f} and at {td[0]:.2f} to {td[-1]:.2f} bits" in stated
    (only,), others = ended["td:lstm"], ended["sh:lstm"]
    assert f"has {only:.3f}, sh's other four {others[0]:.3f} to {others[-1]:.3f}." in stated


def test_remarks_on_longer_random_settings_state_what_the_records_have() -> None:
    stated, found = remarks("collins-random-long"), make_reproduction.records()
    long, short = found["collins-random-long"], found["collins-random"]
    losses: dict[tuple[str, int], list[list[float]]] = {}
    for one, other in zip(long.arms, short.arms, strict=True):
        assert [trial.point for trial in one.trials] == [trial.point for trial in other.trials[:88]]
        assert one.arm.name == other.arm.name
        losses[one.labels["cell"], one.labels["depth"]] = [
            [trial.scores["test"]["cross_entropy"] for trial in trials[:88] if trial.value is not None]
            for trials in (one.trials, other.trials)
        ]
    learned = {key: [sum(loss < 17.5 for loss in each) for each in both] for key, both in losses.items()}
    cells = [(learned[cell, 1], name) for cell, name in CELL_NAMES.items()]
    after = ", ".join(f"{count} {name}" for (count, _), name in cells[:-1])
    before = ", ".join(str(count) for (_, count), _ in cells[:-1])
    assert f"{after} and {cells[-1][0][0]} {cells[-1][1]} are below 17.5" in stated
    assert f"after {before} and {cells[-1][0][1]} with 1500 steps" in stated
    deep = {cell: count for (cell, depth), count in learned.items() if depth == 8}
    new, old = deep.pop("intersection")
    assert not any(map(any, deep.values()))
    assert f"{new} +RNNs and no others, after {old}." in stated
    means = {cell: sum(each) / len(each) for (cell, depth), (each, _) in losses.items() if depth == 1}
    gru, ugrnn, lstm = (f"{means[cell]:.1f}" for cell in ("gru", "ugrnn", "lstm"))
    assert f"the smallest mean ({gru}, then UGRNN {ugrnn} and LSTM {lstm})" in stated
    well = {cell: sum(loss < 10 for loss in losses[cell, 1][0]) for cell in means}
    assert f"{well['gru']} are below 10, against {well['ugrnn']} of the UGRNN and {well['lstm']} of the LSTM" in stated
    best = {key: min(both[0]) for key, both in losses.items()}
    assert f"all, {best['ugrnn', 1]:.2f}, is a UGRNN's; the best GRU is at {best['gru', 1]:.2f}." in stated
    assert f"at best to {best['intersection', 8]:.1f}" in stated


def test_remarks_on_permuted_mnist_state_what_plain_torch_reached() -> None:
    checked = json.loads((ROOT / "results" / "checks" / "torch-tanh-permuted-mnist.json").read_text())
    (run,) = checked["runs"]
    (ours,) = (
        each
        for each in make_reproduction.records()["zhang-table2"].arms
        if (each.labels["task"], each.labels["architecture"]) == ("permuted-mnist", "sh:tanh")
    )
    assert ours.repeated is not None
    assert (checked["scale"], checked["steps"]) == (ours.repeated.hyperparameters.initialisation.square_scale, 8000)
    tests = [100 * trial.scores["test"]["accuracy"] for trial in ours.repeats]
    stated = f"one seed, has {100 * run['test']:.1f} %, where ours have {min(tests):.0f} to {max(tests):.0f} ("
    assert stated in remarks("zhang-table2")


def test_remarks_on_permuted_mnist_state_what_lstms_of_plain_torch_reached() -> None:
    both, one = (
        json.loads((ROOT / "results" / "checks" / f"torch-lstm{name}-permuted-mnist.json").read_text())
        for name in ("", "-one-bias")
    )
    (ours,) = (
        each
        for each in make_reproduction.records()["zhang-table2"].arms
        if (each.labels["task"], each.labels["architecture"]) == ("permuted-mnist", "sh:lstm")
    )
    assert ours.repeated is not None
    chosen = ours.repeated.hyperparameters
    for found, has_one in ((both, False), (one, True)):
        assert (found["rate"], found["gate_bias"], found["scale"], found["one_bias"], found["steps"]) == (
            *(chosen.learning_rate, chosen.initialisation.gate_bias, chosen.initialisation.square_scale),
            *(has_one, 2000),
        )
    (place,) = {trial.curve["steps"].index(2000) for trial in ours.repeats}
    curves = [100 * trial.curve["scores"]["accuracy"][place] for trial in ours.repeats]
    torchs = [100 * found["runs"][0]["validation"][-1] for found in (both, one)]
    stated = remarks("zhang-table2")
    assert f"torch's has {torchs[0]:.0f} % of the validation images right, where ours have" in stated
    assert f"where ours have {min(curves):.0f} to {max(curves):.0f}. torch's layers" in stated
    assert f"with one bias, torch's has {torchs[1]:.0f} %" in stated


def longer_training(name: str) -> list[dict]:
    return json.loads((ROOT / "results" / "checks" / f"{name}-steps.json").read_text())["networks"]


def test_remarks_on_random_functions_state_what_longer_training_gave() -> None:
    rows = longer_training("rcf")
    remarks = " ".join((ROOT / "results" / "notes" / "collins-rcf.md").read_text().split())

    def explained(steps: int) -> str:
        these = [row for row in rows if row["steps"] == steps]
        errors = [row["best"]["weighted_mse"] for row in these]
        by_parameters, by_units = (
            explained_share([row[size] for row in these], errors) for size in ("parameters", "units")
        )
        return f"{100 * by_parameters:.0f} % against {100 * by_units:.0f} %"

    few, many = explained(20_000), explained(60_000)
    assert f"parameters explain more of their variance than units do: {few}, then {many}." in remarks
    large = [row for row in rows if row["network"].endswith(" 100000")]
    last = {row["network"]: row["best"]["weighted_mse"] for row in large if row["steps"] == 60_000}
    spread = f"{min(last.values()):.2f} to {max(last.values()):.2f}"
    assert f"{spread} with 100,000 parameters after 60,000 steps" in remarks
    before = {row["network"]: row["best"]["weighted_mse"] for row in large if row["steps"] == 20_000}
    assert all(error <= before[name] / 2 for name, error in last.items())


def test_remarks_on_arithmetic_state_what_longer_training_gave() -> None:
    rows = longer_training("arithmetic")
    remarks = " ".join((ROOT / "results" / "notes" / "collins-arithmetic.md").read_text().split())
    found = {row["network"]: row["best"]["cross_entropy"] for row in rows}
    names = {"ugrnn": "UGRNN", "tanh": "RNN", "irnn": "IRNN", "gru": "GRU", "lstm": "LSTM"}
    one_layer = ", ".join(f"{name} {found[f'{cell} depth 1']:.3f}" for cell, name in names.items())
    assert f"{one_layer}." in remarks
    assert f"(C75), at {found['intersection depth 8']:.3f}, though in a single setting" in remarks
    assert f"the RNN of eight layers comes next, at {found['tanh depth 8']:.3f}," in remarks
    deep = [name for name in found if name.endswith("depth 8")]
    assert sorted(deep, key=found.__getitem__)[:2] == ["intersection depth 8", "tanh depth 8"]
    assert min(found.values()) == found["intersection depth 8"]
    assert all(row["best"]["accuracy"] == 0 for row in rows)


@pytest.mark.parametrize("kernels", ["gpu-spread", "gpu-population", "gpu-relay"])
@pytest.mark.parametrize("precision", ["float32", "tf32", "bf16"])
def test_page_on_the_engine_states_the_measured_errors(kernels: str, precision: str) -> None:
    """Of outputs and gradients against float64, the largest of all networks, for each length."""
    results = json.loads((ROOT / "benchmarks" / "results" / "gpu-h200.json").read_text())["errors"]
    rows = [row for row in results if (row["kernels"], row["precision"]) == (kernels, precision)]
    cells: list[str] = []
    for steps in (64, 512, 4096):
        worst = [max(row[what] for row in rows if row["steps"] == steps) for what in ("outputs", "gradients")]
        cells.append(", ".join(f"{error:.0e}" for error in worst))
    assert f"| {kernels} | {precision} | {' | '.join(cells)} |" in (ROOT / "docs" / "engine.md").read_text()
