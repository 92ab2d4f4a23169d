"""A run that a person watches from a terminal, or a program reads line by line."""

import shlex
import sys
from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from rnnlab.architecture.architecture import Architecture
from rnnlab.errors import TrainingError
from rnnlab.tasks.task import AbstractTask
from rnnlab.training.events import Event, Started
from rnnlab.training.hyperparameters import Hyperparameters
from rnnlab.training.interruption import Interruption
from rnnlab.training.live import LiveDisplay
from rnnlab.training.loop import train
from rnnlab.training.progress import JsonLines, Listener, PlainLines, tell_all
from rnnlab.training.room import REMEDY, is_out_of_memory
from rnnlab.training.tensorboard import TensorBoardLog
from rnnlab.training.writable import check_writable


def run_and_show(
    architecture: Architecture,
    task: AbstractTask,
    hyperparameters: Hyperparameters | Sequence[Hyperparameters],
    *,
    name: str,
    output: Path | None,
    tensorboard: Path | None,
    as_json: bool,
    command: Sequence[str],
    **options: Any,
) -> bool:
    """Train, show how it gets on and what came of it; returns whether the run came to its end.

    The result goes to standard output. Progress goes to standard error, drawn in place if that is a terminal, otherwise
    line by line; as JSON both are lines on standard output.

    Args:
        architecture, task, hyperparameters, options: as for `train`.
        name: what the user calls the architecture.
        output: where to write the trained model.
        tensorboard: a folder for curves.
        as_json: whether to write JSON.
        command: the words of the command line, to say how to go on after an interruption.
    """
    if output is not None:
        check_writable(output, TrainingError)
        if output.suffix != ".safetensors":
            raise TrainingError(f"a model is written to a .safetensors file, got {output.name!r}")
    how_to_resume = _how_to_resume(command, options.get("checkpoint"))
    try:
        with _listener(name, as_json=as_json, tensorboard=tensorboard) as report, Interruption() as interruption:
            found = train(architecture, task, hyperparameters, report=report, stop=interruption, **options)
    except KeyboardInterrupt:  # pressed again
        print(f"\nstopped at once; {how_to_resume}", file=sys.stderr)
        return False
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        device = options.get("device", "cpu")
        message = f"the networks and their batches do not fit into the memory of {device}: {REMEDY}"
        raise TrainingError(message) from error
    run = replace(found, architecture=name)
    if as_json:
        JsonLines(sys.stdout).write({"event": "Result", **run.to_json()})
    else:
        print(run)
    is_lost = not run.is_complete and options.get("checkpoint") is None
    if output is not None and (run.is_complete or is_lost):
        run.model.save(output)
        print(f"wrote {output}", file=sys.stderr if as_json else sys.stdout)
    if is_lost and output is not None:
        is_evaluated = any(member.best_step is not None for member in run.members)
        which = "were best so far" if is_evaluated else "it came to before its first evaluation"
        print(f"stopped; the file has the parameters that {which}, and cannot be resumed", file=sys.stderr)
    elif not run.is_complete:
        print(f"stopped; {how_to_resume}", file=sys.stderr)
    return run.is_complete


@contextmanager
def _listener(name: str, *, as_json: bool, tensorboard: Path | None) -> Generator[Listener, None, None]:
    with ExitStack() as stack:
        listeners: list[Listener] = []
        if tensorboard is not None:
            listeners.append(stack.enter_context(TensorBoardLog(tensorboard)))
        if as_json:
            listeners.append(JsonLines(sys.stdout))
        elif sys.stderr.isatty():
            listeners.append(stack.enter_context(LiveDisplay()))
        else:
            listeners.append(PlainLines(sys.stderr))
        tell = tell_all(listeners)

        def named(event: Event) -> None:
            tell(replace(event, architecture=name) if isinstance(event, Started) else event)

        yield named


def _how_to_resume(command: Sequence[str], checkpoint: Path | None) -> str:
    if checkpoint is None:
        return "nothing was saved: with --checkpoint FOLDER it could be resumed"
    words = [*(word for word in command if word != "--resume"), "--resume"]
    return f"resume with: {shlex.join(('rnnlab', *words))}"
