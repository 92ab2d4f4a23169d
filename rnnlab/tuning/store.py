"""Where studies are kept: Optuna's tables in a SQLite file or on a PostgreSQL server, and a few tables beside them.

Optuna's tables hold every trial, so that its dashboard and plots work on our studies; an arm of a study is one study of
Optuna's, named STUDY/ARM. Beside them `rnnlab_studies` holds what each study is, `rnnlab_lots` which trials were given
to which worker (`lots.py`), and `rnnlab_sittings` how long workers worked (`sittings.py`).

A SQLite file serves many processes of one machine. It uses a write-ahead log (WAL), so that readers do not wait for
writers; writers wait for one another. Several machines share a PostgreSQL server.
"""

import json
import sqlite3
import time
import weakref
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import optuna
import sqlalchemy
from optuna.storages import RDBStorage
from sqlalchemy import Column, Double, Insert, Integer, MetaData, String, Table, Text
from sqlalchemy.exc import IntegrityError, SQLAlchemyError
from sqlalchemy.orm import Session

from rnnlab.errors import RnnlabError, TuningError
from rnnlab.tasks.registry import DIGEST
from rnnlab.tuning.announcements import no_announcements
from rnnlab.tuning.arms import Arm, check_name

VERSION = 1
DEFAULT = "rnnlab.db"
LOCK_SECONDS = 60
CONNECT_SECONDS = 10
ATTEMPTS = 5

_TABLES = MetaData()
VERSIONS = Table("rnnlab_version", _TABLES, Column("version", Integer, primary_key=True, autoincrement=False))
STUDIES = Table(
    "rnnlab_studies",
    _TABLES,
    Column("name", String(200), primary_key=True),
    Column("arms", Text, nullable=False),
)
LOTS = Table(
    "rnnlab_lots",
    _TABLES,
    Column("study", String(200), primary_key=True),
    Column("arm", String(200), primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("first", Integer, nullable=False),
    Column("points", Text, nullable=False),
    Column("owner", String(200)),
    Column("grace", Double, nullable=False),
    Column("generation", Integer, nullable=False),
    Column("num_lost", Integer, nullable=False),
    Column("claimed", Double, nullable=False),
    Column("heartbeat", Double, nullable=False),
    Column("seconds", Double, nullable=False),
    Column("finished", Double),
)
SITTINGS = Table(
    "rnnlab_sittings",
    _TABLES,
    Column("study", String(200), primary_key=True),
    Column("worker", String(200), primary_key=True),
    Column("device", String(200), nullable=False),
    Column("ended", Double, nullable=False),
    Column("seconds", Double, nullable=False),
    Column("num_trials", Integer, nullable=False),
)
SPECS = Table(  # what studies of many arms were made from (`studies/stored.py`)
    "rnnlab_specs",
    _TABLES,
    Column("study", String(200), primary_key=True),
    Column("content", Text, nullable=False),
)


class Store:
    """A place for studies.

    Args:
        place: a SQLite file, or the URL of a PostgreSQL database: `postgresql://user@host/name`.
        lock_seconds: how long to wait while another process writes to the file.

    Raises:
        TuningError: it cannot be reached, written to, or is of another version.
    """

    def __init__(self, place: str | Path = DEFAULT, *, lock_seconds: float = LOCK_SECONDS) -> None:
        self.url = _url(place)
        self.place = str(self.url.set(drivername="postgresql") if self.is_server else self.url.database)
        self._lock_seconds = lock_seconds
        with self.errors():
            if not self.is_server:
                _write_ahead(self.place, lock_seconds)
            self.optuna = self._opened()
            self.engine = self.optuna.engine
            self._end = weakref.finalize(self, self.engine.dispose)
            self._check_version()

    @property
    def is_server(self) -> bool:
        """Whether it is a server, not a file."""
        return self.url.get_backend_name() != "sqlite"

    @property
    def now(self) -> Any:
        """The store's own clock in SQL, in seconds, so that clocks of machines need not agree."""
        if self.is_server:
            return sqlalchemy.func.extract("epoch", sqlalchemy.func.clock_timestamp()).cast(Double)
        return (sqlalchemy.func.julianday("now") - 2440587.5) * 86400.0

    def close(self) -> None:
        """Close all connections; a store that is no longer referenced does so by itself."""
        self._end()

    @contextmanager
    def errors(self) -> Generator[None]:
        """A context in which anything that goes wrong with the store becomes a `TuningError` of one line."""
        try:
            yield
        except (SQLAlchemyError, sqlite3.Error, optuna.exceptions.StorageInternalError) as error:
            raise TuningError(f"store {self.place}: {_reason(error)}") from error

    @contextmanager
    def transaction(self) -> Generator[sqlalchemy.Connection]:
        """A connection whose changes are all made, or none of them."""
        with self.errors(), self.engine.begin() as connection:
            yield connection

    @contextmanager
    def session(self) -> Generator[Session]:
        """The same as a session, to read and write Optuna's tables (`optuna_tables.py`)."""
        with self.errors(), Session(self.engine) as session, session.begin():
            yield session

    def time(self) -> float:
        """What the store's clock says, in seconds."""
        with self.transaction() as connection:
            return float(connection.scalar(sqlalchemy.select(self.now)) or 0.0)

    def insert(self, statement: Insert) -> bool:
        """Add a row; False if there is one with its key, which stays as it is."""
        try:
            with self.errors(), self.engine.begin() as connection:
                connection.execute(statement)
        except TuningError as error:
            if isinstance(error.__cause__, IntegrityError):
                return False
            raise
        return True

    def study_names(self) -> list[str]:
        """The studies that are in the store, by name."""
        with self.transaction() as connection:
            return list(connection.scalars(sqlalchemy.select(STUDIES.c.name).order_by(STUDIES.c.name)))

    def arms(self, study: str) -> tuple[Arm, ...]:
        """The arms of a study.

        Raises:
            TuningError: there is no such study.
        """
        stored = self._stored(study)
        if stored is None:
            names = ", ".join(self.study_names()) or "none"
            raise TuningError(f"store {self.place} has no study {study!r}; there are: {names}")
        try:
            return tuple(Arm.from_json(values) for values in stored)
        except RnnlabError as error:
            raise TuningError(f"study {study!r} cannot be read: {error}") from error

    def require_same_tasks(self, study: str, arms: Sequence[Arm]) -> None:
        """Refuse to continue arms whose task's files were edited since they were stored.

        Raises:
            TuningError: naming the file.
        """
        stored = {values["name"]: values for values in self._stored(study) or ()}
        for arm in arms:
            if arm.name in stored and _task_differs(stored[arm.name]["task"], there := arm.to_json()["task"]):
                raise TuningError(
                    f"study {study!r} in {self.place}: arm {arm.name} differs in task: {there['name']}, or a file "
                    "that it reads, was edited since; undo that, or choose another name"
                )

    def add_study(self, name: str, arms: Sequence[Arm], *, may_gain_arms: bool = False) -> None:
        """Add a study, or find it as it is; its budgets may have grown.

        Args:
            name: of the study.
            arms: all of them.
            may_gain_arms: whether `arms` may go on after those of a study that is there.

        Raises:
            TuningError: a study of that name exists with other arms.
        """
        check_name("a study", name)
        if not arms or len({arm.name for arm in arms}) < len(arms):
            raise TuningError(f"a study has arms, each with a name of its own, got {[arm.name for arm in arms]}")
        values = [arm.to_json() for arm in arms]
        stored = self._stored(name)
        if stored is not None:
            self._check_same(name, stored, values, may_gain_arms)
        for arm in arms:
            self._add_arm(name, arm)
        # the study comes last: whoever sees its name, or a new arm in it, may read its arms at once
        if not self.insert(STUDIES.insert().values(name=name, arms=json.dumps(values))):
            self._grow(name, values, may_gain_arms)

    def study_id(self, study: str, arm: str) -> int:
        """Optuna's number of an arm."""
        with self.errors():
            return self.optuna.get_study_id_from_name(f"{study}/{arm}")

    def _stored(self, study: str) -> list[dict[str, Any]] | None:
        with self.transaction() as connection:
            found = connection.scalar(sqlalchemy.select(STUDIES.c.arms).where(STUDIES.c.name == study))
        return None if found is None else json.loads(found)

    def _check_same(
        self, name: str, stored: list[dict[str, Any]], values: list[dict[str, Any]], may_gain_arms: bool
    ) -> None:
        if difference := _difference(stored, values, may_gain_arms):
            raise TuningError(f"study {name!r} in {self.place} is another one: {difference}; choose another name")

    def _grow(self, name: str, values: list[dict[str, Any]], may_gain_arms: bool) -> None:
        stored = self._stored(name) or []
        self._check_same(name, stored, values, may_gain_arms)
        if stored != values:
            with self.transaction() as connection:
                connection.execute(STUDIES.update().where(STUDIES.c.name == name).values(arms=json.dumps(values)))

    def _add_arm(self, study: str, arm: Arm) -> None:
        directions = optuna.study.StudyDirection
        direction = directions.MAXIMIZE if arm.is_maximised else directions.MINIMIZE
        with self.errors(), no_announcements():
            try:
                number = self.optuna.create_new_study([direction], f"{study}/{arm.name}")
            except optuna.exceptions.DuplicatedStudyError:
                number = self.study_id(study, arm.name)
            attributes = {"rnnlab version": VERSION, "study": study, "score": arm.score.name, "arm": arm.to_json()}
            known = self.optuna.get_study_user_attrs(number)
            for key, value in attributes.items():
                if known.get(key) != value:
                    self.optuna.set_study_user_attr(number, key, value)

    def _opened(self) -> RDBStorage:
        """Optuna's tables and ours, created if they are missing.

        Processes that begin at once may both try to create them: the slower one finds them at its next attempt.
        """
        for attempt in range(ATTEMPTS):
            try:
                return self._made()
            except (SQLAlchemyError, AssertionError) as error:  # Optuna asserts what another has not written yet
                if attempt == ATTEMPTS - 1 or not _is_race(error):
                    raise
                time.sleep(0.1 * 2**attempt)
        raise AssertionError("the last attempt returns or raises")

    def _made(self) -> RDBStorage:
        text = self.url.render_as_string(hide_password=False)
        try:
            engine = sqlalchemy.create_engine(text, **self._engine_options())
        except ImportError as error:
            raise TuningError("a PostgreSQL store needs psycopg: pip install rnnlab[postgres]") from error
        try:
            storage = RDBStorage(text, engine_kwargs={"pool": engine.pool})
            _TABLES.create_all(storage.engine)
            return storage
        except RuntimeError as error:  # what Optuna says of tables of another version
            engine.dispose()
            raise TuningError(f"store {self.place}: {' '.join(str(error).split())}") from error
        except SQLAlchemyError:
            engine.dispose()
            raise

    def _engine_options(self) -> dict[str, Any]:
        if self.is_server:
            return {"pool_pre_ping": True, "connect_args": {"connect_timeout": CONNECT_SECONDS}}
        return {"connect_args": {"timeout": self._lock_seconds}}

    def _check_version(self) -> None:
        with self.transaction() as connection:
            found = list(connection.scalars(sqlalchemy.select(VERSIONS.c.version)))
        if not found:
            self.insert(VERSIONS.insert().values(version=VERSION))
        elif found != [VERSION]:
            raise TuningError(
                f"store {self.place} has version {found[0]}, this rnnlab reads version {VERSION}: "
                "use the rnnlab that made it, or another store"
            )


def _url(place: str | Path) -> sqlalchemy.URL:
    text = str(place)
    if "://" not in text:
        return sqlalchemy.URL.create("sqlite", database=text)
    try:
        url = sqlalchemy.make_url(text)
    except SQLAlchemyError as error:
        raise TuningError(f"a store is a file or postgresql://USER@HOST/NAME, got {text!r}") from error
    backend = url.get_backend_name()
    if backend == "postgresql":
        return url.set(drivername="postgresql+psycopg")
    if backend == "sqlite" and url.database:
        return url
    raise TuningError(f"a store is a file or postgresql://USER@HOST/NAME, got {backend}")


def _write_ahead(path: str, lock_seconds: float) -> None:
    """Make the file, or find it, and have it written ahead, which it stays."""
    folder = Path(path).absolute().parent
    if not folder.is_dir():
        raise TuningError(f"store {path}: there is no folder {folder}")
    connection = sqlite3.connect(path, timeout=lock_seconds)
    try:
        for attempt in range(ATTEMPTS):
            try:
                connection.execute("PRAGMA journal_mode=WAL").fetchone()
                return
            except sqlite3.OperationalError as error:  # another process does the same, and SQLite does not wait for it
                if attempt == ATTEMPTS - 1 or "locked" not in str(error):
                    raise
                time.sleep(0.1 * 2**attempt)
    finally:
        connection.close()


def _difference(stored: list[dict[str, Any]], values: list[dict[str, Any]], may_gain_arms: bool) -> str | None:
    """Why stored arms are not those wanted; budgets that have grown are no reason."""
    names, wanted = [arm["name"] for arm in stored], [arm["name"] for arm in values]
    if may_gain_arms and (missing := [name for name in names if name not in wanted]):
        return f"it has {', '.join(missing)} too, and arms can be added but not left out"
    if names != (wanted[: len(names)] if may_gain_arms else wanted):
        return f"its arms are {', '.join(names)}, not {', '.join(wanted)}"
    for there, here in zip(stored, values, strict=not may_gain_arms):
        if keys := [key for key in here if key != "num_trials" and _is_other(key, there.get(key), here[key])]:
            return f"arm {here['name']} differs in {' and '.join(_in_words(key, there, here) for key in keys)}"
        if there["num_trials"] > here["num_trials"]:
            return f"arm {here['name']} has {there['num_trials']} trials, which cannot become {here['num_trials']}"
    return None


def _is_other(key: str, there: Any, here: Any) -> bool:
    return _task_differs(there, here) if key == "task" else there != here


def _in_words(key: str, there: Mapping[str, Any], here: Mapping[str, Any]) -> str:
    """What differs; of a task from a file perhaps only what stands in the file."""
    one, other = there.get(key), here[key]
    if key == "task" and one is not None and {**one, DIGEST: ""} == {**other, DIGEST: ""}:
        return f"task: {one['name']}, or a file that it reads, was edited since"
    return key


def _task_differs(there: Mapping[str, Any], here: Mapping[str, Any]) -> bool:
    """Whether two tasks have different arguments, or files of different content; the same file may have moved."""
    if DIGEST in there and DIGEST in here:
        return {**there, "name": Path(there["name"]).name} != {**here, "name": Path(here["name"]).name}
    # older stores do not know the content of files
    one, other = ({key: value for key, value in each.items() if key != DIGEST} for each in (there, here))
    return one != other


def _is_race(error: Exception) -> bool:
    """Whether another process created a table, or a row of it, a moment earlier."""
    text = str(error).lower()
    return isinstance(error, AssertionError) or any(
        words in text for words in ("already exists", "unique constraint", "duplicate key", "is locked")
    )


_REASONS = {
    "database is locked": "it is locked by another process that writes to it: wait for that one, or end it",
    "database or disk is full": "the disk is full; everything recorded before is intact",
    "no space left on device": "the disk is full; everything recorded before is intact",
    "disk i/o error": "the disk cannot be read or written; is it full?",
    "unable to open database file": "the file cannot be opened",
    "file is not a database": "the file is no SQLite database",
    "readonly database": "the file can be read, but not written",
}


def _reason(error: BaseException) -> str:
    """What went wrong, in one line."""
    inner = error.__cause__ if isinstance(error, optuna.exceptions.StorageInternalError) and error.__cause__ else error
    text = str(getattr(inner, "orig", None) or inner)
    for words, reason in _REASONS.items():
        if words in text.lower():
            return reason
    return " ".join(text.split())[:300]
