"""Keeps Optuna from announcing every study that it makes."""

from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def no_announcements() -> Generator[None]:
    """A context in which Optuna does not announce what it makes."""
    import optuna

    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        yield
    finally:
        optuna.logging.set_verbosity(before)
