"""The stages of a step: each a function of j that does one thing to a node at its j-th time."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from rnnlab.architecture.specs import EdgeSpec
from rnnlab.engine.cell_program import Activation
from rnnlab.engine.cpu_arrays import CpuArrays, Step, Views, all_times, multiply_whole
from rnnlab.engine.cpu_program import NodeCode, Product
from rnnlab.engine.elementwise import Array, Program, activate, run_program, slope
from rnnlab.engine.threads import step_product


def gates_stage(
    arrays: CpuArrays, name: str, sources: Sequence[Array], run: tuple[slice, slice], code: NodeCode, views: Views
) -> Step:
    """Add a product to neighbouring gates, all of them in one call."""
    mine, theirs = run
    matrices = arrays.gate_matrices(name, mine, code)
    targets = arrays.group_views(code, views, theirs)
    scratch = np.empty(targets[0].shape, arrays.dtype)
    add, matmul = np.add, np.matmul
    if views is all_times:
        source = sources[0][:, None]
        matrices = matrices[None, :, None] if arrays.P == 1 else matrices[:, :, None]
        return lambda j: add(targets[0], matmul(source, matrices, out=scratch), targets[0])
    if mine.stop - mine.start == 1 and arrays.P == 1:
        return product_stage(arrays, np.dot, sources, matrices[0], [target[0] for target in targets])
    apart = [source if arrays.P == 1 else source[:, None] for source in sources]

    return _adding(step_product(apart, matrices, scratch, matmul), scratch, targets)


def product_stage(
    arrays: CpuArrays, multiply: Callable[..., Any], sources: Sequence[Array], matrix: Array, targets: Sequence[Array]
) -> Step:
    """Add a product to a target, by way of an array of its own."""
    scratch = arrays.scratch(targets[0], targets[0].shape[-1])
    if multiply is multiply_whole:
        return _adding(lambda j: multiply(sources[j], matrix, scratch), scratch, targets)
    return _adding(step_product(sources, matrix, scratch, multiply), scratch, targets)


def _adding(multiply: Step, scratch: Array, targets: Sequence[Array]) -> Step:
    """Multiply into `scratch`, then add that to the target."""
    add = np.add

    def stage(j: int) -> None:
        multiply(j)
        target = targets[j]
        add(target, scratch, target)

    return stage


def projection_stage(arrays: CpuArrays, product: Product, views: Views) -> Step:
    """Bring a depth input to its node's width."""
    sources = views(arrays.read(arrays.values, product.part, product.edge.delay, product.edge.target))
    targets = views(arrays.projected[product.edge])
    matrix = arrays.matrix(f"{product.name} projection")
    bias = arrays.parameters[f"{product.name} projection bias"]
    bias = bias[0] if arrays.P == 1 else bias[:, None]
    multiply = arrays.multiply(views)

    def stage(j: int) -> None:
        np.add(multiply(sources[j], matrix), bias, targets[j])

    return stage


def activation_stage(arrays: CpuArrays, group: Activation, code: NodeCode, views: Views) -> Step:
    """A nonlinearity on neighbouring gates, in place."""
    gates = arrays.group_views(code, views, slice(group.first, group.last))
    own = code.choice if group.operation == "nonlinearity" else group.operation
    if isinstance(own, str) and own == "tanh":
        tanh = np.tanh
        return lambda j: tanh(gates[j], gates[j])
    scratch = np.empty(gates[0].shape, arrays.dtype)
    return lambda j: activate(group.operation, gates[j], scratch, code.choice)


def slope_stage(arrays: CpuArrays, group: Activation, slopes: Array, code: NodeCode, views: Views) -> Step:
    """The derivatives of a group of gates, into the same places of `slopes`."""
    gates = arrays.group_views(code, views, slice(group.first, group.last))
    chosen = slice(group.first, group.last)
    out = slopes[chosen] if arrays.P == 1 and views is not all_times else slopes[:, chosen]
    return lambda j: slope(group.operation, gates[j], out, code.choice)


def program_stage(arrays: CpuArrays, program: Program, registers: Sequence[Sequence[Array]]) -> Step:
    """Run a program on the j-th array of each input and output."""
    some = registers[len(program.inputs)][0]
    filled = program.registers([arrays.scratch(some, some.shape[-1]) for _ in range(program.num_scratch)])
    rows = list(zip(*registers, strict=True))
    num_given, calls = len(registers), program.calls

    def stage(j: int) -> None:
        filled[:num_given] = rows[j]
        run_program(calls, filled)

    return stage


def identity_stage(arrays: CpuArrays, edge: EdgeSpec, code: NodeCode, views: Views) -> Step:
    """Add the value of an identity edge to the new state."""
    sources = views(arrays.read(arrays.values, (edge.source[0], edge.port or ""), edge.delay, code.key))
    targets = views(arrays.read(arrays.values, arrays.first_port(code), 0, code.key))
    return lambda j: np.add(targets[j], sources[j], targets[j])


def in_turn(stages: Sequence[Step]) -> Step:
    """One step of several stages, without a loop where there are few: this is the innermost Python of all."""
    if len(stages) == 1:
        return stages[0]
    if len(stages) == 2:
        first, second = stages

        def two(j: int) -> None:
            first(j)
            second(j)

        return two

    def step(j: int) -> None:
        for stage in stages:
            stage(j)

    return step


def nothing(j: int) -> None:
    """Where nothing asks for a gradient."""
