"""How a comparison was made, in sentences and as settings: enough to judge it, and to repeat it."""

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rnnlab.report.numbers import Part
from rnnlab.studies.finding import shipped_specs
from rnnlab.studies.importance import FEWEST, METHOD
from rnnlab.studies.specification import read_document, scaled
from rnnlab.studies.statistics import NUM_RESAMPLES
from rnnlab.studies.verdict import listed, quantity, shown
from rnnlab.tasks.task import AbstractTask

if TYPE_CHECKING:
    from rnnlab.studies.records import ArmRecord, StudyRecord
    from rnnlab.studies.specification import StudySpec
    from rnnlab.tuning.trials import Trial

_SAMPLERS = {
    "gp": "a Gaussian process with expected improvement suggests the next settings",
    "random": "settings are drawn at random",
    "grid": "all settings of a grid are tried",
    "tpe": "tree-structured Parzen estimators suggest the next settings",
}

GLOSSARY = (
    (
        "recurrent depth d_r",
        "the most transformations per time step that information can pass through, in the long run",
    ),
    (
        "feedforward depth d_f",
        "the most transformations between an input and an output, not counting those due to recurrence",
    ),
    (
        "recurrent skip coefficient s",
        "the most time steps that information can cross per transformation, in the long run",
    ),
    ("trial", "one hyperparameter setting, trained to its end during tuning"),
    ("infeasible", "training diverged: the run has no score; it is left out of every mean, and counted"),
    ("seed", "the start of a run's random numbers; runs with different seeds are independent repetitions"),
    (
        "95% interval",
        "For a mean: a bootstrap interval, designed to contain the mean of all possible runs in 95 of 100 cases. With "
        "few runs it is too narrow: for normally distributed scores, it contains that mean in about 72 of 100 cases "
        "with three runs, 84 with five and 89 with ten. For a difference: Welch's interval, which excludes 0 exactly "
        "if p, uncorrected, is below 0.05.",
    ),
    (
        "p",
        "how often chance alone would produce a difference at least this large if both architectures were equally good",
    ),
    ("p corrected", "p, increased by Holm's method because several pairs are tested at once"),
    ("chance", "the score of a baseline that ignores its input, named under Task"),
)


def protocol(part: Part) -> tuple[tuple[str, str], ...]:
    """What was done, step by step: a heading and a sentence for each."""
    return tuple(_steps(part))


def _steps(part: Part) -> Iterator[tuple[str, str]]:
    records, comparison = part.records, part.comparison
    arm, score = records[0].arm, comparison.score
    yield "Task", f"{comparison.task}: scored by {quantity(score)}, where {score.better} is better. {_levels(part)}"
    yield "Sizes", _sizes(records)
    yield "Tuning", _tuning(records)
    yield "Training", _training(records)
    if comparison.sample == "seeds":
        yield (
            "Seeds",
            f"{_finalists(records)} trained again {_counts(records, 'repeats')}, each time "
            f"{_what_seeds_change(arm.task)}. {_choice(records)}"
            "Scores are those on test data, of the weights that scored best on validation data during the run.",
        )
    else:
        yield "Sample", "Scores are those of all trials on test data: no setting was trained again over seeds."
    yield (
        "Statistics",
        "Each pair is compared by Welch's two-sided t-test, with Holm's correction for the number of pairs. A "
        f"difference counts as significant if its corrected p is below {comparison.level}. Intervals of differences "
        "are Welch's, for each pair alone. Intervals of means are bias-corrected and accelerated bootstrap intervals "
        f"with {NUM_RESAMPLES:,} resamples.",
    )
    yield (
        "Importance",
        f"{METHOD} compares the values of a hyperparameter in the best tenth of the trials, but at least five, with "
        f"those in all trials. It is shown for architectures with at least {FEWEST} complete trials.",
    )
    yield "Machine", _machine(records)
    yield "Seed and precision", f"seed {arm.seed}; precision {arm.precision}."


def _finalists(records: Sequence["ArmRecord"]) -> str:
    """Which settings were trained over seeds."""
    most = _most_finalists(records)
    if most == 1:
        return "The setting that was best on validation data was"
    return f"The {most} settings that were best on validation data were each"


def _choice(records: Sequence["ArmRecord"]) -> str:
    """How one of several settings was chosen."""
    most = _most_finalists(records)
    return "" if most == 1 else f"Of these {most}, the one with the best mean score on validation data counts. "


def _most_finalists(records: Sequence["ArmRecord"]) -> int:
    return max(len(each.finalists) for each in records)


def _what_seeds_change(task: AbstractTask) -> str:
    return "from new initial weights" + (" and on new batches" if task.feed == "samples" else "")


def _levels(part: Part) -> str:
    score = part.comparison.score
    if isinstance(score.chance, tuple):
        return ""
    best = f" The best possible value is {shown(score.best)}." if isinstance(score.best, float | int) else ""
    return f"A baseline that ignores its input scores {shown(score.chance)} ({score.baseline}).{best}"


def _sizes(records: Sequence["ArmRecord"]) -> str:
    limits = {each.labels.get("parameters") for each in records}
    counts = ", ".join(f"{each.arm.name} {each.arm.architecture.num_parameters():,}" for each in records)
    if len(limits) == 1 and None not in limits:
        limit: int = records[0].labels["parameters"]
        is_under = all(each.arm.architecture.num_parameters() <= limit for each in records)
        size = f"{'at most' if is_under else 'about'} {limit:,} parameters"
        return f"Each network has {size}, in layers of equal width: {counts}."
    return f"Numbers of parameters: {counts}."


def _tuning(records: Sequence["ArmRecord"]) -> str:
    hows = dict.fromkeys(_SAMPLERS.get(each.arm.sampler, each.arm.sampler) for each in records)
    sizes = sorted({len(each.arm.space) for each in records})
    many = f"{sizes[0]}" if len(sizes) == 1 else f"{sizes[0]} to {sizes[-1]}"
    of_each = " for each architecture" if len({len(each.trials) for each in records}) == 1 else ""
    return (
        f"{_counts(records, 'trials')}{of_each}, with {many} hyperparameter{'' if many == '1' else 's'} tuned; "
        f"{listed(list(hows))}. A trial trains one network to its end."
    )


def _counts(records: Sequence["ArmRecord"], what: str) -> str:
    unit = {"trials": "trials", "repeats": "times"}[what]
    counts = {each.arm.name: len(getattr(each, what)) for each in records}
    if len(set(counts.values())) == 1:
        return f"{next(iter(counts.values()))} {unit}"
    return ", ".join(f"{name} {count}" for name, count in counts.items()) + f" {unit}"


def _training(records: Sequence["ArmRecord"]) -> str:
    sentences = dict.fromkeys(_training_of(each) for each in records)
    return " ".join(sentences)


def _training_of(record: "ArmRecord") -> str:
    values, tuned = record.arm.hyperparameters, record.arm.space.names
    steps = "A tuned number of steps" if "num_steps" in tuned else f"{values.num_steps:,} steps"
    batch = values.batch_size or record.arm.task.batch_size
    stop = f"; training stops after {values.patience} evaluations without improvement" if values.patience else ""
    often = "every step" if values.evaluate_every == 1 else f"every {values.evaluate_every:,} steps"
    return f"{steps} on batches of {batch} sequences, with an evaluation {often}{stop}."


def _machine(records: Sequence["ArmRecord"]) -> str:
    runs = [trial.run for trial in _trials(records) if trial.run]
    found = [" and ".join(dict.fromkeys(str(run[key]) for run in runs if key in run)) for key in _CIRCUMSTANCES]
    seconds = sum((trial.wall_seconds or 0.0) / (trial.population or 1) for trial in _trials(records))
    words = ", ".join(f"{name} {value}" for name, value in zip(_CIRCUMSTANCES.values(), found, strict=True) if value)
    return (
        f"{words}. Training took {duration(seconds)} in all; where several populations were trained at the same time, "
        "the time of each counts."
    )


_CIRCUMSTANCES = {"device": "device", "path": "engine path", "rnnlab": "rnnlab", "torch": "torch"}


def _trials(records: Sequence["ArmRecord"]) -> list["Trial"]:
    return [trial for each in records for trial in each.all_trials]


def duration(seconds: float) -> str:
    """Seconds in words, for times of several computers together too."""
    from rnnlab.training.progress import duration as spoken

    return spoken(seconds)


def spaces(part: Part) -> dict[str, str]:
    """What was tuned, as text; architectures with the same space share one."""
    found: dict[str, list[str]] = {}
    for each in part.records:
        found.setdefault(str(each.arm.space), []).append(each.arm.name)
    return {listed(names): text for text, names in found.items()}


def settings(record: "StudyRecord") -> str:
    """The whole specification as JSON."""
    values = {} if record.spec is None else record.spec.to_json()
    return json.dumps(values, indent=2)


def repeat_command(record: "StudyRecord") -> str:
    """The command that repeats the study.

    A specification that comes with rnnlab is repeated by its name, and one that `rnnlab compare` can make by that
    command; any other needs a file with the specification.
    """
    spec = record.spec
    if spec is None:
        return f"rnnlab study resume {shlex.quote(record.name)}"
    if _is_shipped(spec):
        scale = () if spec.scale is None else ("--scale", spec.scale)
        return shlex.join(("rnnlab", "study", "run", spec.name, *scale, *_machine_words(record)))
    words = _compare_words(spec)
    if words is None:
        return f"rnnlab study run {shlex.quote(spec.name)}.json  # a file with the specification below"
    return shlex.join(("rnnlab", "compare", *words, *_machine_words(record)))


def _is_shipped(spec: "StudySpec") -> bool:
    """Whether this very specification comes with rnnlab; a record keeps the title and the remarks of its day."""
    path = shipped_specs().get(spec.name)
    shipped = () if path is None else scaled(read_document(path)).values()
    return any(_what_is_run(spec.to_json()) == _what_is_run(each) for each in shipped)


def _what_is_run(document: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in document.items() if key not in ("title", "paper")}


def _machine_words(record: "StudyRecord") -> list[str]:
    """How many networks were trained at once, which influences suggestions, and where."""
    sizes = [trial.population for each in record.arms for trial in each.trials if trial.population]
    devices = {trial.run["device"] for each in record.arms for trial in each.trials if "device" in trial.run}
    population = ["--population", str(max(sizes))] if sizes else []
    return population + (["--device", "cuda"] if devices - {"cpu"} else [])


_COMPARABLE = {
    *("name", "title", "task", "architectures", "parameters", "trials", "seeds", "hyperparameters", "space", "sampler"),
    *("seed", "precision"),
}
_PLAIN_OPTIONS = {"sampler": "gp", "seed": 0, "precision": "float32"}  # which may be left out
# options of the command, which an argument of the task must not be taken for
_OPTIONS = {
    *("task", "parameters", "trials", "budget", "seeds", "steps", "hyperparameter", "space", "sampler", "seed"),
    *("precision", "store", "name", "output", "device", "workers", "population", "checkpoints", "save_every"),
    *("report_every", "grace", "json", "help"),
}


def _compare_words(spec: "StudySpec") -> list[str] | None:
    """The arguments of `rnnlab compare` that make this specification; None if there are none."""
    document = spec.to_json()
    is_plain = set(document) <= _COMPARABLE and {"task", "architectures"} <= set(document)
    if not is_plain or not all(isinstance(document.get(key), int) for key in ("parameters", "trials", "seeds")):
        return None
    values = document.get("hyperparameters", {})
    space = _tuned_but(document.get("space"), set(values))
    if not isinstance(space, str | None):
        return None
    task = document["task"] if isinstance(document["task"], Mapping) else {"name": document["task"]}
    words = [*_listed(document["architectures"]), "--task", task["name"]]
    words += [word for name, value in task.items() if name != "name" for word in (_option(name), _written(value))]
    words += [word for key in ("parameters", "trials", "seeds") for word in (f"--{key}", str(document[key]))]
    words += [] if space is None else ["--space", space]
    plain = {key: document[key] for key, value in _PLAIN_OPTIONS.items() if document.get(key, value) != value}
    words += [word for key, value in plain.items() for word in (f"--{key}", str(value))]
    return words + [word for name, value in values.items() for word in ("-p", f"{name}={_written(value)}")]


def _tuned_but(space: Any, given: set[str]) -> Any:
    """A space without hyperparameters that are given is the whole space to the command."""
    if isinstance(space, Mapping) and set(space) == {"base", "without"} and set(space["without"]) <= given:
        return space["base"]
    return space


def _listed(value: Any) -> list[str]:
    return [value] if isinstance(value, str) else list(value)


def _option(name: str) -> str:
    return f"--{'task-' if name in _OPTIONS else ''}{name.replace('_', '-')}"


def _written(value: Any) -> str:
    if isinstance(value, bool) or value is None:
        return str(value).lower()
    return ",".join(map(_written, value)) if isinstance(value, list) else str(value)
