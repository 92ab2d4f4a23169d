"""The `[paper]` table of a specification: what the paper reports of an experiment, what it claims, where ours differs.

source       which table or figure of which paper
form         which figures the report draws, one of FORMS
unit         of the paper's numbers, unless a number has its own
numbers      the paper's values: value, where, requirement; also unit, quantity, row, column, at, certainty, about
quoted       values of other models beside the paper's own: model, value, column, requirement; certainty, about
claims       text and requirement; where it can be checked: better and worse, or near, to and margin, or where with
             low and high, or explained_by and rather_than
deviations   text; scales, where it does not hold for all
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rnnlab.errors import TuningError
from rnnlab.studies.keys import check_keys, chosen, table, tables, texts
from rnnlab.studies.specification import StudySpec

FORMS = (
    *("capacity", "memory", "sizes", "tuning", "random", "robustness"),  # Collins et al.
    *("table", "skips", "lengths"),  # Zhang et al., Pascanu et al.
    "losses",  # Mongia
)
"""The forms of figures, each as its paper has it."""

QUANTITIES = {
    "score": "the mean over seeds on test data, or the best trial's score where nothing was trained over seeds",
    "best": "the score of tuning's best trial on test data",
    "median": "the median of all trials on test data",
    "average": "the mean of all trials on test data",
    "infeasible": "the percentage of trials that diverged",
    "repeat_infeasible": "the percentage of seeds that diverged",
    "least": "the smallest score over seeds",
    "mean": "the mean over seeds",
    "most": "the largest score over seeds",
    "deviation": "the standard deviation over seeds",
    "relative_deviation": "the standard deviation over seeds, divided by the mean",
    "course": "the mean of the score on validation over the steps of training, a mean over seeds",
    "bits_per_parameter": "the most bits that any trial has stored, over the number of parameters",
    "bits_per_parameter_of_relu": "the same of the trials whose nonlinearity is ReLU",
    "share_of_relu": "the most bits that a trial with ReLU has stored, as a share of the most that any trial has",
    "labels_per_bit": "how many labels the trial that stored most was given for each of its bits",
    "off_curve": "the score less 1 - units / inputs, what of its inputs a layer of so few units must lose",
}
"""What a number of ours can be, by name."""

CERTAINTIES = {
    "stated": "the paper's own text",
    "second-hand": "taken from notes that quote the paper's table",
    "recollected": "written down from memory, not checked against the paper",
}
"""How sure a number of a paper is."""

LABELS = ("task", "architecture", "cell", "depth", "parameters", "units", "label")
SIZES = ("parameters", "units")
"""What may explain scores: how many numbers a network has, or how many units a layer."""

Where = Mapping[str, tuple[Any, ...]]
"""Which arms: of each label the values that will do."""


@dataclass(frozen=True, kw_only=True)
class PaperNumber:
    """A value that a paper reports.

    Args:
        value: as printed.
        unit: as in the paper.
        where: the arm that it is of.
        requirement: its number among the papers' elements.
        quantity: what of ours it stands beside, one of QUANTITIES.
        row, column: its place in the paper's table; empty where it stands in none.
        at: its place on the x axis of the paper's figure, where it has one.
        certainty: one of CERTAINTIES.
        is_about: whether the paper gives it as approximate.
    """

    value: float
    unit: str
    where: Where
    requirement: str
    quantity: str
    row: str
    column: str
    at: float | None
    certainty: str
    is_about: bool


@dataclass(frozen=True, kw_only=True)
class QuotedNumber:
    """A value of another model that a paper sets beside its own; it is not trained here.

    Args:
        model: which, with its source.
        value: as printed.
        column: its place in the paper's table.
        requirement: its number among the papers' elements.
        certainty: one of CERTAINTIES.
        is_about: whether the paper gives it as approximate.
    """

    model: str
    value: float
    column: str
    requirement: str
    certainty: str
    is_about: bool


@dataclass(frozen=True, kw_only=True)
class Claim:
    """What a paper says of an experiment, and one of four ways to check it, or none.

    Args:
        text: in our words.
        requirement: its number among the papers' elements.
        quantity: what is looked at, one of QUANTITIES.
        better, worse: every arm of the one is better than every arm of the other.
        near, to, margin: every arm of the one is as good as every arm of the other, but for less than the margin.
        within: labels that both must have in common to be set against each other.
        where, low, high: these arms lie between these values.
        explained_by, rather_than: of SIZES the one that a power law makes more of the arms' differences with.
    """

    text: str
    requirement: str
    quantity: str
    better: Where
    worse: Where
    within: tuple[str, ...]
    where: Where
    low: float | None
    high: float | None
    near: Where = field(default_factory=dict)
    to: Where = field(default_factory=dict)
    margin: float = 0.0
    explained_by: str = ""
    rather_than: str = ""

    @property
    def can_be_checked(self) -> bool:
        """Whether records can say if it holds."""
        return bool(self.better or self.near or self.where or self.explained_by)


@dataclass(frozen=True, kw_only=True)
class Deviation:
    """How our protocol differs from the paper's.

    Args:
        text: in which way, and why.
        scales: at which scales; empty for all.
    """

    text: str
    scales: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Paper:
    """What a paper says of an experiment.

    Args:
        source: which table or figure of which paper.
        form: of the figures, one of FORMS.
        numbers, quoted, claims, deviations: see above.
    """

    source: str
    form: str
    numbers: tuple[PaperNumber, ...]
    quoted: tuple[QuotedNumber, ...]
    claims: tuple[Claim, ...]
    deviations: tuple[Deviation, ...]

    def deviations_at(self, scale: str | None) -> tuple[str, ...]:
        """What differs at a scale."""
        return tuple(each.text for each in self.deviations if not each.scales or scale in each.scales)


def read_paper(spec: StudySpec | None) -> Paper | None:
    """The `[paper]` table of a specification; None where it has none.

    Raises:
        TuningError: naming the key that is wrong.

    >>> spec = StudySpec.from_json({"name": "first", "task": "adding", "architectures": ["sh"], "units": 4, "trials": 1,
    ...     "paper": {"source": "Doe 2020, table 1", "form": "table", "unit": "MSE",
    ...               "numbers": [{"value": 0.1, "where": {"architecture": "sh"}, "requirement": "Z69"}]}})
    >>> number = read_paper(spec).numbers[0]
    >>> number.value, number.unit, number.where
    (0.1, 'MSE', {'architecture': ('sh',)})
    """
    if spec is None or "paper" not in spec.document:
        return None
    values = table("paper", spec.document["paper"])
    check_keys("paper", values, ("source", "form", "unit", "numbers", "quoted", "claims", "deviations"))
    unit = _text("paper", values, "unit", "")
    return Paper(
        source=_text("paper", values, "source"),
        form=chosen("paper.form", values.get("form"), FORMS),
        numbers=tuple(_number(where, row, unit) for where, row in _rows(values, "numbers")),
        quoted=tuple(_quoted(where, row) for where, row in _rows(values, "quoted")),
        claims=tuple(_claim(where, row) for where, row in _rows(values, "claims")),
        deviations=tuple(_deviation(where, row) for where, row in _rows(values, "deviations")),
    )


def _rows(values: Mapping[str, Any], key: str) -> list[tuple[str, dict[str, Any]]]:
    """The tables of a list, each with what errors call it."""
    written = values.get(key, ())
    found = tables(f"paper.{key}", written) if written else ()
    return [(f"paper.{key}[{number}]", row) for number, row in enumerate(found)]


_PLACE = ("value", "column", "requirement", "certainty", "about")


def _number(name: str, row: Mapping[str, Any], unit: str) -> PaperNumber:
    check_keys(name, row, (*_PLACE, "row", "unit", "where", "quantity", "at"))
    return PaperNumber(
        value=_value(name, row, "value"),
        unit=_text(name, row, "unit", unit),
        where=_where(f"{name}.where", row.get("where")),
        requirement=_requirement(name, row),
        quantity=chosen(f"{name}.quantity", row.get("quantity", "score"), QUANTITIES),
        row=_text(name, row, "row", ""),
        column=_text(name, row, "column", ""),
        at=_value(name, row, "at") if "at" in row else None,
        certainty=chosen(f"{name}.certainty", row.get("certainty", "stated"), CERTAINTIES),
        is_about=_flag(name, row, "about"),
    )


def _quoted(name: str, row: Mapping[str, Any]) -> QuotedNumber:
    check_keys(name, row, (*_PLACE, "model"))
    return QuotedNumber(
        model=_text(name, row, "model"),
        value=_value(name, row, "value"),
        column=_text(name, row, "column"),
        requirement=_requirement(name, row),
        certainty=chosen(f"{name}.certainty", row.get("certainty", "stated"), CERTAINTIES),
        is_about=_flag(name, row, "about"),
    )


_WAYS = (("better", "worse"), ("near", "to", "margin"), ("where",), ("explained_by", "rather_than"))
"""The keys by which a claim is checked, in one of these ways."""


def _claim(name: str, row: Mapping[str, Any]) -> Claim:
    ways = [way for way in _WAYS if any(key in row for key in way)]
    check_keys(name, row, ("text", "requirement", "quantity", "within", "low", "high", *sum(_WAYS, ())))
    missing = [key for way in ways for key in way if key not in row]
    if missing or len(ways) > 1 or ("where" in row) != ("low" in row or "high" in row):
        given = ", ".join(key for key in (*sum(_WAYS, ()), "low", "high") if key in row)
        raise TuningError(
            f"{name} is checked by better and worse, by near, to and margin, by where with low or high, or by "
            f"explained_by and rather_than; got {given}"
        )

    def arms(key: str) -> Where:
        return _where(f"{name}.{key}", row[key]) if key in row else {}

    return Claim(
        text=_text(name, row, "text"),
        requirement=_requirement(name, row),
        quantity=chosen(f"{name}.quantity", row.get("quantity", "score"), QUANTITIES),
        better=arms("better"),
        worse=arms("worse"),
        near=arms("near"),
        to=arms("to"),
        margin=_value(name, row, "margin") if "margin" in row else 0.0,
        within=tuple(_label(f"{name}.within", each) for each in texts(f"{name}.within", row.get("within", ()))),
        where=arms("where"),
        low=_value(name, row, "low") if "low" in row else None,
        high=_value(name, row, "high") if "high" in row else None,
        explained_by=chosen(f"{name}.explained_by", row["explained_by"], SIZES) if "explained_by" in row else "",
        rather_than=chosen(f"{name}.rather_than", row["rather_than"], SIZES) if "rather_than" in row else "",
    )


def _deviation(name: str, row: Mapping[str, Any]) -> Deviation:
    check_keys(name, row, ("text", "scales"))
    return Deviation(text=_text(name, row, "text"), scales=texts(f"{name}.scales", row.get("scales", ())))


def _where(name: str, value: Any) -> Where:
    found = table(name, value)
    if not found:
        raise TuningError(f"{name} selects arms by their labels, got none")
    return {_label(name, key): tuple(each) if isinstance(each, list) else (each,) for key, each in found.items()}


def _label(name: str, key: str) -> str:
    if key not in LABELS and not key.startswith("task."):
        raise TuningError(f"{name} has no label {key!r}; there are {', '.join(LABELS)} and task.ARGUMENT")
    return key


def _text(name: str, row: Mapping[str, Any], key: str, default: str | None = None) -> str:
    value = row.get(key, default)
    if not isinstance(value, str):
        raise TuningError(f"{name}.{key} is a text, got {value!r}"[:300])
    return value


def _value(name: str, row: Mapping[str, Any], key: str) -> float:
    value = row.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TuningError(f"{name}.{key} is a number, got {value!r}"[:300])
    return float(value)


def _flag(name: str, row: Mapping[str, Any], key: str) -> bool:
    value = row.get(key, False)
    if not isinstance(value, bool):
        raise TuningError(f"{name}.{key} is true or false, got {value!r}"[:300])
    return value


def _requirement(name: str, row: Mapping[str, Any]) -> str:
    value = _text(name, row, "requirement")
    if not re.fullmatch(r"[ZCPM](\d+|-[a-z])", value):
        raise TuningError(f"{name}.requirement is the number of a paper's element, such as Z62, got {value!r}")
    return value
