"""Where the populations of a study are saved while they are trained, so that any worker can continue them.

    ROOT/STUDY/ARM/LOT/GENERATION/POPULATION/checkpoint.safetensors

Every owner of a lot saves in a folder of its own, which begins as a copy of the last owner's: one that was believed to
be dead, and is not, can do no harm. All are removed when the lot is finished.
"""

import os
import shutil
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote

from rnnlab.errors import TuningError
from rnnlab.training.checkpoints import FILE
from rnnlab.tuning.lots import Lot
from rnnlab.tuning.store import Store


def checkpoint_root(store: Store, folder: str | Path | None) -> Path:
    """Where checkpoints go: beside a SQLite file, in the current folder for a server, or in a given folder.

    Workers on several machines need a folder that all of them see; without one, what a lost worker had done is done
    again from its beginning.
    """
    if folder is not None:
        return Path(folder)
    return Path("rnnlab.checkpoints") if store.is_server else Path(f"{store.place}.checkpoints")


def study_folder(root: Path, study: str) -> Path:
    """Where a study's checkpoints are."""
    return root / quote(study, safe=" ")


def lot_folder(root: Path, lot: Lot) -> Path:
    """Where a lot's checkpoints are."""
    return study_folder(root, lot.study) / quote(lot.arm, safe=" ") / str(lot.number)


def population_folder(root: Path, lot: Lot, population: str) -> Path:
    """The folder of a population for the present owner of its lot, with the newest checkpoint of earlier ones.

    Args:
        root: where all checkpoints are.
        lot: which lot.
        population: a name for it, the same for every owner.

    Raises:
        TuningError: it cannot be written.
    """
    folder = lot_folder(root, lot)
    own = folder / str(lot.generation) / population
    earlier = (folder / str(generation) / population / FILE for generation in reversed(range(lot.generation)))
    found = next((path for path in earlier if path.exists()), None)
    if found is not None:
        try:
            own.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(found, own / f"{FILE}.copy")
            os.replace(own / f"{FILE}.copy", own / FILE)
        except OSError as error:
            raise TuningError(f"cannot copy {found} to {own}: {error.strerror}") from error
    return own


def has_checkpoint(folder: Path) -> bool:
    """Whether there is a checkpoint to continue from."""
    return (folder / FILE).exists()


def remove_folder(folder: Path) -> None:
    """Remove the checkpoints of a finished lot, or study; what cannot be removed stays, and does no harm."""
    shutil.rmtree(folder, ignore_errors=True)
    with suppress(OSError):  # the folder may still hold files of others
        folder.parent.rmdir()
