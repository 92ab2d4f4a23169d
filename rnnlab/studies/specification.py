"""What a study is: tasks, architectures, sizes, a search space and budgets, as one value read from a TOML or JSON file.

name, title           what it is called, and what it is about
paper                 what a paper reports of the experiment (`paper.py`)
task | tasks          a name, or a table with name and arguments; `each` holds lists of arguments to go through
architectures, cells  names of the catalogue, or files; each with each cell
depths, cells         in place of architectures: stacks of so many layers of each cell (C6)
parameters | units    sizes, one or a list; `fit`, `count` and `initial` as in `architecture` (C8, Z53)
space                 a paper's name, a file, or a table of dimensions; `base` and `without` change another space
sampler, sampler_options, hyperparameters, seed, path, precision, population
trials | budget       how many trials each arm has, or all together (C3)
seeds                 over how many seeds the best setting of each arm is trained again (C73)
finalists             how many of its best settings are; the best of them on validation, over its seeds, counts
arms                  a list of tables with any keys from task to trials, where one product does not do
scale                 `[scale.NAME]` tables override anything; `default` names the one that is meant
"""

import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from rnnlab.architecture.architecture import CATEGORIES
from rnnlab.errors import TuningError
from rnnlab.hints import hint
from rnnlab.studies.keys import check_keys, chosen, many, table, tables, texts, whole, wholes
from rnnlab.tuning.arms import check_name

MOST_SEEDS = 1000
SEEDS = " seeds"
"""How the names of second studies end, in which best settings are trained over seeds."""

_RIVALS = (("task", "tasks"), ("architectures", "depths"), ("parameters", "units"), ("trials", "budget"))
_MERGED = ("hyperparameters", "sampler_options")
_PRODUCT_KEYS = (
    *("task", "tasks", "architectures", "cells", "depths", "parameters", "units", "fit", "count", "initial"),
    *("space", "sampler", "sampler_options", "hyperparameters", "seed", "path", "precision", "population"),
    "trials",
)
_KEYS = ("name", "title", "paper", *_PRODUCT_KEYS, "budget", "seeds", "finalists", "arms", "scale")


@dataclass(frozen=True, kw_only=True)
class Product:
    """Lists of which every combination is an arm, and what these arms have in common.

    Args:
        label: what tells its arms from others that are alike otherwise; empty where nothing needs to.
        tasks: names and arguments.
        architectures: as for `find_architecture`; empty where there are depths.
        cells: of each architecture; empty where the names say it.
        depths: how many layers stacks have.
        parameters, units: sizes, of one kind; empty where files give them. Units may be given by node.
        fit, count, initial: as for `architecture`.
        space: a name, a file, or a table; None for the default.
        sampler, sampler_options: what suggests points.
        hyperparameters: those that are not tuned and have no default value.
        trials: of each arm; None where a budget decides, or a grid has an end.
        seed: of suggestions, networks and batches.
        path, precision: as in `train`.
        population: as in `Arm`.
    """

    label: str
    tasks: tuple[Mapping[str, Any], ...]
    architectures: tuple[str, ...]
    cells: tuple[str, ...]
    depths: tuple[int, ...]
    parameters: tuple[int, ...]
    units: tuple[int | Mapping[str, int], ...]
    fit: str
    count: tuple[str, ...]
    initial: str
    space: str | Mapping[str, Any] | None
    sampler: str
    sampler_options: Mapping[str, Any]
    hyperparameters: Mapping[str, Any]
    trials: int | None
    seed: int
    path: str
    precision: str
    population: int | None


@dataclass(frozen=True)
class StudySpec:
    """The specification of a study; `from_json` and `load_spec` make it.

    Args:
        document: all keys and values, at the chosen scale.
        folder: the folder in which files that it names are looked for.

    >>> spec = StudySpec.from_json({"name": "first", "task": "adding", "architectures": ["sh", "td"],
    ...                             "parameters": [1000, 10000], "trials": 20})
    >>> print(spec)
    study first
      architectures  sh, td
      parameters     1000, 10000
      task           adding
      trials         20
    """

    document: Mapping[str, Any]
    folder: Path = Path()

    def __post_init__(self) -> None:
        check_keys("the specification", self.document, _KEYS)
        try:
            # a copy of its own, with the types that JSON keeps
            object.__setattr__(self, "document", json.loads(json.dumps(self.document)))
        except TypeError as error:
            raise TuningError(f"the specification contains a value that cannot be written as JSON: {error}") from error
        if "name" not in self.document:
            raise TuningError("the specification lacks a name")
        check_name("a study", self.study)
        if self.study.endswith(SEEDS):
            raise TuningError(f"the name of a study may not end in {SEEDS!r}, got {self.study!r}")
        for key in ("title", "scale"):
            if not isinstance(self.document.get(key, ""), str):
                raise TuningError(f"{key} is a text, got {self.document[key]!r}"[:300])
        _check_rivals("the specification", self.document)
        if self.seeds > MOST_SEEDS:
            raise TuningError(f"seeds must be at most {MOST_SEEDS}, got {self.seeds}")
        if self.finalists > 1 and not self.seeds:
            raise TuningError(f"{self.finalists} finalists are compared over seeds: give seeds, or leave finalists out")
        if self.budget is not None and any("trials" in each for each in self.document.get("arms", ())):
            raise TuningError("give a budget for all arms, or trials of each; got both")
        _ = self.products  # to read them is to check them

    @property
    def name(self) -> str:
        """The name as in the file, without a scale."""
        return self.document["name"]

    @property
    def title(self) -> str:
        """A line about its subject."""
        return self.document.get("title", "")

    @property
    def scale(self) -> str | None:
        """Its scale; None if it has no scales."""
        return self.document.get("scale")

    @property
    def study(self) -> str:
        """Its name in a store: NAME, or NAME-SCALE."""
        name = self.document["name"]
        return name if self.scale is None or not isinstance(name, str) else f"{name}-{self.scale}"

    @property
    def budget(self) -> int | None:
        """How many trials all arms have together; None if each has its own number."""
        return whole("budget", self.document["budget"], 1) if "budget" in self.document else None

    @property
    def seeds(self) -> int:
        """Over how many seeds the best setting of each arm is trained again."""
        return whole("seeds", self.document.get("seeds", 0), 0)

    @property
    def finalists(self) -> int:
        """How many of the best settings of each arm are trained over seeds, so that luck in tuning does not decide."""
        return whole("finalists", self.document.get("finalists", 1), 1)

    @property
    def products(self) -> tuple[Product, ...]:
        """The products of lists that the arms are made from."""
        shared = {key: value for key, value in self.document.items() if key in _PRODUCT_KEYS}
        if "arms" not in self.document:
            return (_product("the specification", shared),)
        found: list[Product] = []
        for number, values in enumerate(tables("arms", self.document["arms"])):
            where = f"arms[{number}]"
            check_keys(where, values, (*_PRODUCT_KEYS, "label"))
            found.append(_product(where, overridden(shared, values)))
        return tuple(found)

    def __str__(self) -> str:
        hidden = ("name", "title", "scale", "arms", "paper")
        rows = {key: value for key, value in self.document.items() if key not in hidden}
        rows |= {f"arms[{number}]": value for number, value in enumerate(self.document.get("arms", ()))}
        width = max(len(key) for key in rows)
        lines = [f"study {self.study}" + (f": {self.title}" if self.title else "")]
        return "\n".join([*lines, *(f"  {key:<{width}}  {_shown(rows[key])}" for key in sorted(rows))])

    def to_json(self) -> dict[str, Any]:
        """All keys and values; `from_json` reads them back."""
        return json.loads(json.dumps(self.document))

    @classmethod
    def from_json(cls, values: Any, *, scale: str | None = None, folder: str | Path = ".") -> "StudySpec":
        """A specification from keys and values as in a file.

        Args:
            values: the values by key.
            scale: which of its scales; by default the default one.
            folder: the folder in which files that it names are looked for.

        Raises:
            TuningError: naming the key that is wrong.
        """
        check_keys("the specification", values, _KEYS)
        documents = scaled(values)
        wanted = scale if scale is not None else default_scale(values)
        if wanted not in documents:
            known = [each for each in documents if each]
            raise TuningError(f"the specification has no scale {wanted!r}; {hint(wanted, known)}")
        specs = {each: cls(document, Path(folder)) for each, document in documents.items()}
        return specs[wanted]


def load_spec(path: str | Path, *, scale: str | None = None) -> StudySpec:
    """The specification in a TOML or JSON file, at one of its scales.

    Raises:
        TuningError: the file cannot be read, or a key in it is wrong.
    """
    path = Path(path)
    try:
        return StudySpec.from_json(read_document(path), scale=scale, folder=path.parent)
    except TuningError as error:
        raise TuningError(f"{path}: {error}") from error


def read_document(path: Path) -> Any:
    """What a TOML or JSON file holds."""
    try:
        text = path.read_text()
        return json.loads(text) if path.suffix == ".json" else tomllib.loads(text)
    except OSError as error:
        raise TuningError(f"cannot be read: {error.strerror}") from error
    except ValueError as error:
        kind = "JSON" if path.suffix == ".json" else "TOML"
        raise TuningError(f"is not valid {kind}: {error}") from error


def default_scale(values: Mapping[str, Any]) -> str | None:
    """The scale that is used unless another one is chosen."""
    scale = values.get("scale")
    if not isinstance(scale, Mapping):
        return scale
    if "default" not in scale and len(scale) == 1:
        return next(iter(scale))
    if "default" not in scale:
        raise TuningError(f"the specification has the scales {', '.join(scale)}: say which, or give scale.default")
    return scale["default"]


def scaled(values: Mapping[str, Any]) -> dict[str | None, dict[str, Any]]:
    """The keys and values at each scale, by its name; without scales there is only None.

    >>> scaled({"trials": 100, "scale": {"smoke": {"trials": 2}, "default": "smoke"}})
    {'smoke': {'trials': 2, 'scale': 'smoke'}}
    """
    rest = {key: value for key, value in values.items() if key != "scale"}
    scale = values.get("scale")
    if not isinstance(scale, Mapping):
        return {scale: dict(values)}
    found: dict[str | None, dict[str, Any]] = {}
    for name, changes in scale.items():
        if name != "default":
            check_keys(f"scale.{name}", changes, tuple(key for key in _KEYS if key not in ("name", "scale")))
            found[name] = overridden(rest, changes) | {"scale": name}
    return found


def overridden(values: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Values with changes: a key that a change rules out is dropped, and hyperparameters are changed one by one.

    >>> overridden({"units": 64, "hyperparameters": {"l2": 0.1, "momentum": 0.5}},
    ...            {"parameters": 1000, "hyperparameters": {"l2": 0.2}})
    {'hyperparameters': {'l2': 0.2, 'momentum': 0.5}, 'parameters': 1000}
    """
    gone = {key for pair in _RIVALS for key in pair if set(pair) & changes.keys() and key not in changes}
    kept = {key: value for key, value in values.items() if key not in gone}
    merged = {
        key: table(key, kept[key]) | table(key, changes[key]) for key in _MERGED if kept.keys() & {key} & {*changes}
    }
    return kept | dict(changes) | merged


def _product(where: str, values: Mapping[str, Any]) -> Product:
    _check_rivals(where, values)
    if "task" not in values and "tasks" not in values:
        raise TuningError(f"{where} lacks a task")
    if not values.get("architectures") and not values.get("depths"):
        raise TuningError(f"{where} lacks architectures, or depths of stacks")
    if "depths" in values and not values.get("cells"):
        raise TuningError(f"{where} has depths, but no cells to make stacks of")
    return Product(
        label=_text("label", values.get("label", "")),
        tasks=_tasks(values),
        architectures=texts("architectures", values.get("architectures", ())),
        cells=texts("cells", values.get("cells", ())),
        depths=wholes("depths", values.get("depths", ())),
        parameters=wholes("parameters", values.get("parameters", ())),
        units=_units(values.get("units", ())),
        fit=chosen("fit", values.get("fit", "under"), ("under", "nearest")),
        count=tuple(chosen("count", each, CATEGORIES) for each in texts("count", values.get("count", CATEGORIES))),
        initial=chosen("initial", values.get("initial", "learned"), ("learned", "zero")),
        space=_space(values.get("space")),
        sampler=_text("sampler", values.get("sampler", "gp")),
        sampler_options=table("sampler_options", values.get("sampler_options", {})),
        hyperparameters=table("hyperparameters", values.get("hyperparameters", {})),
        trials=whole("trials", values["trials"], 1) if "trials" in values else None,
        seed=whole("seed", values.get("seed", 0), 0),
        path=_text("path", values.get("path", "auto")),
        precision=_text("precision", values.get("precision", "float32")),
        population=whole("population", values["population"], 1) if "population" in values else None,
    )


def _check_rivals(where: str, values: Mapping[str, Any]) -> None:
    for one, other in _RIVALS:
        if one in values and other in values:
            raise TuningError(f"{where} has both {one} and {other}: give one of them")


def _tasks(values: Mapping[str, Any]) -> tuple[dict[str, Any], ...]:
    """Names and arguments of all tasks: one task for every combination of the values in `each`."""
    key = "task" if "task" in values else "tasks"
    written = (values["task"],) if key == "task" else many(values["tasks"])
    found: list[dict[str, Any]] = []
    for entry in written:
        row = {"name": entry} if isinstance(entry, str) else table(key, entry)
        if not isinstance(row.get("name"), str):
            raise TuningError(f"{key} is a name, or a table with a name and arguments, got {entry!r}"[:300])
        each = {name: many(value) for name, value in table(f"{key}.each", row.pop("each", {})).items()}
        found += [row | dict(zip(each, combination, strict=True)) for combination in product(*each.values())]
    return tuple(found)


def _units(value: Any) -> tuple[int | dict[str, int], ...]:
    written: Sequence[Any] = (value,) if isinstance(value, Mapping) else many(value)
    return tuple(
        {name: whole(f"units.{name}", width, 1) for name, width in each.items()}
        if isinstance(each, Mapping)
        else whole("units", each, 1)
        for each in written
    )


def _space(value: Any) -> str | dict[str, Any] | None:
    if value is None or isinstance(value, str):
        return value
    return table("space", value)


def _text(key: str, value: Any) -> str:
    if not isinstance(value, str):
        raise TuningError(f"{key} is a text, got {value!r}"[:300])
    return value


def _shown(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key}={_shown(inner)}" for key, inner in value.items())
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ", ".join(_shown(inner) for inner in value)
    return str(value)
