"""The specifications of studies in a table of their store: what each was made from, and the labels of its arms."""

import json
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sqlalchemy

from rnnlab.errors import TuningError
from rnnlab.studies.specification import StudySpec
from rnnlab.tuning.store import SPECS, Store


@dataclass(frozen=True)
class StoredSpec:
    """What is stored about a specification.

    Args:
        spec: the specification.
        labels: of each arm, by its name.
    """

    spec: StudySpec
    labels: Mapping[str, Mapping[str, Any]]

    def to_json(self) -> dict[str, Any]:
        """All of it."""
        return {"spec": self.spec.to_json(), "labels": {arm: dict(labels) for arm, labels in self.labels.items()}}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> "StoredSpec":
        """What `to_json` gave."""
        return cls(StudySpec.from_json(values["spec"]), values["labels"])


@contextmanager
def opened(store: Store | str | Path) -> Generator[Store]:
    """A store to read from: an open one, or one that must exist, and is closed afterwards.

    Raises:
        TuningError: it does not exist; reading does not create one.
    """
    if isinstance(store, Store):
        yield store
        return
    if not is_there(store):
        raise TuningError(f"there is no store {store}; say where it is with --store, or store=")
    place = Store(store)
    try:
        yield place
    finally:
        place.close()


def is_there(store: str | Path) -> bool:
    """Whether a store exists: a file, or a server, which reports problems itself."""
    return "://" in str(store) or Path(store).exists()


def keep_spec(store: Store, study: str, stored: StoredSpec) -> None:
    """Store a specification, replacing an older one: the study was found to be the same."""
    content = json.dumps(stored.to_json())
    if not store.insert(SPECS.insert().values(study=study, content=content)):
        with store.transaction() as connection:
            connection.execute(SPECS.update().where(SPECS.c.study == study).values(content=content))


def read_spec(store: Store, study: str) -> StoredSpec | None:
    """The specification of a study; None if it was made without one, as by `tune`."""
    with store.transaction() as connection:
        content = connection.scalar(sqlalchemy.select(SPECS.c.content).where(SPECS.c.study == study))
    return None if content is None else StoredSpec.from_json(json.loads(content))
