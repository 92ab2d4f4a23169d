"""Everything that can be chosen about training one network, as one value (C21-C34, Z49-Z52, P's and M's devices)."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from rnnlab.architecture.cells import NONLINEARITIES
from rnnlab.engine.initialisation import Initialisation
from rnnlab.errors import TrainingError
from rnnlab.graph.elements import as_plain
from rnnlab.hints import hint
from rnnlab.integers import keep_integers
from rnnlab.training.optimisers import OPTIMISERS

# what a population shares, because its members see the same batches at the same time
SHARED = ("batch_size", "truncation", "evaluate_every")


@dataclass(frozen=True, kw_only=True)
class Hyperparameters:
    """How one network is trained. In a population each member has its own; only those in SHARED are the same for all.

    Args:
        seed: the seed of the initial weights and, together with that of the run, of weight noise and dropout. Two
            members with the same seed and `initialisation` start alike (C10).
        batch_seed: the seed of the batches, if a member is to see other batches than the rest (C73); by default all
            members share the batches of the run.
        nonlinearity: `tanh` or `relu`, to replace what the cells specify (C21).
        initialisation: how the initial weights are drawn (C22-C27, Z50, Z51). On the command line, in files and in
            `changed`, its fields go by their own names: `square`, `rectangular`, `square_scale`, `rectangular_scale`,
            `bias`, `bias_scale`, `gate_bias`, `depth_gate_bias`, `edge_gate_bias`, `read_out_scale`, `read_out_bias`
            and `read_out_bias_scale`; `help(rnnlab.Initialisation)` says what they mean.
        optimiser: `sgd`, `momentum`, `rmsprop` or `adam` (C29).
        learning_rate: the learning rate at the first step (C30, Z49).
        decay_factor: the factor that the learning rate reaches by exponential decay over `num_steps` (C31).
        inverse_decay_steps: β: the learning rate is divided by 1 + (n - n0) / β at step n (P).
        inverse_decay_start: n0, the step at which that decay begins.
        plateau_factor: the factor by which the learning rate is multiplied when validation does not improve (P: 0.5).
        plateau_patience: how many evaluations in a row without improvement that takes.
        least_improvement: the share of its value by which a score must improve to count (P: 0.0002).
        lowest_learning_rate: training ends when the learning rate falls below this (P: 5e-7).
        momentum: the momentum of `momentum`, the smoothing constant of `rmsprop`, or β1 of `adam` (C32).
        second_momentum: β2 of `adam`.
        epsilon: added to the square roots of `rmsprop` and `adam`.
        clip_norm: the largest norm of the gradient of the whole network; longer gradients are scaled down to it (P).
        clip_value: the largest size of a component of the gradient; larger ones are clamped (C33).
        l2: this multiple of every parameter is added to its gradient, after clipping (C34, M14).
        weight_noise: the standard deviation of noise added to all matrices, drawn anew at each step (P).
        dropout: the share of units that the outputs do not see in a step, the same for all its sequences (P).
        batch_size: how many sequences a step has; the task's own by default (C10, Z52).
        truncation: how many time steps gradients flow back over; the state is carried on (P).
        restart: where a long text is read as streams, the share of streams that begin from nothing at each batch,
            drawn at random, instead of going on from the state that they had.
        num_steps: the number of training steps (C28).
        evaluate_every: the number of steps between evaluations on the validation split.
        patience: training ends after this many evaluations in a row without improvement (Z52).
        explosion: a loss this many times larger than 1 + the first one makes the member infeasible (C72).

    >>> hyperparameters = Hyperparameters(optimiser="sgd", learning_rate=0.1)
    >>> print(hyperparameters)
    optimiser=sgd learning_rate=0.1
    >>> Hyperparameters.from_json(hyperparameters.to_json()) == hyperparameters
    True
    """

    seed: int = 0
    batch_seed: int | None = None
    nonlinearity: str | None = None
    initialisation: Initialisation = field(default_factory=Initialisation)
    optimiser: str = "adam"
    learning_rate: float = 1e-3
    decay_factor: float = 1.0
    inverse_decay_steps: float | None = None
    inverse_decay_start: int = 0
    plateau_factor: float = 1.0
    plateau_patience: int = 1
    least_improvement: float = 0.0
    lowest_learning_rate: float = 0.0
    momentum: float = 0.9
    second_momentum: float = 0.999
    epsilon: float = 1e-8
    clip_norm: float | None = None
    clip_value: float | None = None
    l2: float = 0.0
    weight_noise: float = 0.0
    dropout: float = 0.0
    batch_size: int | None = None
    truncation: int | None = None
    restart: float = 0.0
    num_steps: int = 10_000
    evaluate_every: int = 1000
    patience: int | None = None
    explosion: float = 1e4

    def __post_init__(self) -> None:
        for each in fields(self):
            object.__setattr__(self, each.name, as_plain(getattr(self, each.name)))
        if self.optimiser not in OPTIMISERS:
            raise TrainingError(f"optimiser is one of {', '.join(OPTIMISERS)}, got {self.optimiser!r}")
        if self.nonlinearity is not None and self.nonlinearity not in NONLINEARITIES:
            raise TrainingError(f"nonlinearity is one of {', '.join(NONLINEARITIES)}, got {self.nonlinearity!r}")
        if not isinstance(self.initialisation, Initialisation):
            raise TrainingError(f"initialisation is an Initialisation, got {self.initialisation!r}")
        given = [name for name in _INTEGERS if name not in _OPTIONAL or getattr(self, name) is not None]
        keep_integers(self, TrainingError, **{name: _INTEGERS[name] for name in given})
        for name, (low, high, excluded) in _RANGES.items():
            _check_number(name, getattr(self, name), low, high, excluded, is_optional=name in _OPTIONAL)
        for name in _SCALES:
            value = getattr(self.initialisation, name)
            _check_number(name, value, -math.inf, math.inf, "", is_optional=name in _OPTIONAL)

    def changed(self, **values: Any) -> "Hyperparameters":
        """A copy with other values; those of the `initialisation` are given by their own names.

        >>> print(Hyperparameters().changed(learning_rate=0.01, gate_bias=1.0))
        learning_rate=0.01 gate_bias=1.0
        """
        own, inner = ({each.name for each in fields(kind)} for kind in (Hyperparameters, Initialisation))
        for name in values.keys() - own - inner:
            known = sorted((own | inner) - {"initialisation"})
            raise TrainingError(f"no hyperparameter is named {name!r}; {hint(name, known)}")
        given = values.get("initialisation", self.initialisation)
        if not isinstance(given, Initialisation):
            raise TrainingError(f"initialisation is given by its fields: {', '.join(sorted(inner))}; got {given!r}")
        started = replace(
            given,
            **{name: value for name, value in values.items() if name in inner},
        )
        ours = {name: value for name, value in values.items() if name in own}
        return replace(self, **(ours | {"initialisation": started}))

    def with_seeds(self, count: int) -> tuple["Hyperparameters", ...]:
        """The hyperparameters of `count` members that differ only in their seeds, which count up from this one's.

        >>> [member.seed for member in Hyperparameters(seed=5).with_seeds(3)]
        [5, 6, 7]
        """
        return tuple(replace(self, seed=self.seed + number) for number in range(count))

    def __str__(self) -> str:
        defaults = Hyperparameters().by_name()
        changed = {name: value for name, value in self.by_name().items() if value != defaults[name]}
        return " ".join(f"{name}={_shown(name, value)}" for name, value in changed.items()) or "defaults"

    def by_name(self) -> dict[str, Any]:
        """All values, those of the `initialisation` beside the others, as `changed` takes them.

        >>> Hyperparameters().by_name()["gate_bias"]
        0.0
        """
        values = self.to_json()
        started = values.pop("initialisation")
        return values | started

    def to_json(self) -> dict[str, Any]:
        """All values by name; `from_json` reads them back."""
        return asdict(self)

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> "Hyperparameters":
        """The inverse of `to_json`; names that are left out have their defaults."""
        given = dict(values)
        started = given.pop("initialisation", {})
        if not isinstance(started, Mapping):
            raise TrainingError(f"initialisation is a mapping of names to values, got {started!r}")
        return cls().changed(**given, **started)

    def save(self, path: str | Path) -> None:
        """Write all values to a JSON file."""
        Path(path).write_text(json.dumps(self.to_json(), indent=2) + "\n")


def load_hyperparameters(path: str | Path) -> Hyperparameters:
    """The hyperparameters in a JSON file, as `Hyperparameters.save` writes it."""
    try:
        values = json.loads(Path(path).read_text())
    except (OSError, ValueError) as error:
        raise TrainingError(f"cannot read hyperparameters from {path}: {error}") from error
    if not isinstance(values, dict):
        raise TrainingError(f"{path} holds no hyperparameters: it is not a JSON object")
    return Hyperparameters.from_json(values)


def check_shared(members: Sequence[Hyperparameters]) -> None:
    """Refuse a population whose members could not be fed the same batches."""
    for name in SHARED:
        if len(found := {getattr(member, name) for member in members}) > 1:
            shown = ", ".join(sorted(map(str, found)))
            raise TrainingError(f"{name} is the same for all members of a population, got {shown}: train them apart")


_INTEGERS = {
    "seed": 0,
    "batch_seed": 0,
    "inverse_decay_start": 0,
    "plateau_patience": 1,
    "batch_size": 1,
    "truncation": 1,
    "num_steps": 1,
    "evaluate_every": 1,
    "patience": 1,
}
# lowest and highest, and which of the two are themselves excluded
_RANGES = {
    "learning_rate": (0.0, math.inf, "low"),
    "decay_factor": (0.0, 1.0, "low"),
    "inverse_decay_steps": (0.0, math.inf, "low"),
    "plateau_factor": (0.0, 1.0, "low"),
    "least_improvement": (0.0, 1.0, "high"),
    "lowest_learning_rate": (0.0, math.inf, ""),
    "momentum": (0.0, 1.0, "high"),
    "second_momentum": (0.0, 1.0, "high"),
    "epsilon": (0.0, math.inf, ""),
    "clip_norm": (0.0, math.inf, "low"),
    "clip_value": (0.0, math.inf, "low"),
    "l2": (0.0, math.inf, ""),
    "weight_noise": (0.0, math.inf, ""),
    "dropout": (0.0, 1.0, "high"),
    "restart": (0.0, 1.0, ""),
    "explosion": (1.0, math.inf, "low"),
}
_SCALES = (
    *("square_scale", "rectangular_scale", "read_out_scale", "bias_scale", "read_out_bias_scale"),
    *("gate_bias", "depth_gate_bias", "edge_gate_bias"),
)
_OPTIONAL = (
    *("batch_seed", "batch_size", "truncation", "patience", "inverse_decay_steps", "clip_norm", "clip_value"),
    *("read_out_scale", "read_out_bias_scale", "depth_gate_bias", "edge_gate_bias"),
)


def _shown(name: str, value: Any) -> str:
    is_float = isinstance(value, int) and (name in _RANGES or name in _SCALES)
    return str(float(value) if is_float else value)


def _check_number(name: str, value: Any, low: float, high: float, excluded: str, *, is_optional: bool = False) -> None:
    if value is None and is_optional:
        return
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not _is_inside(value, low, high, excluded):
        raise TrainingError(f"{name} must be {_range(low, high, excluded)}, got {value!r}")


def _is_inside(value: Any, low: float, high: float, excluded: str) -> bool:
    return math.isfinite(value) and low <= value <= high and value != {"low": low, "high": high}.get(excluded)


def _range(low: float, high: float, excluded: str) -> str:
    if math.isinf(low):
        return "a finite number"
    above = f"above {low:g}" if excluded == "low" else f"at least {low:g}"
    if math.isinf(high):
        return f"a number {above}"
    return f"a number {above} and {'below' if excluded == 'high' else 'at most'} {high:g}"
