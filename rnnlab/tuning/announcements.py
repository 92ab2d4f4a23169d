"""Optuna's announcements of every study that it makes, which nobody asked for."""

from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def no_announcements() -> Generator[None]:
    """Inside, Optuna does not announce what it makes."""
    import optuna

    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        yield
    finally:
        optuna.logging.set_verbosity(before)
