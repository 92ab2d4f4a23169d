"""What training gives: a model with its scores, and how each member fared."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rnnlab.engine.model import Model
from rnnlab.training.hyperparameters import Hyperparameters

FINISHED, STOPPED, TOO_SLOW = "finished", "stopped early", "too slow"
INFEASIBLE, UNFINISHED = "infeasible", "unfinished"


@dataclass(frozen=True, kw_only=True)
class LearningCurve:
    """A member's evaluations in the course of training.

    Args:
        steps: after how many steps it was evaluated.
        scores: the scores on validation, by name, each as long as `steps`.
        losses: the mean training loss since the evaluation before, as long as `steps`.
    """

    steps: tuple[int, ...]
    scores: Mapping[str, tuple[float, ...]]
    losses: tuple[float, ...]


@dataclass(frozen=True, kw_only=True)
class Member:
    """How one member fared.

    Args:
        hyperparameters: how it was trained.
        outcome: `finished` its steps, `stopped early`, `too slow` (its learning rate fell below the lowest),
            `infeasible`, or `unfinished` where training was told to stop.
        num_steps: how many steps it was trained; for an infeasible member, the step that diverged, counted from 0.
        reason: why it is infeasible, in words.
        best_step: after how many steps it was best on validation; None if it was never evaluated.
        validation, test: its scores with the parameters of that moment, by name; empty if there are none.
        curve: its scores over time.
    """

    hyperparameters: Hyperparameters
    outcome: str
    num_steps: int
    reason: str | None
    best_step: int | None
    validation: Mapping[str, float]
    test: Mapping[str, float]
    curve: LearningCurve

    @property
    def is_feasible(self) -> bool:
        """Whether its training did not diverge (C72)."""
        return self.outcome != INFEASIBLE


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Run:
    """A trained network, or population, and how it came about.

    Args:
        model: the model, with the parameters that were best on validation for each member; it has a population axis if
            several hyperparameters were given. It prints like any module, and `model.save` writes it.
        members: how each fared, in order.
        task: what it was trained on, as JSON.
        architecture: what was trained, in words.
        seed: the seed of the batches.
        watched: the name of the score that decided what is best.
    """

    model: Model
    members: Sequence[Member]
    task: Mapping[str, Any]
    architecture: str
    seed: int
    watched: str

    @property
    def is_complete(self) -> bool:
        """Whether every member came to its end."""
        return all(member.outcome != UNFINISHED for member in self.members)

    def __repr__(self) -> str:
        size = f"{len(self.members)} member{'s' if len(self.members) > 1 else ''}"
        left = "" if self.is_complete else ", unfinished"
        return f"<Run: {size} of {self.architecture} on {self.task['name']}{left}>"

    def __str__(self) -> str:
        lines = [f"{self.architecture} on {self.task['name']}, scored by {self.watched}", _HEADINGS]
        lines += [f"{number:6}  {_line(member, self.watched)}" for number, member in enumerate(self.members)]
        return "\n".join(lines)

    def to_json(self) -> dict[str, Any]:
        """Everything except the model's parameters."""
        members = [asdict(member) | {"hyperparameters": member.hyperparameters.to_json()} for member in self.members]
        return {
            "architecture": self.model.architecture.to_json(),
            "task": dict(self.task),
            "seed": self.seed,
            "watched": self.watched,
            "members": members,
        }

    def save(self, path: str | Path) -> None:
        """Write everything except the model's parameters to a JSON file."""
        Path(path).write_text(json.dumps(self.to_json(), indent=1) + "\n")


_HEADINGS = f"member  {'validation':>12}  {'test':>12}  outcome; hyperparameters"


def _line(member: Member, watched: str) -> str:
    validation, test = (f"{scores[watched]:.6g}" if scores else "-" for scores in (member.validation, member.test))
    why = f" ({member.reason})" if member.reason else ""
    end = f"{member.outcome} at step {member.num_steps}{why}"
    return f"{validation:>12}  {test:>12}  {end}; {member.hyperparameters}"
