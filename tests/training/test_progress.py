"""From events to what people and programs see of a run."""

import io
import json
import sys
import time
from pathlib import Path

import pytest
from rich.console import Console

from rnnlab.errors import TrainingError
from rnnlab.training.events import Evaluated, Event, Finished, MemberInfeasible, Saved, Started, Stepped
from rnnlab.training.live import LiveDisplay
from rnnlab.training.progress import WINDOW_SECONDS, JsonLines, PlainLines, Tracker, spread, tell_all


class Clock:
    """Seconds that pass when told to."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def started(**changes) -> Started:
    values = {"step": 0, "architecture": "sh:lstm", "task": "adding(length=200)", "population": 4}
    values |= {"num_parameters": 1234, "num_steps": 1000, "path": "cpu", "score": "mse", "better": "lower"}
    return Started(**(values | changes))


def stepped(step: int, *losses: float | None, num_active: int = 4) -> Stepped:
    return Stepped(step=step, losses=losses, learning_rates=[0.1] * len(losses), num_active=num_active)


def evaluated(step: int, *best: float | None, split: str = "validation") -> Evaluated:
    return Evaluated(step=step, split=split, scores={"mse": best}, best=best)


FINISHED = Finished(step=1000, best=[0.1, 0.2, None, 0.4], num_infeasible=1, is_complete=True, seconds=125.0)


def fed(clock: Clock, *timed: tuple[float, Event]) -> Tracker:
    """A tracker after events, each so many seconds after the one before."""
    tracker = Tracker(clock)
    for seconds, event in timed:
        clock.now += seconds
        tracker(event)
    return tracker


def test_best_and_median_are_of_members_that_have_a_number() -> None:
    tracker = fed(Clock(), (0, started()), (1, stepped(10, 0.5, None, float("nan"), 0.1)))
    assert tracker.losses is not None
    assert (tracker.losses.best, tracker.losses.median) == (0.1, 0.3)
    assert spread([None, float("nan")]) is None


@pytest.mark.parametrize(("better", "best"), [("lower", 0.1), ("higher", 0.9)])
def test_best_score_goes_the_way_of_the_task(better: str, best: float) -> None:
    tracker = fed(Clock(), (0, started(better=better)), (1, evaluated(10, 0.5, 0.1, 0.9, None)))
    assert tracker.scores is not None
    assert (tracker.scores.best, tracker.scores.median, tracker.scored_step) == (best, 0.5, 10)


def test_scores_on_the_test_split_do_not_stand_for_validation() -> None:
    tracker = fed(Clock(), (0, started()), (1, evaluated(10, 0.5)), (1, evaluated(20, 0.1, split="test")))
    assert tracker.scores is not None
    assert tracker.scores.best == 0.5


def test_speed_counts_the_steps_of_every_active_member() -> None:
    clock = Clock()
    tracker = fed(clock, (0, started()), (2, stepped(100)), (3, stepped(200, num_active=2)), (5, stepped(300)))
    # 100 steps of 4 members, 100 of 4, 100 of 2, in 10 s
    assert tracker.model_steps_a_second == pytest.approx(100)
    assert tracker.seconds_left == pytest.approx(700 / 30)
    clock.now += 1
    assert tracker.seconds_left == pytest.approx(700 / 30 - 1)


def test_speed_forgets_what_is_long_ago() -> None:
    slow_start = [(WINDOW_SECONDS, stepped(step)) for step in (1, 2, 3)]
    quick = [(1.0, stepped(3 + 10 * second)) for second in range(1, 90)]
    tracker = fed(Clock(), (0, started()), *slow_start, *quick)
    assert tracker.model_steps_a_second == pytest.approx(40)


def test_nothing_is_said_of_speed_before_it_is_known() -> None:
    tracker = fed(Clock(), (0, started()))
    assert tracker.model_steps_a_second is None
    assert tracker.seconds_left is None
    assert tracker.speed() == ""


def test_resumed_run_has_the_speed_of_its_own_steps() -> None:
    tracker = fed(Clock(), (0, started(step=500)), (10, stepped(600)))
    assert tracker.title().endswith("; cpu; goes on after step 500")
    assert tracker.model_steps_a_second == pytest.approx(40)
    assert tracker.seconds_left == pytest.approx(40)


def test_plain_lines_come_now_and_then() -> None:
    clock, stream = Clock(), io.StringIO()
    listen = PlainLines(stream, clock)
    listen(started())
    for second in range(1, 26):
        clock.now += 1
        listen(stepped(10 * second, 0.5, 0.1, 0.3, 0.4))
        if second == 15:
            listen(evaluated(150, 0.25, 0.5, 0.75, None))
            listen(MemberInfeasible(step=150, member=3, reason="the loss is not finite"))
    listen(FINISHED)
    assert stream.getvalue().splitlines() == [
        "sh:lstm on adding(length=200): 4 members of 1,234 parameters; cpu",
        "step 100 of 1,000; 4 of 4 active; loss best 0.1, median 0.35; 40 model-steps/s, 1 min 30 s left",
        "step 200 of 1,000; 4 of 4 active, 1 infeasible; loss best 0.1, median 0.35; mse best 0.25, median 0.5; "
        "40 model-steps/s, 1 min 20 s left",
        "finished at step 1,000 after 2 min 5 s; 1 infeasible",
    ]


def test_plain_lines_of_one_network_do_not_speak_of_members() -> None:
    clock, stream = Clock(), io.StringIO()
    listen = PlainLines(stream, clock)
    listen(started(population=1))
    clock.now += 20
    listen(stepped(10, 0.5, num_active=1))
    listen(Finished(step=10, best=[None], num_infeasible=0, is_complete=False, seconds=20.0))
    assert stream.getvalue().splitlines() == [
        "sh:lstm on adding(length=200): 1,234 parameters; cpu",
        "step 10 of 1,000; loss 0.5; 0 model-steps/s, 33 min left",
        "stopped at step 10 after 20 s",
    ]


def test_json_lines_hold_every_event_and_only_what_json_knows() -> None:
    stream = io.StringIO()
    listen = JsonLines(stream)
    listen(started())
    listen(stepped(10, float("inf"), float("nan"), None, 0.5))
    first, second = map(json.loads, stream.getvalue().splitlines())
    assert first == {"event": "Started", **vars(started())}
    assert second["losses"] == [None, None, None, 0.5]
    assert "NaN" not in stream.getvalue()


def test_every_listener_hears_every_event() -> None:
    heard: list[tuple[str, Event]] = []
    tell = tell_all([lambda event: heard.append(("a", event)), lambda event: heard.append(("b", event))])
    tell(FINISHED)
    assert heard == [("a", FINISHED), ("b", FINISHED)]


def shown(display: LiveDisplay) -> str:
    console = Console(width=100, file=io.StringIO(), force_terminal=False)
    console.print(display.render())
    return "\n".join(line.rstrip() for line in console.file.getvalue().splitlines())


def test_live_display_shows_where_the_run_stands() -> None:
    clock = Clock()
    display = LiveDisplay(Console(file=io.StringIO()), clock)
    assert shown(display) == "preparing ..."
    display(started())
    clock.now += 5
    display(stepped(200, 0.5, 0.1, 0.3, 0.4))
    display(evaluated(200, 0.25, 0.5, 0.75, None))
    display(MemberInfeasible(step=150, member=3, reason="the loss is not finite"))
    display(Saved(step=200))
    lines = shown(display).splitlines()
    assert lines[0] == "sh:lstm on adding(length=200): 4 members of 1,234 parameters; cpu"
    assert lines[1].count("━") in range(10, 60)
    assert lines[2:] == [
        "step           200 of 1,000",
        "members        4 of 4 active, 1 infeasible",
        "training loss  best 0.1, median 0.35",
        "mse            best 0.25, median 0.5 on validation, step 200",
        "speed          160 model-steps/s, 20 s left",
        "checkpoint     step 200",
    ]


def test_live_display_draws_in_a_terminal_and_cleans_up() -> None:
    stream = io.StringIO()
    with LiveDisplay(Console(file=stream, force_terminal=True, width=80)) as display:
        display(started())
    drawn = stream.getvalue()
    assert "sh:lstm on adding" in drawn
    assert drawn.rstrip().endswith("\x1b[2K")  # the last thing is to rub it out


def test_missing_tensorboard_is_said(monkeypatch, tmp_path: Path) -> None:
    from rnnlab.training.tensorboard import TensorBoardLog

    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard.writer", None)
    with pytest.raises(TrainingError, match=r"TensorBoard is not installed: pip install 'rnnlab\[tensorboard\]'"):
        TensorBoardLog(tmp_path)


def test_tensorboard_has_the_curves_of_every_member(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard", reason="needs TensorBoard: pip install 'rnnlab[tensorboard]'")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    from rnnlab.training.tensorboard import TensorBoardLog

    with TensorBoardLog(tmp_path / "log") as log:
        for event in (started(), stepped(10, 0.5, None, 0.25), evaluated(10, 0.5, None, 1.0), FINISHED):
            log(event)
    found = EventAccumulator(str(tmp_path / "log"))
    found.Reload()
    curves = {tag: [(point.step, point.value) for point in found.Scalars(tag)] for tag in found.Tags()["scalars"]}
    assert curves["loss/0"] == [(10, 0.5)]
    assert curves["loss/best"] == [(10, 0.25)]
    assert curves["validation mse/median"] == [(10, 0.75)]
    assert "loss/1" not in curves
    assert curves["members active"] == [(10, 4.0)]


def test_tensorboard_of_a_resumed_run_hides_what_came_after_the_checkpoint(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard", reason="needs TensorBoard: pip install 'rnnlab[tensorboard]'")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    from rnnlab.training.tensorboard import TensorBoardLog

    for begin, steps in ((started(), {10: 0.5, 20: 0.25, 30: 0.125}), (started(step=10), {20: 1.0})):
        with TensorBoardLog(tmp_path) as log:
            log(begin)
            for step, loss in steps.items():
                log(stepped(step, loss))
        time.sleep(1.1)  # files are named by the second
    found = EventAccumulator(str(tmp_path))
    found.Reload()
    assert [(point.step, point.value) for point in found.Scalars("loss/0")] == [(10, 0.5), (20, 1.0)]


def test_tensorboard_folder_that_cannot_be_made_is_said(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard", reason="needs TensorBoard: pip install 'rnnlab[tensorboard]'")
    from rnnlab.training.tensorboard import TensorBoardLog

    (tmp_path / "file").write_text("")
    with pytest.raises(TrainingError, match=r"cannot write to .*file: File exists"):
        TensorBoardLog(tmp_path / "file")
