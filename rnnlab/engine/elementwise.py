"""Elementwise formulas as lists of numpy calls on preallocated arrays.

A formula is recorded once as expressions (rnnlab.architecture.expressions) and compiled once for an architecture; in
the loop over time only the calls are left. Every call writes into an array that exists already.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rnnlab.architecture.expressions import Expression, in_order

Array = NDArray[Any]
Call = tuple[Callable[..., Any], Any, Any, Any]  # function, register, register or None, register written
Choice = str | Array  # "tanh", "relu", or a boolean [P, 1, 1]: whose nonlinearity is relu

_BINARY = {"add": np.add, "subtract": np.subtract, "multiply": np.multiply}


class Program(NamedTuple):
    """Calls on numbered registers: first the inputs, then the outputs, then constants and scratch arrays."""

    calls: tuple[Call, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    constants: tuple[float, ...]
    num_scratch: int

    def registers(self, scratch: Sequence[Array]) -> list[Any]:
        """The registers with room for inputs and outputs in front; `scratch` holds at least `num_scratch` arrays."""
        room: list[Any] = [None] * (len(self.inputs) + len(self.outputs))
        return [*room, *self.constants, *scratch[: self.num_scratch]]


def run_program(calls: Sequence[Call], registers: Sequence[Any]) -> None:
    """Perform the calls."""
    for function, left, right, out in calls:
        if right is None:
            function(registers[left], registers[out])
        else:
            function(registers[left], registers[right], registers[out])


def activate(operation: str, values: Array, scratch: Array, choice: Choice) -> None:
    """A nonlinearity in place, on a whole group of gates at once."""
    if operation == "nonlinearity" and not isinstance(choice, str):
        np.tanh(values, scratch)
        np.maximum(values, 0, out=values)
        np.copyto(values, scratch, where=~_like(choice, values))
        return
    operation = _chosen(operation, choice)
    if operation == "relu":
        np.maximum(values, 0, out=values)
    elif operation == "tanh":
        np.tanh(values, values)
    else:  # sigmoid(x) = tanh(x / 2) / 2 + 1 / 2: numpy's tanh is vectorised, and no exponential overflows
        np.multiply(values, 0.5, values)
        np.tanh(values, values)
        np.multiply(values, 0.5, values)
        np.add(values, 0.5, values)


def slope(operation: str, values: Array, out: Array, choice: Choice) -> None:
    """The derivative of a nonlinearity, from its values, on a whole group of gates at once."""
    if operation == "nonlinearity" and not isinstance(choice, str):
        _mixed_slope(values, out, choice)
        return
    operation = _chosen(operation, choice)
    if operation == "relu":
        np.heaviside(values, 0, out)
    elif operation == "tanh":
        _tanh_slope(values, out)
    else:
        np.subtract(1.0, values, out)
        np.multiply(out, values, out)


def compile_program(outputs: Mapping[str, Expression], inputs: Sequence[str], choice: Choice) -> Program:
    """The calls that compute `outputs` from arrays for `inputs`. Equal subexpressions are computed once."""
    compiler = _Compiler(tuple(inputs), tuple(outputs), choice)
    compiler.compile(outputs)
    return Program(
        tuple(compiler.calls),
        compiler.inputs,
        compiler.outputs,
        tuple(compiler.constants),
        len(compiler.scratch),
    )


class _Compiler:
    """Numbers values, and reuses scratch arrays whose value is no longer needed.

    While it works, registers are named: ("input", k), ("output", k), ("constant", k), ("scratch", k).
    """

    def __init__(self, inputs: tuple[str, ...], outputs: tuple[str, ...], choice: Choice) -> None:
        self.inputs, self.outputs, self.choice = inputs, outputs, choice
        self.calls: list[Call] = []
        self.constants: list[float] = []
        self.scratch: list[int] = []  # how often each scratch array is still to be read
        self.places: dict[Any, tuple[str, int]] = {}  # the register of each value computed so far
        self.left: Counter[Any] = Counter()

    def compile(self, outputs: Mapping[str, Expression]) -> None:
        keys: dict[int, Any] = {}
        values: dict[Any, Expression] = {}
        for expression in in_order(outputs.values()):
            key = _key(expression, keys)
            keys[id(expression)] = key
            values.setdefault(key, expression)
        for key in values:
            self.left.update(key[1])
        wanted: dict[Any, list[str]] = {}
        for name, expression in outputs.items():
            wanted.setdefault(keys[id(expression)], []).append(name)
        for key, names in wanted.items():
            self.left[key] += len(names)
        for key, expression in values.items():
            names = wanted.get(key, [])
            target = ("output", self.outputs.index(names[0])) if names else None
            self._compute(key, expression, target)
            for name in names:
                self._copy(key, ("output", self.outputs.index(name)))
        self.calls = [(function, *map(self._number, registers)) for function, *registers in self.calls]  # type: ignore[misc]

    def _compute(self, key: Any, expression: Expression, target: tuple[str, int] | None) -> None:
        if expression.operation == "input":
            self.places[key] = ("input", self.inputs.index(expression.name))
            return
        if expression.operation == "number":
            self.places[key] = self._constant(expression.number)
            return
        arguments = [self.places[argument] for argument in key[1]]
        for argument in key[1]:
            self._release(argument)
        # an output register may still be read as an input of the same name elsewhere, scratch never is
        place = target or self._new_scratch(key)
        self.places[key] = place
        self._emit(expression.operation, arguments, place)

    def _emit(self, operation: str, arguments: list[tuple[str, int]], out: tuple[str, int]) -> None:
        operation = _chosen(operation, self.choice)
        if operation in _BINARY:
            self.calls.append((_BINARY[operation], arguments[0], arguments[1], out))
        elif operation == "negate":
            self.calls.append((np.negative, arguments[0], None, out))
        elif operation == "tanh":
            self.calls.append((np.tanh, arguments[0], None, out))
        elif operation == "relu":
            self.calls.append((_relu, arguments[0], None, out))
        elif operation == "sigmoid":
            half = self._constant(0.5)
            self.calls += [(np.multiply, arguments[0], half, out), (np.tanh, out, None, out)]
            self.calls += [(np.multiply, out, half, out), (np.add, out, half, out)]
        elif operation == "step":
            self.calls.append((np.heaviside, arguments[0], self._constant(0.0), out))
        elif operation == "tanh slope":
            self.calls.append((_tanh_slope, arguments[0], None, out))
        else:
            mixed = _MIXED[operation]
            use_relu = self.choice
            self.calls.append((lambda x, y: mixed(x, y, use_relu), arguments[0], None, out))

    def _copy(self, key: Any, target: tuple[str, int]) -> None:
        if self.places[key] != target:
            self.calls.append((_copy, self.places[key], None, target))

    def _constant(self, number: float) -> tuple[str, int]:
        if number not in self.constants:
            self.constants.append(number)
        return ("constant", self.constants.index(number))

    def _new_scratch(self, key: Any) -> tuple[str, int]:
        for number, uses in enumerate(self.scratch):
            if uses == 0:
                self.scratch[number] = self.left[key]
                return ("scratch", number)
        self.scratch.append(self.left[key])
        return ("scratch", len(self.scratch) - 1)

    def _release(self, key: Any) -> None:
        kind, number = self.places[key]
        if kind == "scratch":
            self.scratch[number] -= 1

    def _number(self, register: tuple[str, int] | None) -> int | None:
        if register is None:
            return None
        kind, number = register
        starts = {"input": 0, "output": len(self.inputs)}
        starts["constant"] = starts["output"] + len(self.outputs)
        starts["scratch"] = starts["constant"] + len(self.constants)
        return starts[kind] + number


def _chosen(operation: str, choice: Choice) -> str:
    """Which function the node's own nonlinearity and its slope are, where all members agree."""
    if isinstance(choice, str):
        return {"nonlinearity": choice, "slope": {"tanh": "tanh slope", "relu": "step"}[choice]}.get(
            operation, operation
        )
    return operation


def _key(expression: Expression, keys: Mapping[int, Any]) -> Any:
    """Equal for expressions that compute the same."""
    arguments = tuple(keys[id(argument)] for argument in expression.arguments)
    return (expression.operation, arguments, expression.name, expression.number)


def _copy(x: Any, out: Array) -> None:
    np.copyto(out, x)


def _relu(x: Array, out: Array) -> None:
    np.maximum(x, 0, out=out)


def _tanh_slope(y: Array, out: Array) -> None:
    np.multiply(y, y, out)
    np.subtract(1.0, out, out)


def _mixed_nonlinearity(x: Array, out: Array, use_relu: Array) -> None:
    positive = np.maximum(x, 0)
    np.tanh(x, out)
    np.copyto(out, positive, where=_like(use_relu, out))


def _mixed_slope(y: Array, out: Array, use_relu: Array) -> None:
    steps = np.heaviside(y, 0)
    _tanh_slope(y, out)
    np.copyto(out, steps, where=_like(use_relu, out))


def _like(use_relu: Array, values: Array) -> Array:
    """The choice of each member, with as many axes as the values."""
    return use_relu.reshape(-1, *[1] * (values.ndim - 1))


_MIXED: Mapping[str, Callable[[Array, Array, Any], None]] = {
    "nonlinearity": _mixed_nonlinearity,
    "slope": _mixed_slope,
}
