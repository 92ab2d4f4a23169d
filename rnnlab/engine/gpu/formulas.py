"""A cell's formulas as text, for Triton and for CUDA C++.

`engine/cell_program.py` derives the formulas; the writers of all kernels put this text into them.
"""

from collections.abc import Mapping
from typing import NamedTuple

from rnnlab.architecture.expressions import Expression, in_order


class Language(NamedTuple):
    """How formulas are written in a language: templates for `str.format`."""

    line: str  # an assignment: a variable and an expression
    number: str  # a constant
    function: str  # a call: a function and its argument
    choice: str  # a condition, the value if it holds, and the value if not


TRITON = Language("{} = {}", "{}", "{}({})", "tl.where({}, {}, {})")
CUDA = Language("const float {} = {};", "{}f", "cell::{}({})", "({} ? {} : {})")

_SIGNS = {"add": "+", "subtract": "-", "multiply": "*"}

EXACT_FUNCTIONS = """
@triton.jit
def sigmoid(x):
    return 1.0 / (1.0 + tl.exp(-x))


@triton.jit
def tanh(x):
    small = tl.exp(-2.0 * tl.abs(x))
    size = (1.0 - small) / (1.0 + small)
    square = x * x  # near zero, 1 - small loses digits; this series has a relative error of 1.3e-8
    near = x + x * square * (-0.33333056 + square * (0.13314674 - square * 0.05035468))
    return tl.where(tl.abs(x) < 0.3, near, tl.where(x < 0, -size, size))
"""

# one instruction with a relative error of at most 5e-4: less than that of rounding to bf16
FAST_FUNCTIONS = """
@triton.jit
def tanh(x):
    return tl.inline_asm_elementwise("tanh.approx.f32 $0, $1;", "=f,f", [x], dtype=tl.float32, is_pure=True, pack=1)


@triton.jit
def sigmoid(x):
    return 0.5 * tanh(0.5 * x) + 0.5
"""

OTHER_FUNCTIONS = """
@triton.jit
def relu(x):
    return tl.where(x < 0, 0.0, x)  # NaN stays


@triton.jit
def step(x):
    return tl.where(x > 0, 1.0, 0.0)


@triton.jit
def tanh_slope(y):
    return 1.0 - y * y
"""


def names_read(outputs: Mapping[str, Expression]) -> list[str]:
    """The names of the inputs that formulas read, each once."""
    return list(dict.fromkeys(each.name for each in in_order(outputs.values()) if each.operation == "input"))


def needs_choice(outputs: Mapping[str, Expression]) -> bool:
    """Whether formulas use the node's own nonlinearity, which may differ between members."""
    return any(each.operation in ("nonlinearity", "slope") for each in in_order(outputs.values()))


def write_formulas(
    outputs: Mapping[str, Expression],
    inputs: Mapping[str, str],
    nonlinearity: str | None,
    language: Language = TRITON,
) -> tuple[list[str], dict[str, str]]:
    """Lines that compute `outputs`, and for each the variable (or constant) that holds it.

    Equal expressions are computed once.

    Args:
        outputs: the formulas.
        inputs: the variable that holds each input, by the input's name.
        nonlinearity: `tanh` or `relu`; None if members differ, and the kernel's variable `is_relu` decides.
        language: the language of the text.

    >>> from rnnlab.architecture.expressions import named, tanh
    >>> write_formulas({"y": tanh(named("x")) + 1}, {"x": "a"}, None)
    (['e0 = tanh(a)', 'e1 = e0 + 1.0'], {'y': 'e1'})
    """
    lines: list[str] = []
    keys: dict[int, tuple[object, ...]] = {}
    found: dict[tuple[object, ...], str] = {}
    for each in in_order(outputs.values()):
        key = (each.operation, tuple(keys[id(part)] for part in each.arguments), each.name, each.number)
        keys[id(each)] = key
        if key in found:
            continue
        if each.operation == "input":
            found[key] = inputs[each.name]
        elif each.operation == "number":
            found[key] = language.number.format(repr(float(each.number)))
        else:
            arguments = [found[keys[id(part)]] for part in each.arguments]
            variable = f"e{len(lines)}"
            lines.append(language.line.format(variable, _text(each.operation, arguments, nonlinearity, language)))
            found[key] = variable
    return lines, {name: found[keys[id(output)]] for name, output in outputs.items()}


def _text(operation: str, arguments: list[str], nonlinearity: str | None, language: Language) -> str:
    if operation in _SIGNS:
        return f" {_SIGNS[operation]} ".join(arguments)
    (x,) = arguments
    match operation:
        case "negate":
            return f"-{x}"
        case "nonlinearity":
            return _chosen("relu", "tanh", x, nonlinearity, language)
        case "slope":
            return _chosen("step", "tanh_slope", x, nonlinearity, language)
        case _:
            return language.function.format(operation, x)


def _chosen(for_relu: str, for_tanh: str, x: str, nonlinearity: str | None, language: Language) -> str:
    """Text of a call that depends on the node's own nonlinearity."""
    texts = {"relu": language.function.format(for_relu, x), "tanh": language.function.format(for_tanh, x)}
    return texts[nonlinearity] if nonlinearity else language.choice.format("is_relu", texts["relu"], texts["tanh"])
