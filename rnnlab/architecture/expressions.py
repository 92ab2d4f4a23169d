"""Elementwise formulas as data: what a cell computes from its gates and its old state.

A cell's `update` is an ordinary Python function. Called with `Expression`s it records what it does; the record is
evaluated in torch or numpy, differentiated, or written out as a kernel, so that a cell is declared once and runs
everywhere.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from numbers import Real
from typing import Any, Union

from rnnlab.errors import ArchitectureError

Number = int | float
Operand = Union["Expression", Number]

UNARY = ("negate", "sigmoid", "tanh", "relu", "nonlinearity", "step", "slope")
BINARY = ("add", "subtract", "multiply")


@dataclass(frozen=True, eq=False)
class Expression:
    """One recorded operation of a formula: an operation on other expressions, a named input, or a number.

    `step` is 1 where its argument is positive, else 0: the derivative of relu. `nonlinearity` is the node's own, tanh
    or relu, and may differ between members of a population; `slope` is its derivative, given its value.
    """

    operation: str
    arguments: tuple["Expression", ...] = ()
    name: str = ""
    number: float = 0.0

    def __add__(self, other: Operand) -> "Expression":
        return _add(self, as_expression(other))

    def __radd__(self, other: Operand) -> "Expression":
        return _add(as_expression(other), self)

    def __sub__(self, other: Operand) -> "Expression":
        return _subtract(self, as_expression(other))

    def __rsub__(self, other: Operand) -> "Expression":
        return _subtract(as_expression(other), self)

    def __mul__(self, other: Operand) -> "Expression":
        return _multiply(self, as_expression(other))

    def __rmul__(self, other: Operand) -> "Expression":
        return _multiply(as_expression(other), self)

    def __truediv__(self, other: Number) -> "Expression":
        divisor = as_expression(other)
        if divisor.operation != "number" or divisor.number == 0:
            raise ArchitectureError(f"a formula divides by numbers other than 0 only, got {other!s}")
        return _multiply(self, as_expression(1 / divisor.number))

    def __neg__(self) -> "Expression":
        return Expression("negate", (self,))

    def __str__(self) -> str:
        if self.operation == "input":
            return self.name
        if self.operation == "number":
            return f"{self.number:g}"
        signs = {"add": "+", "subtract": "-", "multiply": "*"}
        if self.operation in signs:
            left, right = self.arguments
            return f"({left} {signs[self.operation]} {right})"
        return f"{self.operation}({self.arguments[0]})"


def named(name: str) -> Expression:
    """An input: a gate's preactivation, a component of the state."""
    return Expression("input", name=name)


def sigmoid(x: Operand) -> Expression:
    """1 / (1 + exp(-x))."""
    return Expression("sigmoid", (as_expression(x),))


def tanh(x: Operand) -> Expression:
    """The hyperbolic tangent, whatever the node's nonlinearity is."""
    return Expression("tanh", (as_expression(x),))


def relu(x: Operand) -> Expression:
    """max(x, 0), whatever the node's nonlinearity is."""
    return Expression("relu", (as_expression(x),))


def nonlinearity(x: Operand) -> Expression:
    """The node's own nonlinearity s(x): tanh or relu."""
    return Expression("nonlinearity", (as_expression(x),))


def in_order(outputs: Iterable[Expression]) -> list[Expression]:
    """Every expression that `outputs` need, each once, after its arguments."""
    order: dict[int, Expression] = {}
    waiting = list(outputs)[::-1]  # not a recursion: formulas may be longer than Python's stack
    while waiting:
        expression = waiting[-1]
        missing = [each for each in expression.arguments if id(each) not in order]
        if missing:
            waiting += missing[::-1]
        else:
            order[id(waiting.pop())] = expression
    return list(order.values())


def rewritten(
    outputs: Mapping[str, Expression], substitute: Callable[[Expression], Expression | None]
) -> dict[str, Expression]:
    """The same formulas with some expressions replaced, and with one object for all that compute the same.

    >>> x = named("x")
    >>> twice = {"y": tanh(x) + tanh(named("x"))}
    >>> print(rewritten(twice, lambda each: named("t") if each.operation == "tanh" else None)["y"])
    (t + t)
    """
    made: dict[int, Expression] = {}
    alike: dict[Any, Expression] = {}
    for expression in in_order(outputs.values()):
        new = substitute(expression)
        if new is None:
            arguments = tuple(made[id(argument)] for argument in expression.arguments)
            new = Expression(expression.operation, arguments, expression.name, expression.number)
        key = (new.operation, tuple(map(id, new.arguments)), new.name, new.number)
        made[id(expression)] = alike.setdefault(key, new)
    return {name: made[id(output)] for name, output in outputs.items()}


def evaluate(
    outputs: Mapping[str, Expression], inputs: Mapping[str, Any], functions: Mapping[str, Callable[..., Any]]
) -> dict[str, Any]:
    """The values of `outputs` for arrays or tensors as inputs; `functions` hold the unary operations by name.

    >>> x = named("x")
    >>> evaluate({"y": 2 * x - 1, "z": x * x}, {"x": 3.0}, {})
    {'y': 5.0, 'z': 9.0}
    """
    values: dict[int, Any] = {}
    for expression in in_order(outputs.values()):
        arguments = [values[id(argument)] for argument in expression.arguments]
        values[id(expression)] = _value(expression, arguments, inputs, functions)
    return {name: values[id(output)] for name, output in outputs.items()}


def _value(
    expression: Expression, arguments: list[Any], inputs: Mapping[str, Any], functions: Mapping[str, Callable[..., Any]]
) -> Any:
    match expression.operation:
        case "input":
            return inputs[expression.name]
        case "number":
            return expression.number
        case "add":
            return arguments[0] + arguments[1]
        case "subtract":
            return arguments[0] - arguments[1]
        case "multiply":
            return arguments[0] * arguments[1]
        case "negate":
            return -arguments[0]
        case function:
            return functions[function](*arguments)


def gradients(outputs: Mapping[str, Expression], of: Mapping[str, Expression]) -> dict[str, Expression]:
    """What a small change of each expression in `of` changes in a scalar, given how the scalar changes with `outputs`.

    The gradient arriving at output `k` is the input named `d k`. An expression that no output depends on gets number 0.

    >>> x = named("x")
    >>> print(gradients({"y": sigmoid(x) * x}, {"x": x})["x"])
    ((d y * sigmoid(x)) + ((d y * x) * (sigmoid(x) * (1 - sigmoid(x)))))
    """
    order = in_order(outputs.values())
    arriving: dict[int, Expression] = {}

    def add(expression: Expression, gradient: Expression) -> None:
        key = id(expression)
        arriving[key] = arriving[key] + gradient if key in arriving else gradient

    for name, output in outputs.items():
        add(output, named(f"d {name}"))
    for expression in reversed(order):
        gradient = arriving.get(id(expression))
        if gradient is not None:
            for argument, change in _changes(expression, gradient):
                add(argument, change)
    return {name: arriving.get(id(expression), as_expression(0)) for name, expression in of.items()}


def _changes(value: Expression, gradient: Expression) -> list[tuple[Expression, Expression]]:
    """What arrives at each argument of an operation; unary derivatives are written in terms of the value itself."""
    match value.operation, value.arguments:
        case "add", (left, right):
            return [(left, gradient), (right, gradient)]
        case "subtract", (left, right):
            return [(left, gradient), (right, -gradient)]
        case "multiply", (left, right):
            return [(left, gradient * right), (right, gradient * left)]
        case "negate", (x,):
            return [(x, -gradient)]
        case "sigmoid", (x,):
            return [(x, gradient * (value * (1 - value)))]
        case "tanh", (x,):
            return [(x, gradient * (1 - value * value))]
        case "relu", (x,):
            return [(x, gradient * Expression("step", (value,)))]
        case "nonlinearity", (x,):
            return [(x, gradient * Expression("slope", (value,)))]
        case _:
            return []


def as_expression(value: Any) -> Expression:
    """An expression as it is, and a number as a constant."""
    if isinstance(value, Expression):
        return value
    if isinstance(value, bool) or not isinstance(value, Real):
        raise ArchitectureError(f"a formula is made of gates, states and numbers, got {value!r}")
    return Expression("number", number=float(value))


def _is(expression: Expression, number: float) -> bool:
    return expression.operation == "number" and expression.number == number


def _add(left: Expression, right: Expression) -> Expression:
    if _is(left, 0):
        return right
    return left if _is(right, 0) else Expression("add", (left, right))


def _subtract(left: Expression, right: Expression) -> Expression:
    return left if _is(right, 0) else Expression("subtract", (left, right))


def _multiply(left: Expression, right: Expression) -> Expression:
    if _is(left, 1):
        return right
    return left if _is(right, 1) else Expression("multiply", (left, right))
