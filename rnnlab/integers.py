"""Integers as users hand them in: Python's and numpy's alike are checked and become Python's."""

import operator
from typing import Any

from rnnlab.errors import RnnlabError


def as_integer(value: Any, what: str, error: type[RnnlabError], least: int | None = None, *, bits: int = 63) -> int:
    """The plain integer that a value is, since a file knows no others; False and True are none.

    Args:
        value: what was given.
        what: its name in the message.
        error: what is raised if it is no such integer.
        least: its lowest value.
        bits: its size stays below 2**bits; by default it fits where torch and numpy take an integer.

    >>> from rnnlab.errors import TaskError
    >>> as_integer(1.5, "length", TaskError, 2)
    Traceback (most recent call last):
    rnnlab.errors.TaskError: length must be an integer of at least 2, got 1.5
    """
    try:
        found = None if isinstance(value, bool) else operator.index(value)
    except TypeError:
        found = None
    if found is None or (least is not None and found < least):
        wanted = "an integer" if least is None else f"an integer of at least {least}"
        raise error(f"{what} must be {wanted}, got {value!r}"[:300])
    if abs(found) >= 2**bits:
        raise error(f"{what} must be below 2**{bits} in size, got {value!r}"[:300])
    return found


def keep_integers(owner: object, error: type[RnnlabError], **least: int) -> None:
    """Check fields of a frozen dataclass, given by name with their lowest values, and keep them as plain integers."""
    for name, lowest in least.items():
        object.__setattr__(owner, name, as_integer(getattr(owner, name), name, error, lowest))
