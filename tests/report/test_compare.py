"""`compare`: from names to a report; sizes, equal tuning, seeds, resuming, a budget of time."""

import errno
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from rnnlab import (
    Category,
    Float,
    Hyperparameters,
    RnnlabError,
    SearchSpace,
    TuningError,
    architecture,
    compare,
    load_record,
    named_graph,
    save_graph,
    task,
)
from rnnlab.comparing import STEPS
from rnnlab.report.report import Report
from rnnlab.studies import budget
from rnnlab.studies.budget import FIRST_ROUND, more_trials, run_within, seconds_from_words, training_seconds
from rnnlab.studies.records import StudyRecord
from rnnlab.studies.specification import StudySpec
from rnnlab.tuning.events import LotClaimed, TrialEnded, TuningEvent
from tests.report.made_records import demo_record, record, spec

ADDING = {"name": "adding", "length": 5, "num_evaluation": 30}


def small(folder: Path, architectures: tuple[str, ...] = ("sh", "lstm"), **changes: Any) -> Report:
    values: dict[str, Any] = {
        "parameters": 60,
        "trials": 3,
        "seeds": 3,
        "steps": 8,
        "hyperparameters": {"batch_size": 4, "evaluate_every": 4},
        "store": folder / "rnnlab.db",
    }
    return compare(architectures, **({"task": ADDING} | values | changes))


@pytest.fixture(scope="module")
def compared(tmp_path_factory) -> tuple[Path, Report]:
    folder = tmp_path_factory.mktemp("compare")
    save_graph(named_graph("skip-3"), folder / "mine.json")
    return folder, small(folder, ("sh", "lstm", str(folder / "mine.json")), output=folder / "report.html")


def test_every_architecture_has_the_same_size_tuning_and_seeds(compared: tuple[Path, Report]) -> None:
    _, report = compared
    record = report.record
    assert record.is_complete
    assert [each.name for each in report.comparison.contenders] == ["sh", "lstm", "mine"]
    for each in record.arms:
        assert 40 < each.arm.architecture.num_parameters() <= 60
        assert (len(each.trials), len(each.repeats)) == (3, 3)
        assert {run.seed for run in each.repeats} == {1, 2, 3}
        best = each.best.hyperparameters
        for run in each.repeats:
            assert run.hyperparameters.changed(seed=best.seed, batch_seed=best.batch_seed) == best
        assert best.num_steps == 8
    assert len({tuple(sorted(each.labels)) for each in record.arms}) == 1
    assert len(report.comparison.tests) == 3


def test_own_file_stands_beside_names_of_the_catalogue(compared: tuple[Path, Report]) -> None:
    _, report = compared
    assert report.comparison.contenders[2].recurrent_skip_coefficient == 3
    assert report.record.arms[2].arm.architecture.graph == named_graph("skip-3")


def test_report_is_written(compared: tuple[Path, Report]) -> None:
    folder, report = compared
    assert report.path == folder / "report.html"
    assert report.comparison.verdict.sentence.replace("'", "&#x27;") in report.path.read_text()


def test_called_again_it_gives_the_same_without_work(compared: tuple[Path, Report]) -> None:
    folder, report = compared
    told: list[TuningEvent] = []
    again = small(folder, ("sh", "lstm", str(folder / "mine.json")), report=told.append)
    assert again.comparison == report.comparison
    assert not [event for event in told if isinstance(event, TrialEnded)]


def stop_after(count: int) -> Callable[[], bool]:
    """Somebody who presses Ctrl-C when asked for the so-manieth time."""
    asked = iter([False] * count)
    return lambda: next(asked, True)


def test_interrupted_comparison_goes_on_to_the_same_end(compared: tuple[Path, Report], tmp_path: Path) -> None:
    folder, whole = compared
    names = ("sh", "lstm", str(folder / "mine.json"))
    num_stops = 0
    report = small(tmp_path, names, stop=stop_after(12), output=tmp_path / "report.html")
    while not report.is_complete:
        assert not (tmp_path / "report.html").exists()
        assert str(report).startswith("study compare-adding-")
        num_stops += 1
        report = small(tmp_path, names, stop=stop_after(12), output=tmp_path / "report.html")
    assert num_stops > 1
    assert report.comparison == whole.comparison
    assert (tmp_path / "report.html").exists()


def test_name_changes_with_what_decides_the_result_but_not_with_seeds(tmp_path: Path) -> None:
    first = small(tmp_path, trials=2, seeds=2)
    more = small(tmp_path, trials=2, seeds=3)
    assert more.record.name == first.record.name
    assert [len(each.repeats) for each in more.record.arms] == [3, 3]
    assert [run.value for run in more.record.arms[0].repeats[:2]] == [run.value for run in first.record.arms[0].repeats]
    other = small(tmp_path, trials=2, seeds=2, steps=9)
    assert other.record.name != first.record.name


def test_tuner_learns_on_the_way(tmp_path: Path) -> None:
    """In four rounds at least, unless somebody says how many networks are trained at once."""
    rounds: list[int] = []

    def told(event: TuningEvent) -> None:
        if isinstance(event, LotClaimed) and event.arm == "sh" and not event.study.endswith("seeds"):
            rounds.append(event.num_trials)

    small(tmp_path, trials=20, seeds=2, steps=2, sampler="random", report=told)
    assert rounds == [5, 5, 5, 5]
    rounds.clear()
    small(tmp_path, trials=6, seeds=2, steps=2, sampler="random", report=told)
    assert rounds == [3, 3]  # of four at most
    rounds.clear()
    small(tmp_path, trials=6, seeds=2, steps=3, sampler="random", report=told, population=6)
    assert rounds == [6]


def test_given_hyperparameters_leave_the_space(tmp_path: Path) -> None:
    report = small(
        tmp_path, trials=2, seeds=2, hyperparameters={"learning_rate": 0.01, "batch_size": 4, "evaluate_every": 4}
    )
    for each in report.record.arms:
        assert "learning_rate" not in each.arm.space.names
        assert each.arm.hyperparameters.learning_rate == 0.01
    command = report.to_json()["command"]
    assert "-p learning_rate=0.01" in command
    assert command.startswith("rnnlab compare sh lstm --task adding --length 5 --num-evaluation 30 --parameters 60")


def test_space_may_be_an_object(tmp_path: Path) -> None:
    space = SearchSpace([Float("learning_rate", 1e-3, 1e-1, "log"), Category("optimiser", ("sgd", "adam"))])
    report = small(tmp_path, trials=2, seeds=2, space=space)
    assert [each.arm.space for each in report.record.arms] == [space, space]
    assert small(tmp_path, trials=2, seeds=2, space=space.to_json()).record.name == report.record.name


@pytest.mark.parametrize(
    ("architectures", "changes", "message"),
    [
        (
            ("sh", named_graph("td")),
            {},
            "an architecture is a name or a JSON file, got <CyclicGraph: 4 nodes, 6 edges, period 1>: "
            "save_graph(graph, 'mine.json') and give 'mine.json'",
        ),
        (named_graph("td"), {}, "an architecture is a name or a JSON file, got <CyclicGraph: "),
        (
            ("sh", architecture("td", input_size=2, output_size=1, units=4)),
            {},
            "parameters>: save_architecture(network, 'mine.json') and give 'mine.json'",
        ),
        (("sh", 3), {}, "an architecture is a name or a JSON file, got 3"),
        (
            ("sh", "td"),
            {"hyperparameters": Hyperparameters(learning_rate=0.01)},
            "hyperparameters are a table of those that are not tuned, such as {'learning_rate': 0.01}, got ",
        ),
    ],
)
def test_objects_that_no_specification_can_hold_are_refused(
    architectures: Any, changes: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(TuningError, match=re.escape(message)):
        small(tmp_path, architectures, **changes)


@pytest.mark.parametrize(("optimiser", "has_momentum"), [("adam", True), ("sgd", False)])
def test_what_depends_on_a_given_hyperparameter_is_tuned_where_it_has_a_part(
    optimiser: str, has_momentum: bool, tmp_path: Path
) -> None:
    given = {"optimiser": optimiser, "batch_size": 4, "evaluate_every": 4}
    report = small(tmp_path, trials=2, seeds=2, hyperparameters=given)
    for each in report.record.arms:
        assert "optimiser" not in each.arm.space.names
        assert ("momentum" in each.arm.space.names) == has_momentum
        for trial in each.trials:
            assert trial.hyperparameters.optimiser == optimiser
            assert ("momentum" in trial.point) == has_momentum
    command = report.to_json()["command"]
    assert f"-p optimiser={optimiser}" in command
    assert "momentum" not in command


@pytest.mark.parametrize("as_value", [False, True])
def test_given_arguments_of_the_task_leave_the_space(as_value: bool, tmp_path: Path) -> None:
    table = {"name": "capacity", "num_samples": 10, "num_inputs": 4}
    report = small(tmp_path, task=task(**table) if as_value else table, trials=2, seeds=2, stop=lambda: True)
    for each in report.record.arms:
        assert [name for name in each.arm.space.names if name.startswith("task.")] == ["task.input_once"]
        assert each.arm.task.num_samples == 10


def test_steps_have_a_default_for_each_task(tmp_path: Path) -> None:
    """A comparison that ends before its first step knows how many there would have been."""
    report = small(tmp_path, steps=None, hyperparameters=None, stop=lambda: True)
    values = report.record.arms[0].arm.hyperparameters
    assert (values.num_steps, values.evaluate_every) == (STEPS["adding"], STEPS["adding"] // 20)
    assert not report.is_complete


def test_task_may_be_a_value_or_a_name(tmp_path: Path) -> None:
    chosen = task("adding", length=5, num_evaluation=30)
    assert small(tmp_path, task=chosen, stop=lambda: True).record.arms[0].arm.task == chosen
    assert str(small(tmp_path, task="adding", stop=lambda: True).record.arms[0].arm.task) == "adding"


def test_higher_is_better_for_tasks_that_say_so(tmp_path: Path) -> None:
    capacity = {"name": "capacity", "num_inputs": 6, "num_samples": 20}
    report = small(tmp_path, task=capacity, parameters=120, trials=2, seeds=2, space="zhang", steps=4)
    assert report.comparison.score.better == "higher"
    means = [each.summary.mean for each in report.comparison.ranked]
    assert means == sorted(means, reverse=True)


def refuses(folder: Path, message: str, **changes: Any) -> None:
    """One clear error, and no work: there is not even a store."""
    with pytest.raises(RnnlabError, match=message):
        small(folder, **changes)
    assert not (folder / "rnnlab.db").exists()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"architectures": ("sh",)}, "needs two architectures or more: sh alone has nothing"),
        ({"architectures": "sh"}, "needs two architectures or more: sh alone has nothing"),
        ({"task": {"length": 5}}, "a task is a name, or a table with a name and arguments"),
        ({"steps": 0}, "steps must be an integer of at least 1, got 0"),
        ({"architectures": ()}, "needs two architectures or more; `rnnlab list`"),
        ({"architectures": ("sh", "sh")}, "sh is named twice"),
        ({"architectures": ("sh", "lsmt")}, "no architecture is named 'lsmt'; did you mean 'lstm'"),
        ({"architectures": ("sh", "nowhere.json")}, r"nowhere\.json"),
        ({"task": {"name": "ading"}}, "no task is named 'ading'; did you mean 'adding'"),
        ({"task": {"name": "adding", "lenght": 5}}, "no argument 'lenght'; did you mean 'length'"),
        ({"parameters": 5}, "arm sh: 5 parameters are too few: one unit a layer has"),
        ({"parameters": 15}, "arm lstm: 15 parameters are too few"),
        ({"trials": 0}, "trials must be an integer of at least 1, got 0"),
        ({"seeds": 1}, "seeds, since one run tells nothing, must be an integer of at least 2, got 1"),
        ({"trials": 3, "budget": "10m"}, "give trials, or a budget of time; got both"),
        ({"trials": None, "budget": "10"}, "a time is a number with a unit"),
        ({"trials": None, "budget": -1.0}, r"seconds above 0, got -1\.0"),
        ({"space": "colins"}, "did you mean 'collins'"),
        ({"sampler": "gpp"}, "gpp"),
        ({"hyperparameters": {"learning_rat": 1.0}}, "did you mean 'learning_rate'"),
        ({"hyperparameters": {"seed": 3}}, "seed is not a hyperparameter of a study: use --seed"),
        ({"hyperparameters": {"num_steps": 3}}, "steps and num_steps are the same"),
        ({"architectures": ("sh", "td:lstmm")}, "no cell is named 'lstmm'.*did you mean 'lstm'"),
        ({"architectures": ("sh", "sh:tanh")}, "^sh and sh:tanh are the same network: a comparison needs different"),
        ({"task": {"name": "adding", "length": "x"}}, "^length must be an integer"),
        ({"task": {"name": "adding", "lenght": 5}}, "^adding has no argument 'lenght'; did you mean 'length'"),
        ({"output": "report.pdf"}, r"a report is written as \.html, \.md, \.json"),
        ({"output": "nowhere/report.html"}, "there is no folder nowhere"),
    ],
)
def test_bad_input_is_refused_before_any_work(changes: dict[str, Any], message: str, tmp_path: Path) -> None:
    refuses(tmp_path, message, **changes)


def test_missing_data_is_told_with_how_to_add_it(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("RNNLAB_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    refuses(tmp_path, "mnist.*missing.*rnnlab data add", task={"name": "mnist"}, parameters=500)


def test_unwritable_folder_is_told_before_any_work(tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "file").write_text("")
    refuses(tmp_path, r"cannot write .*file/x\.html: there is no folder", output=tmp_path / "file" / "x.html")
    shut = tmp_path / "shut"
    shut.mkdir(mode=0o500)
    if os.access(shut, os.W_OK):  # as root may
        monkeypatch.setattr(Path, "open", refuse_to_open)
    refuses(tmp_path, r"cannot write .*shut/x\.html: Permission denied", output=shut / "x.html")


def refuse_to_open(path: Path, mode: str = "r", **options: Any):
    raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))


@pytest.mark.parametrize(("text", "seconds"), [("90s", 90.0), ("10m", 600.0), ("1h30m", 5400.0), ("1.5h", 5400.0)])
def test_times_are_read_as_people_write_them(text: str, seconds: float) -> None:
    assert seconds_from_words(text) == seconds


@pytest.mark.parametrize("text", ["", "m", "10", "10 m", "-3s", "0s", "1x"])
def test_other_times_are_refused(text: str) -> None:
    with pytest.raises(RnnlabError, match="a time is"):
        seconds_from_words(text)


def test_time_left_decides_how_many_trials_follow() -> None:
    """12 seconds for populations of 4: each trial took 3, those of an arm 30."""
    record = demo_record(trials=10, seeds=None)
    assert training_seconds(record.arms[0]) == 30.0
    assert more_trials(record, 60.0, 0, 1.0)["sh"] == 10
    assert more_trials(record, 50.0, 0, 1.0)["sh"] == 6
    assert more_trials(record, 50.0, 5, 1.0)["sh"] == 1  # five seeds take 15 seconds
    assert more_trials(record, 50.0, 0, 1.5)["sh"] == 1  # where a second of training takes one and a half
    assert more_trials(record, 29.0, 0, 1.0)["sh"] == 0
    assert more_trials(record, 900.0, 0, 1.0)["sh"] == 10  # at most twice what there is


def test_budget_of_time_ends_with_the_seeds(tmp_path: Path) -> None:
    report = small(tmp_path, trials=None, budget=0.001, seeds=2)
    assert [len(each.trials) for each in report.record.arms] == [FIRST_ROUND, FIRST_ROUND]
    assert [len(each.repeats) for each in report.record.arms] == [2, 2]
    again = small(tmp_path, trials=None, budget=0.001, seeds=2)
    assert again.comparison == report.comparison
    assert report.to_json()["command"].startswith("rnnlab study run")
    assert load_record(report.record.name, tmp_path / "rnnlab.db").is_complete


def test_longer_budget_has_more_trials_and_keeps_to_its_time(tmp_path: Path, monkeypatch) -> None:
    """Trials of 3 seconds, four times as fast by the clock: 74 runs of two arms, seeds included, take 56 seconds."""
    made: list[dict[str, Any]] = []

    def make(counts: Mapping[str, int], num_seeds: int) -> StudySpec:
        arms = [{"architectures": name, "trials": count} for name, count in counts.items()]
        return spec(architectures=None, trials=None, arms=arms, seeds=num_seeds)

    def run(asked: StudySpec, **options: Any) -> StudyRecord:
        made.append({"seeds": asked.seeds, "trials": [arm["trials"] for arm in asked.document["arms"]]})
        return record(asked, lambda *_: 0.1, lambda *_: 0.1)

    def clock() -> float:
        return sum(made[-1]["trials"]) * 3.0 / 4 if made else 0.0

    monkeypatch.setattr(budget, "run_study", run)
    ended = run_within(make, ["sh", "td"], seconds=56.25, num_seeds=5, store=tmp_path / "rnnlab.db", clock=clock)
    assert made == [
        *({"seeds": 0, "trials": [8, 8]}, {"seeds": 0, "trials": [16, 16]}, {"seeds": 0, "trials": [32, 32]}),
        {"seeds": 5, "trials": [32, 32]},
    ]
    assert [len(each.repeats) for each in ended.arms] == [5, 5]
