"""Checks of what stands behind the keys of a specification; each error names the key."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from rnnlab.errors import TuningError
from rnnlab.hints import hint
from rnnlab.integers import as_integer


def check_keys(where: str, values: Any, known: Collection[str]) -> None:
    """Refuse what is no table, and keys that are not known, with the nearest match.

    >>> check_keys("the specification", {"trails": 3}, ("trials", "seeds"))
    Traceback (most recent call last):
    rnnlab.errors.TuningError: the specification has no key 'trails'; did you mean 'trials'?
    """
    if not isinstance(values, Mapping):
        raise TuningError(f"{where} is a table of keys and values, got {values!r}"[:300])
    for key in values:
        if key not in known:
            raise TuningError(f"{where} has no key {key!r}; {hint(key, known)}")


def many(value: Any) -> tuple[Any, ...]:
    """One value, or those of a list."""
    return tuple(value) if isinstance(value, Sequence) and not isinstance(value, str) else (value,)


def texts(key: str, value: Any) -> tuple[str, ...]:
    """One text, or those of a list."""
    found = many(value)
    if not all(isinstance(each, str) and each for each in found):
        raise TuningError(f"{key} is a name or a list of names, got {value!r}"[:300])
    return found


def whole(key: str, value: Any, lowest: int) -> int:
    """An integer of at least `lowest`."""
    return as_integer(value, key, TuningError, lowest)


def wholes(key: str, value: Any) -> tuple[int, ...]:
    """One integer above 0, or those of a list."""
    return tuple(whole(key, each, 1) for each in many(value))


def chosen(key: str, value: Any, choices: Collection[str]) -> str:
    """One of some words."""
    if value not in choices:
        raise TuningError(f"{key} is {' or '.join(choices)}, got {value!r}")
    return value


def table(key: str, value: Any) -> dict[str, Any]:
    """Values by name."""
    if not isinstance(value, Mapping) or not all(isinstance(name, str) for name in value):
        raise TuningError(f"{key} is a table of names and values, got {value!r}"[:300])
    return dict(value)


def tables(key: str, value: Any) -> tuple[dict[str, Any], ...]:
    """A list of tables."""
    if not isinstance(value, Sequence) or isinstance(value, str) or not value:
        raise TuningError(f"{key} is a list of tables, got {value!r}"[:300])
    return tuple(table(f"{key}[{number}]", each) for number, each in enumerate(value))
