"""Curves for TensorBoard, for those who have it."""

from pathlib import Path
from types import TracebackType
from typing import Any

from rnnlab.errors import TrainingError
from rnnlab.training.events import Evaluated, Event, MemberInfeasible, Started, Stepped, Values
from rnnlab.training.progress import spread


class TensorBoardLog:
    """Writes losses, learning rates and scores of every member: a listener, and a context that begins and ends it.

    Curves are named `loss/3` for member 3; `best` and `median` stand beside them. A run that is resumed goes on where
    its checkpoint was: what came after it is hidden.

    Args:
        folder: for `tensorboard --logdir`.

    Raises:
        TrainingError: TensorBoard is not installed, or the folder cannot be written to.
    """

    def __init__(self, folder: str | Path) -> None:
        try:
            from torch.utils.tensorboard.writer import SummaryWriter
        except ImportError as error:
            raise TrainingError("TensorBoard is not installed: pip install 'rnnlab[tensorboard]'") from error
        self._folder = str(folder)
        self._make_writer: Any = SummaryWriter
        self._writer: Any = None
        self._better = "lower"
        try:
            Path(folder).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise TrainingError(f"cannot write to {folder}: {error.strerror}") from error

    def __enter__(self) -> "TensorBoardLog":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._writer is not None:
            self._writer.close()

    def __call__(self, event: Event) -> None:
        """Write what an event holds."""
        if isinstance(event, Started):
            self._writer = self._make_writer(self._folder, purge_step=event.step + 1 if event.step else None)
            self._better = event.better
        elif isinstance(event, Stepped):
            self._write("loss", event.losses, event.step, "lower")
            self._write("learning rate", event.learning_rates, event.step, None)
            self._writer.add_scalar("members active", event.num_active, event.step)
        elif isinstance(event, Evaluated):
            for number, (name, values) in enumerate(event.scores.items()):
                # the event says which way is better for the watched score only, which comes first
                self._write(f"{event.split} {name}", values, event.step, None if number else self._better)
        elif isinstance(event, MemberInfeasible):
            self._writer.add_text("infeasible", f"member {event.member}: {event.reason}", event.step)

    def _write(self, name: str, values: Values, step: int, better: str | None) -> None:
        for member, value in enumerate(values):
            if value is not None:
                self._writer.add_scalar(f"{name}/{member}", value, step)
        if better is not None and len(values) > 1 and (found := spread(values, better)) is not None:
            self._writer.add_scalar(f"{name}/best", found.best, step)
            self._writer.add_scalar(f"{name}/median", found.median, step)
