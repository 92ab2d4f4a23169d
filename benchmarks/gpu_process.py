"""Cases run in processes of their own: one that fails, hangs or breaks the GPU's context does not end the benchmark."""

import json
import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[1]
Row = dict[str, Any]
LATE = "not finished in time"
NICE = 5  # of scripts that compile: beside as many processes as there are cores, they get a third of these


class Outcome(NamedTuple):
    """What a task gave, or why it gave nothing, and the seconds that its parts took."""

    result: Any
    failure: str | None
    seconds: dict[str, float]


_spent: dict[str, float] = {}  # by the task that this process is at


@contextmanager
def spending(on: str) -> Generator[None]:
    """Count the seconds inside as one part of a task; parts do not lie in one another. Decorates functions too."""
    start = time.perf_counter()
    try:
        yield
    finally:
        _spent[on] = _spent.get(on, 0.0) + time.perf_counter() - start


def _attempt(function: Callable[..., Any], arguments: Sequence[Any]) -> Outcome:
    """A failure travels as text: some errors cannot be taken to another process."""
    _spent.clear()
    try:
        return Outcome(function(*arguments), None, dict(_spent))
    except BaseException as error:
        return Outcome(None, f"{type(error).__name__}: {error}"[:500], dict(_spent))


def _serve(connection: Any) -> None:
    """Answer until the other side ends."""
    while True:
        function, arguments = connection.recv()
        connection.send(_attempt(function, arguments))


class CaseProcess:
    """A process that runs one case after another; after one that failed, hung or died a new one takes its place.

    Args:
        is_spoilt: whether a result tells of failures, after which the GPU may be of no use to the process.
    """

    def __init__(self, is_spoilt: Callable[[Any], bool]) -> None:
        self._is_spoilt = is_spoilt
        self._process: Any = None
        self._connection: Any = None

    def start(self) -> None:
        """Start the process, if there is none; meanwhile it imports what the main script imports."""
        if self._process is None:
            context = multiprocessing.get_context("spawn")
            self._connection, theirs = context.Pipe()
            self._process = context.Process(target=_serve, args=(theirs,), daemon=True)
            self._process.start()
            theirs.close()  # so that the end of the process is seen at once

    def call(self, seconds: float, function: Callable[..., Any], *arguments: Any) -> Outcome:
        """Run a function in the process, for so many seconds at most."""
        if seconds <= 0:
            return Outcome(None, LATE, {})
        self.start()
        outcome = self._answer(seconds, function, arguments)
        if outcome.failure is not None or self._is_spoilt(outcome.result):
            self.end()
        return outcome

    def _answer(self, seconds: float, function: Callable[..., Any], arguments: Sequence[Any]) -> Outcome:
        try:
            self._connection.send((function, arguments))
            if not self._connection.poll(max(0.0, seconds)):
                return Outcome(None, f"no answer after {seconds:.0f} s", {})
            return self._connection.recv()
        except (EOFError, OSError):
            self._process.join(5)
            return Outcome(None, f"its process died, exit code {self._process.exitcode}", {})

    def end(self) -> None:
        """End the process; the next call starts another."""
        if self._process is not None:
            self._process.kill()
            self._process.join()
            self._connection.close()
            self._process = None


def in_parallel(
    function: Callable[..., Any],
    tasks: Sequence[Sequence[Any]],
    *,
    seconds: float,
    task_seconds: float,
    is_spoilt: Callable[[Any], bool],
) -> list[Outcome]:
    """All tasks, in as many processes as there are cores, each and all for so many seconds at most."""
    outcomes = [Outcome(None, LATE, {})] * len(tasks)
    waiting = iter(list(enumerate(tasks)))
    lock = threading.Lock()
    deadline = time.monotonic() + seconds

    def work() -> None:
        process = CaseProcess(is_spoilt)
        while time.monotonic() < deadline:
            with lock:
                number, arguments = next(waiting, (None, ()))
            if number is None:
                break
            outcome = process.call(min(task_seconds, deadline - time.monotonic()), function, *arguments)
            is_late = outcome.failure is not None and time.monotonic() >= deadline
            outcomes[number] = Outcome(None, LATE, {}) if is_late else outcome
        process.end()

    threads = [threading.Thread(target=work) for _ in range(min(os.cpu_count() or 1, len(tasks)))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return outcomes


def results_of(compiled: Callable[[Any], Any], cases: Sequence[Any]) -> list[Any]:
    """What a function gives that compiles a case; ends the script where one fails."""
    limits: Any = {"seconds": 300.0, "task_seconds": 120.0, "is_spoilt": lambda _: False}
    outcomes = in_parallel(compiled, [(case,) for case in cases], **limits)
    failed = [(case, outcome.failure) for case, outcome in zip(cases, outcomes, strict=True) if outcome.failure]
    if failed:
        case, why = failed[0]
        raise SystemExit(f"{len(failed)} of {len(cases)} failed, the first, {case}: {why}")
    return [outcome.result for outcome in outcomes]


class Script:
    """Another script of this folder, started at once; it compiles, and once it is sent a line prints rows of JSON.

    Other processes come before it where there are not cores enough.
    """

    def __init__(self, name: str, *arguments: str) -> None:
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115
        self._process = subprocess.Popen(
            ["nice", "-n", str(NICE), sys.executable, str(Path(__file__).parent / name), *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            cwd=ROOT,
            start_new_session=True,  # so that compilers which it started end with it
            # two frameworks share the GPU's memory, and compilers leave most cores to what is timed
            env=os.environ | {"XLA_PYTHON_CLIENT_PREALLOCATE": "false", "MAX_JOBS": "2"},
        )

    def rows(self, seconds: float) -> list[Row]:
        """Tell it to go on, and take what it prints within so many seconds; the last row says if it broke down."""
        try:
            printed, _ = self._process.communicate("go\n", timeout=max(1.0, seconds))
            why = f"ended with {self._process.returncode}: {self._last_words()}" if self._process.returncode else None
        except subprocess.TimeoutExpired as error:
            self.end()
            taken: Any = error.stdout or b""  # bytes, whatever was asked for
            printed, why = taken if isinstance(taken, str) else taken.decode(), f"no end after {seconds:.0f} s"
        found = [json.loads(line) for line in printed.splitlines() if line.startswith("{") and line.endswith("}")]
        return [*found, {"failed": why}] if why else found

    def _last_words(self) -> str:
        self._errors.seek(0)
        return self._errors.read().strip()[-300:]

    def end(self) -> None:
        """End it, if it has not ended."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        for file in (self._process.stdin, self._process.stdout, self._errors):
            if file is not None:
                file.close()


@contextmanager
def fresh_caches() -> Generator[None]:
    """Kernels are compiled anew by processes that start inside: so the seconds of a first call are those of a user."""
    names = ("XDG_CACHE_HOME", "TRITON_CACHE_DIR")
    before = {name: os.environ.get(name) for name in names}
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        os.environ.update({name: str(Path(folder) / name) for name in names})
        try:
            yield
        finally:
            for name, value in before.items():
                if value is None:
                    del os.environ[name]
                else:
                    os.environ[name] = value
