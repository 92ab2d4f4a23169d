"""What to tune, as the command line gives it: a search space and the hyperparameters that are not tuned."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rnnlab.errors import TuningError
from rnnlab.tasks.registry import parse_arguments
from rnnlab.training.hyperparameters import Hyperparameters
from rnnlab.training.words import members_from_words
from rnnlab.tuning.space import SearchSpace, load_space
from rnnlab.tuning.trials import Trial
from rnnlab.tuning.tune import Tuning


def space_from_words(written: str | None) -> SearchSpace | str | None:
    """A search space as a user writes it: the name of a paper's, or a TOML or JSON file; None for the default.

    >>> space_from_words("zhang")
    'zhang'
    """
    if written is not None and (Path(written).suffix in (".toml", ".json") or "/" in written):
        return load_space(written)
    return written


def base_from_words(words: Sequence[str]) -> dict[str, Any]:
    """The hyperparameters that all trials share, by name.

    >>> base_from_words(["num_steps=500", "batch_size=20"])
    {'num_steps': 500, 'batch_size': 20}
    >>> base_from_words(["l2=0,1"])
    Traceback (most recent call last):
    rnnlab.errors.TuningError: a hyperparameter that is not tuned has one value for all trials, got l2=0,1
    """
    found = members_from_words(words)
    if isinstance(found, Hyperparameters):
        return parse_arguments([f"--{word}" for word in words])
    lists = [word for word in words if "," in word]
    raise TuningError(f"a hyperparameter that is not tuned has one value for all trials, got {' '.join(lists)}")


def tuning_to_json(tuning: Tuning) -> dict[str, Any]:
    """What came of tuning, for a program to read."""
    best: Trial | None = tuning.best
    return {
        "study": tuning.name,
        "store": tuning.store,
        "is_complete": tuning.is_complete,
        "score": tuning.arm.score.name,
        "better": tuning.arm.score.better,
        "best": None if best is None else best.row() | {"hyperparameters": best.hyperparameters.to_json()},
        "trials": tuning.rows,
    }
