"""What somebody may have meant by a name that is not known."""

import difflib
from collections.abc import Collection


def nearest(name: object, known: Collection[str], *, least: float = 0.6) -> str | None:
    """The known name that is most like another one, upper and lower case aside; None if none is like it.

    Args:
        name: what was written.
        known: the names that there are.
        least: how alike two names must be, from 0 to 1.
    """
    spelt = {each.lower(): each for each in known}
    found = difflib.get_close_matches(str(name).lower(), spelt, n=1, cutoff=least)
    return spelt[found[0]] if found else None


def hint(name: object, known: Collection[str], where: str = "") -> str:
    """The end of an error about an unknown name: the nearest known one, or else all of them.

    Args:
        name: what was written.
        known: the names that there are.
        where: they are all shown, said in place of listing them.

    >>> hint("addign", ["adding", "copying"]), hint("x", ["adding", "copying"])
    ("did you mean 'adding'?", 'there are adding, copying')
    >>> hint("addign", ["adding", "copying"], "`rnnlab list tasks` shows all")
    "did you mean 'adding'? `rnnlab list tasks` shows all"
    """
    meant = nearest(name, known)
    if meant is None:
        return where or f"there are {', '.join(known) or 'none'}"
    return f"did you mean {meant!r}? {where}".rstrip()
