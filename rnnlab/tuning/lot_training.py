"""The training of a lot: its trials are made, trained as populations, scored and recorded.

It goes step by step, so that several lots can take turns (`side_by_side.py`). However it ends, the lot is finished,
handed back with its populations saved, or another worker's.
"""

import time
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TypeVar

import torch

from rnnlab.errors import CheckpointError, TuningError
from rnnlab.training.events import Event, Started
from rnnlab.training.loop import training
from rnnlab.training.pace import Pace
from rnnlab.training.room import is_out_of_memory
from rnnlab.training.run import Run
from rnnlab.tuning.arms import Arm
from rnnlab.tuning.binding import Setting, bind, split, task_of
from rnnlab.tuning.checkpoints import has_checkpoint, lot_folder, population_folder, remove_folder
from rnnlab.tuning.circumstances import circumstances
from rnnlab.tuning.events import LotFinished, LotHandedBack, LotLost, Trained, TrialEnded, about
from rnnlab.tuning.heart import Heart
from rnnlab.tuning.lots import Lot, Lots
from rnnlab.tuning.populations import chunks
from rnnlab.tuning.prepared import PreparedArm
from rnnlab.tuning.scoring import training_scores
from rnnlab.tuning.trials import Outcome, why_infeasible
from rnnlab.tuning.work import Work

SAVE_EVERY = timedelta(seconds=30)  # by default: small networks train no longer than it takes to save them a few times

Result = TypeVar("Result")
Steps = Generator[None, None, Result]
"""Something that is done step by step."""


class LotTrainer:
    """Trains the lots of one worker, and counts their trials.

    Args:
        lots: those of the study.
        how: how the worker works.
        worker: its name.
        device: where it trains.
        root: where its checkpoints go.
    """

    def __init__(self, lots: Lots, how: Work, *, worker: str, device: torch.device, root: Path) -> None:
        self._lots, self._how, self._worker, self._device, self._root = lots, how, worker, device, root
        self._pace = Pace(SAVE_EVERY)  # of all lots together
        self.num_begun = self.num_recorded = 0

    def train(self, lot: Lot, prepared: PreparedArm) -> Steps[None]:
        """Train and record all trials of a lot; whatever happens, it is finished, handed back, or another worker's."""
        is_finished = False
        heart = Heart(lambda: self._lots.beat(lot), self._how.beat_every)
        try:
            with heart:
                settings = _make_trials(lot, prepared)
                yield
                if not self._how.is_stopped():
                    is_complete = yield from self._train_populations(lot, prepared, settings, heart)
                    is_finished = is_complete and self._lots.finish(lot)
        except (CheckpointError, TuningError):
            if self._lots.beat(lot):
                raise
            # another worker has the lot, and may have cleared its folders away
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            raise TuningError(self._too_large(lot, prepared.size)) from error
        finally:
            if is_finished:
                remove_folder(lot_folder(self._root, lot))
                self._how.tell(LotFinished(**about(lot)))
            else:
                kind = LotHandedBack if self._lots.hand_back(lot) else LotLost
                self._how.tell(kind(**about(lot)))

    def _too_large(self, lot: Lot, size: int) -> str:
        remedy = f"give a population below {size}" if size > 1 else "make the network, batch_size or sequences smaller"
        return f"{len(lot.points)} trials of {lot.arm} do not fit into the memory of {self._device}: {remedy}"

    def _train_populations(
        self, lot: Lot, prepared: PreparedArm, settings: Sequence[Setting], heart: Heart
    ) -> Steps[bool]:
        """Train and record a lot's trials, population by population; whether all of them ended."""
        self.num_begun += len(lot.points)
        ended = prepared.trials.ended(lot) if lot.generation else {}
        before, begun = lot.seconds, time.perf_counter()
        for group in split(settings, prepared.arm.task):
            for places in chunks(group, prepared.size):
                numbers = [lot.first + place for place in places]
                if all(number in ended for number in numbers):
                    before -= ended[numbers[0]].wall_seconds or 0.0
                    continue
                trained = yield from self._train(
                    lot, prepared.arm, places, [settings[place] for place in places], heart
                )
                if not trained.run.is_complete or not self._lots.beat(lot):
                    return False
                seconds = before + time.perf_counter() - begun
                self._record(lot, prepared, trained, numbers, seconds)
                before, begun = 0.0, time.perf_counter()
        return True

    def _train(
        self, lot: Lot, arm: Arm, places: Sequence[int], settings: Sequence[Setting], heart: Heart
    ) -> Steps["_Trained"]:
        """Train a population: the trials at these places of a lot."""
        task = task_of(settings, arm.task)
        name = f"{self._device.type}-{places[0]}-{places[-1]}-{len(places)}"
        folder = population_folder(self._root, lot, name)
        numbers, paths = [lot.first + place for place in places], ["unknown"]

        def told(event: Event) -> None:
            if isinstance(event, Started):
                paths.append(event.path)
            self._how.tell(Trained(members=numbers, event=event, **about(lot)))

        members = [setting.hyperparameters for setting in settings]
        run = yield from training(
            arm.architecture,
            task,
            members,
            seed=arm.seed,
            device=self._device,
            path=arm.path,
            precision=arm.precision,
            report=told,
            report_every=self._how.report_every,
            checkpoint=folder,
            save_every=self._how.save_every or self._pace,
            resume=has_checkpoint(folder),
            stop=lambda: self._how.is_stopped() or heart.is_lost,
        )
        if not run.is_complete:
            return _Trained(run, [], paths[-1])
        return _Trained(run, training_scores(run.model, task, members[0].batch_size or task.batch_size), paths[-1])

    def _record(
        self, lot: Lot, prepared: PreparedArm, trained: "_Trained", numbers: Sequence[int], seconds: float
    ) -> None:
        """Record the trials of a population, by their numbers."""
        run = circumstances(lot, prepared.arm, trained.path, device=self._device, worker=self._worker)
        outcomes = {
            number: Outcome(
                member=member,
                training=training if member.validation else {},
                wall_seconds=seconds,
                population=len(numbers),
                run=run,
            )
            for number, member, training in zip(numbers, trained.run.members, trained.training, strict=True)
        }
        prepared.trials.record(outcomes)
        self.num_recorded += len(outcomes)
        for number, outcome in outcomes.items():
            self._how.tell(_trial_ended(lot, prepared.arm, number, outcome))


@dataclass(frozen=True)
class _Trained:
    """A population that was trained: its run, its scores on training data, and the engine's path."""

    run: Run
    training: list[dict[str, float]]
    path: str


def _make_trials(lot: Lot, prepared: PreparedArm) -> list[Setting]:
    """Make the trials of a lot in the store; returns their settings."""
    arm = prepared.arm
    settings = [bind(point, arm.hyperparameters, arm.architecture, arm.task) for point in lot.points]
    prepared.trials.make(lot, settings)
    return settings


def _trial_ended(lot: Lot, arm: Arm, number: int, outcome: Outcome) -> TrialEnded:
    reason = why_infeasible(outcome.member, arm.score.name)
    return TrialEnded(
        study=lot.study,
        arm=arm.name,
        number=number,
        state="complete" if reason is None else "infeasible",
        value=outcome.member.validation[arm.score.name] if reason is None else None,
        reason=reason,
    )
