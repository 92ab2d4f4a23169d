"""The folders in which data files are looked for: RNNLAB_DATA, and those that `rnnlab data add` remembers."""

import json
import os
import sys
from pathlib import Path

from rnnlab.errors import TaskError

VARIABLE = "RNNLAB_DATA"


def data_folders() -> tuple[Path, ...]:
    """Where data files are looked for, in this order: the folder that RNNLAB_DATA names, and the remembered ones.

    Raises:
        TaskError: RNNLAB_DATA names no folder, or the file of remembered folders is garbled.
    """
    named = os.environ.get(VARIABLE)
    if not named:
        return remembered_folders()
    folder = Path(named).expanduser().absolute()
    if not folder.is_dir():
        raise TaskError(f"{VARIABLE} is {named}, and there is no such folder; set it to the folder of the data files")
    return (folder, *(other for other in remembered_folders() if other != folder))


def remembered_folders() -> tuple[Path, ...]:
    """The folders that `remember_folder` was given, in that order; some may be gone by now."""
    path = configuration_file()
    try:
        written = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return ()
    except OSError as error:
        raise TaskError(f"cannot read {path}: {error.strerror}") from error
    except ValueError as error:
        raise TaskError(f"{path} is not JSON: {error}; remove it and add the data folders again") from error
    folders = written.get("folders") if isinstance(written, dict) else None
    if not isinstance(folders, list) or not all(isinstance(folder, str) for folder in folders):
        raise TaskError(f"{path} must hold a list of folders; remove it and add the data folders again")
    return tuple(Path(folder) for folder in folders)


def remember_folder(folder: Path) -> None:
    """Look for data files in this folder from now on, in every program of this user."""
    known = remembered_folders()
    if folder in known:
        return
    path = configuration_file()
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps({"folders": [str(each) for each in (*known, folder)]}, indent=2)
    draft = path.with_name(f"{path.name}.{os.getpid()}")  # whole or not at all, also when stopped half-way
    draft.write_text(text + "\n", encoding="utf-8")
    draft.replace(path)


def configuration_file() -> Path:
    """The user's file of remembered folders."""
    return _configuration_folder() / "rnnlab" / "data.json"


def _configuration_folder() -> Path:
    if sys.platform == "win32":
        return Path(os.environ.get("APPDATA", Path.home() / "AppData" / "Roaming"))
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support"
    given = os.environ.get("XDG_CONFIG_HOME", "")
    # the XDG specification: a relative path is to be ignored
    return Path(given) if Path(given).is_absolute() else Path.home() / ".config"
