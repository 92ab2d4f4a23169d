"""Tasks by name, `task("adding", length=200)`, or from a user's own file. No torch until a task is built."""

import hashlib
import importlib
import importlib.util
import inspect
import sys
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, cast

from rnnlab.errors import TaskError
from rnnlab.graph.elements import as_plain
from rnnlab.hints import hint

if TYPE_CHECKING:
    from rnnlab.tasks.task import AbstractTask


@dataclass(frozen=True)
class TaskEntry:
    """An entry in the list of tasks.

    Args:
        name: the name on the command line.
        place: `module:Class`, in `rnnlab.tasks`.
        summary: what the network has to do, in a few words.
        citation: where it is described.
        data_set: which files it needs; None if it generates its sequences itself.
    """

    name: str
    place: str
    summary: str
    citation: str
    data_set: str | None = None

    def load(self) -> "type[AbstractTask]":
        """The class of the task."""
        module, _, name = self.place.partition(":")
        return getattr(importlib.import_module(f"rnnlab.tasks.{module}"), name)


_ROWS = (
    ("adding", "adding:Adding", "add the two marked numbers of a long sequence", "Zhang et al. 4.4 [Z45]"),
    ("copying", "copying:Copying", "repeat ten symbols after a delay", "Zhang et al. 4.4 [Z46]"),
    ("capacity", "capacity:Capacity", "memorise random labels", "Collins et al. 2.1 [C39]"),
    ("memory", "memory:Memory", "reproduce a vector seen once", "Collins et al. 2.2 [C52]"),
    ("rcf", "rcf:RandomFunction", "memorise samples of a random continuous function", "Collins et al. 3 [C56]"),
    (
        "parentheses",
        "parentheses:Parentheses",
        "count the open parentheses in ten streams of characters",
        "Collins et al. 4 [C62]",
    ),
    ("arithmetic", "arithmetic:Arithmetic", "read two numbers and write their sum", "Collins et al. 4 [C67]"),
    ("recall", "recall:Recall", "remember the first number of a sequence", "Mongia [M7]"),
    ("mnist", "mnist:SequentialMnist", "recognise a digit read pixel by pixel", "Zhang et al. 4.4 [Z47]", "mnist"),
    (
        *("permuted-mnist", "mnist:PermutedMnist", "recognise a digit read pixel by pixel in a shuffled order"),
        *("Zhang et al. 4.4 [Z48]", "mnist"),
    ),
    (
        *("ptb-characters", "penn_treebank:PennTreebankCharacters", "predict the next character of newspaper text"),
        *("Zhang et al. 4.2 [Z43], Pascanu et al. [P12]", "penn-treebank"),
    ),
    (
        *("ptb-words", "penn_treebank:PennTreebankWords", "predict the next word of newspaper text"),
        *("Pascanu et al. [P12]", "penn-treebank"),
    ),
    (
        *(
            "text8-zhang",
            "text8:Text8Zhang",
            "predict the next character of Wikipedia, keeping the state between batches",
        ),
        *("Zhang et al. 4.2 [Z44]", "text8-first74"),
    ),
    (
        *("text8-collins", "text8:Text8Collins", "predict the next character of Wikipedia, starting at random places"),
        *("Collins et al. 3 [C59, C60]", "text8-first74"),
    ),
    (
        "jsb-chorales",
        "music:JsbChorales",
        "predict the next chord of a chorale",
        "Pascanu et al. [P12]",
        "jsb-chorales",
    ),
    ("nottingham", "music:Nottingham", "predict the next chord of a folk tune", "Pascanu et al. [P12]", "nottingham"),
    ("musedata", "music:MuseData", "predict the next chord of a classical piece", "Pascanu et al. [P12]", "musedata"),
    (
        *("piano-midi", "music:PianoMidi", "predict the next chord of a piano piece"),
        *("Boulanger-Lewandowski et al. 2012, beside [P12]", "piano-midi"),
    ),
    ("sst", "sentiment:Sentiment", "grade a film review from one to five", "Mongia [M10]", "sentiment-treebank"),
)

TASKS = {row[0]: TaskEntry(*row) for row in _ROWS}


def task(name: str, **arguments: Any) -> "AbstractTask":
    """A task by name; arguments that are left out have the values of its paper.

    Args:
        name: as `rnnlab list tasks` shows it, or a Python file that defines one task.
        arguments: those of the task; a list stands for a tuple, as in JSON.

    Raises:
        TaskError: there is no such task or argument, or a value is one that the task cannot have.

    >>> print(task("adding", length=200))
    adding(length=200)
    >>> task("copying", dealy=200)
    Traceback (most recent call last):
    rnnlab.errors.TaskError: copying has no argument 'dealy'; did you mean 'delay'?
    """
    return _built(name, {key: as_plain(value) for key, value in arguments.items()})


def task_from_words(name: str, words: Sequence[str]) -> "AbstractTask":
    """A task with its arguments as the command line gives them."""
    return _built(name, parse_arguments(words))


def _built(name: str, arguments: Mapping[str, Any]) -> "AbstractTask":
    kind = task_class(name)
    known = argument_names(kind)
    for argument in arguments:
        if argument not in known:
            raise TaskError(f"{name} has no argument {argument!r}; {hint(argument, known)}")
    required = [field.name for field in fields(cast(Any, kind)) if _is_required(field)]
    if missing := [argument for argument in required if argument not in arguments]:
        raise TaskError(f"{name} needs {', '.join(missing)}")
    if name.endswith(".py"):  # tasks that come with rnnlab say more precisely what they take
        _check_types(kind, arguments)
    return kind(**{key: tuple(value) if isinstance(value, list) else value for key, value in arguments.items()})


_PLAIN_TYPES = {"int": int, "float": (int, float), "bool": bool, "str": str}


def _check_types(kind: "type[AbstractTask]", arguments: Mapping[str, Any]) -> None:
    """Refuse a value whose plain type is not the one declared for its field; other annotations are not checked."""
    written = {field.name: str(getattr(field.type, "__name__", field.type)) for field in fields(cast(Any, kind))}
    for name, value in arguments.items():
        wanted = _PLAIN_TYPES.get(written[name])
        is_bool = isinstance(value, bool) and written[name] != "bool"
        if wanted is not None and (is_bool or not isinstance(value, wanted)):
            raise TaskError(f"{name} must be of type {written[name]}, got {value!r}")


def task_class(name: str) -> "type[AbstractTask]":
    """The class of a task by name, or in a Python file."""
    if name.endswith(".py"):
        return _class_of_file(Path(name))
    if name not in TASKS:
        raise TaskError(f"no task is named {name!r}; {hint(name, TASKS, '`rnnlab list tasks` shows all')}")
    return TASKS[name].load()


@dataclass(frozen=True)
class TaskFile:
    """The file that a task was read from.

    Args:
        path: where it was.
        digest: of its content, as it was when it was read.
    """

    path: Path
    digest: str


_FILES: "weakref.WeakKeyDictionary[type[AbstractTask], TaskFile]" = weakref.WeakKeyDictionary()


def task_file(task: "AbstractTask") -> TaskFile | None:
    """The file that a task was read from; None for those that come with rnnlab, and classes made in Python."""
    return _FILES.get(type(task))


DIGEST = "file_digest"
"""The key of the digest of a task's files beside its arguments, in what is written down to be compared later."""


def digest_json(task: "AbstractTask") -> dict[str, str]:
    """The digests of the file that a task was read from and of those it reads: an edited file makes another task."""
    found = task_file(task)
    digests = [] if found is None else [found.digest]
    digests += [_digest(_content(Path(path))) for path in task.data_files]
    return {DIGEST: "-".join(digests)} if digests else {}


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise TaskError(f"cannot read {path}: {error.strerror}") from error


def _digest(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=8).hexdigest()


def argument_names(kind: "type[AbstractTask]") -> list[str]:
    """The arguments of a task, its own first, then those that many tasks share."""
    names = [field.name for field in fields(cast(Any, kind))]
    shared = {name for parent in kind.__mro__[1:] for name in vars(parent).get("__dataclass_fields__", ())}
    return [name for name in names if name not in shared] + [name for name in names if name in shared]


def parse_arguments(words: Sequence[str]) -> dict[str, Any]:
    """Arguments as the command line gives them: `--name value` or `--name=value`; commas make a list.

    >>> parse_arguments(["--num-samples", "100,2e6", "--input-once=true", "--num-training", "none"])
    {'num_samples': (100, 2000000), 'input_once': True, 'num_training': None}
    """
    arguments: dict[str, Any] = {}
    rest = list(words)
    while rest:
        option, equals, text = rest.pop(0).partition("=")
        if not option.startswith("--") or len(option) < 3:
            raise TaskError(f"the arguments of a task are --NAME VALUE, got {option!r}")
        name = option[2:].replace("-", "_")
        if not equals:
            if not rest:
                raise TaskError(f"{option} needs a value")
            text = rest.pop(0)
        if name in arguments:
            raise TaskError(f"{option} is given twice")
        arguments[name] = _value(text)
    return arguments


MOST_WHOLE = 1e15  # whatever is written with an exponent and is larger stays a float: 1e30 has no 31 exact digits


def _value(text: str) -> Any:
    if "," in text:
        return tuple(_value(part) for part in text.split(",") if part)
    words = {"none": None, "true": True, "false": False}
    if text.lower() in words:
        return words[text.lower()]
    try:
        number = float(text)
    except ValueError:
        return text
    return (
        int(text)
        if text.lstrip("+-").isdecimal()
        else int(number)
        if number.is_integer() and abs(number) <= MOST_WHOLE
        else number
    )


def _is_required(field: Any) -> bool:
    return field.init and field.default is MISSING and field.default_factory is MISSING


def _class_of_file(path: Path) -> "type[AbstractTask]":
    from rnnlab.tasks.task import AbstractTask

    module = _module_of_file(path)
    found = [
        value
        for value in vars(module).values()
        if inspect.isclass(value) and issubclass(value, AbstractTask) and value.__module__ == module.__name__
    ]
    whole = [each for each in found if not inspect.isabstract(each)]
    if found and not whole:
        lacking = "; ".join(f"{each.__name__} lacks {', '.join(sorted(each.__abstractmethods__))}" for each in found)
        raise TaskError(f"{path}: {lacking}")
    found = whole
    if len(found) != 1:
        names = ", ".join(each.__name__ for each in found) or "none"
        raise TaskError(f"{path} must define one task, a dataclass made from AbstractTask; it defines {names}")
    if "__dataclass_fields__" not in vars(found[0]):
        raise TaskError(f"{path}: class {found[0].__name__} must be a dataclass(frozen=True)")
    _FILES[found[0]] = TaskFile(path.absolute(), _digest(path.read_bytes()))
    return found[0]


def _module_of_file(path: Path) -> ModuleType:
    """The file as a module, which dataclasses must find by its name."""
    name = f"rnnlab_task_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except OSError as error:
        raise TaskError(f"cannot read {path}: {error.strerror}") from error
    except Exception as error:
        raise TaskError(f"cannot load {path}: {type(error).__name__}: {error}".replace("\n", " ")) from error
    return module
