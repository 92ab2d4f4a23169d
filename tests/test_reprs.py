"""What an interactive session shows of a value: one line, however much the value holds."""

from dataclasses import replace
from pathlib import Path

import pytest

from rnnlab import CELLS, Hyperparameters, architecture, costs, draw, make_report, named_graph, plan, task, train, tune
from tests.report.made_records import demo_record, unfinished

SHORT = Hyperparameters(num_steps=4, evaluate_every=2, batch_size=4)
NETWORK = architecture("gru", input_size=2, output_size=1, units=4)
ADDING = task("adding", length=5, num_evaluation=30)


@pytest.mark.parametrize(
    ("hyperparameters", "size"),
    [(SHORT, "1 member"), (SHORT.with_seeds(1), "1 member"), (SHORT.with_seeds(3), "3 members")],
)
def test_run_shows_its_size_and_what_it_is_of(hyperparameters: Hyperparameters, size: str) -> None:
    assert repr(train(NETWORK, ADDING, hyperparameters)) == f"<Run: {size} of {NETWORK!r} on adding>"
    stopped = train(NETWORK, ADDING, hyperparameters, stop=lambda: True)
    assert repr(stopped) == f"<Run: {size} of {NETWORK!r} on adding, unfinished>"


def test_tuning_shows_how_far_it_is_and_the_best(tmp_path: Path) -> None:
    tuning = tune(
        NETWORK, ADDING, trials=2, sampler="random", hyperparameters=SHORT, store=tmp_path / "rnnlab.db", name="first"
    )
    assert tuning.best is not None
    assert repr(tuning) == f"<Tuning: first, 2 of 2 trials, best mse {tuning.best.value:.6g}>"
    assert repr(replace(tuning, trials=())) == "<Tuning: first, 0 of 2 trials>"


def test_records_and_reports_show_what_is_in_them() -> None:
    record = demo_record(trials=4, seeds=5)
    assert repr(record) == "<StudyRecord: demo, 4 arms, 36 trials>"
    assert repr(unfinished(record)).startswith("<StudyRecord: demo, 4 arms, ")
    assert repr(unfinished(record)).endswith(" trials, unfinished>")
    report = make_report(record)
    assert repr(report) == "<Report: demo, 1 comparison>"
    assert repr(replace(report, path=Path("report.html"))) == "<Report: demo, 1 comparison, written to report.html>"
    assert repr(replace(report, record=unfinished(record))) == "<Report: demo, 1 comparison, unfinished>"


def test_plans_and_costs_show_their_numbers() -> None:
    network = architecture("td", input_size=2, output_size=1, units=4)
    assert repr(plan(network)) == f"<Plan: by component, T steps in 2·T slots, of {network!r}>"
    found = repr(costs(plan(network), batch=8, steps=10, population=3))
    assert found.startswith(f"<Costs: 20 slots, {network.num_parameters()} parameters, ")
    assert found.endswith("B for P = 3, B = 8, T = 10>")


def test_cells_show_their_gates_and_state() -> None:
    assert repr(CELLS["gru"]) == "<Cell: gru, gates r, u, c, state h>"
    assert repr(CELLS["lstm-edges"]) == "<Cell: lstm-edges, gates g, i, o, f for each edge, state h, c>"


def test_drawings_count_their_nodes_once() -> None:
    graph = named_graph("td")
    assert repr(draw(graph)) == "<Drawing: Cyclic graph of period 1, 4 nodes, 6 edges>"
    assert repr(draw(graph, title="mine")) == "<Drawing: mine, 4 nodes, 6 edges>"
    assert repr(draw(graph, unfold=3)) == "<Drawing: Unfolded graph of period 1 at times 0 to 2, 12 nodes, 21 edges>"
