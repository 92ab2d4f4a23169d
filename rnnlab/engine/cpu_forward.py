"""The forward pass on the CPU.

What comes from other components is one product over all steps; inside a component a step is a product, an activation
and an update, in place.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from rnnlab.engine.cpu_arrays import CpuArrays, Step, Views, all_times, flat, token_rows
from rnnlab.engine.cpu_program import NodeCode, Product
from rnnlab.engine.cpu_stages import (
    activation_stage,
    gates_stage,
    identity_stage,
    in_turn,
    program_stage,
    projection_stage,
)
from rnnlab.engine.elementwise import Array
from rnnlab.engine.threads import matrix_product, product_into


def forward(arrays: CpuArrays) -> None:
    """Fill `values` and `gates` for all time steps."""
    arrays.allocate()
    for component in arrays.plan.components:
        codes = arrays.codes(component)
        for code in codes:
            hoist(arrays, code)
        if component.is_hoisted:
            for code in codes:
                forward_step(arrays, code, all_times)(0)
        else:
            arrays.walk(component, {code.key: forward_step(arrays, code, arrays.each) for code in codes})


def hoist(arrays: CpuArrays, code: NodeCode) -> None:
    """Bias and all products from other components, at all times of a node at once."""
    gates = arrays.gates[code.key]
    for product in code.external:
        if product.has_projection:
            project(arrays, product)
    everything = (slice(0, code.num_gates), slice(0, code.num_gates))
    whole = next((each for each in code.external if each.runs == (everything,) and not arrays.is_tokens(each)), None)
    bias = arrays.parameters[code.bias].reshape(arrays.P, code.num_gates, 1, 1, code.units)
    if whole is not None:
        for p in range(arrays.P):
            for gate in range(code.num_gates):
                product_into(
                    flat(arrays.source(whole)[p]), arrays.columns(whole.name, code)[p][:, gate], gates[p, gate]
                )
        gates += bias
    else:
        gates[...] = bias
    for product in code.external:
        if product is not whole:
            add_products(arrays, gates, product, code)


def project(arrays: CpuArrays, product: Product) -> None:
    """Bring a depth input from another component to its node's width, at all times at once."""
    value = arrays.read(arrays.values, product.part, product.edge.delay, product.edge.target)
    weights = arrays.parameters[f"{product.name} projection"]
    bias = arrays.parameters[f"{product.name} projection bias"]
    for p in range(arrays.P):
        if value.dtype == arrays.dtype:
            product_into(flat(value[p]), weights[p], arrays.projected[product.edge][p])
        else:
            arrays.projected[product.edge][p] = token_rows(value[p], weights[p])
    arrays.projected[product.edge] += bias[:, None, None]


def add_products(arrays: CpuArrays, gates: Array, product: Product, code: NodeCode) -> None:
    """Add the product of an edge from another component, at all times at once."""
    source, columns = arrays.source(product), arrays.columns(product.name, code)
    for p, mine, theirs in gate_pairs(arrays, product.runs):
        if arrays.is_tokens(product):
            gates[p, theirs] += token_rows(source[p], columns[p][:, mine])
        else:
            gates[p, theirs] += matrix_product(flat(source[p]), columns[p][:, mine]).reshape(gates.shape[2:])


def gate_pairs(arrays: CpuArrays, runs: Sequence[tuple[slice, slice]]) -> Iterator[tuple[int, int, int]]:
    """For every member: a gate of the matrix and the gate of the target that it feeds."""
    for p in range(arrays.P):
        for mine, theirs in runs:
            for offset in range(mine.stop - mine.start):
                yield p, mine.start + offset, theirs.start + offset


def forward_step(arrays: CpuArrays, code: NodeCode, views: Views) -> Step:
    """A function that computes a node at its j-th time, or with `all_times` at all times."""
    stages: list[Step] = []
    for product in code.internal:
        if product.has_projection:
            stages.append(projection_stage(arrays, product, views))
        sources = views(arrays.source(product))
        stages += [gates_stage(arrays, product.name, sources, run, code, views) for run in product.runs]
    if code.program is not None:
        stages += [activation_stage(arrays, group, code, views) for group in code.program.activations]
        stages += reset_stages(arrays, code, views)
        stages += [activation_stage(arrays, group, code, views) for group in code.program.late_activations]
        if not code.shares_gates:
            state = [views(arrays.read(arrays.values, part, 0, code.key)) for part in code.state]
            stages.append(program_stage(arrays, code.program.update, [*arrays.operands(code, views), *state]))
    elif not code.shares_gates:
        (gates,), values = arrays.gate_views(code, views), views(arrays.read(arrays.values, code.state[0], 0, code.key))
        stages.append(lambda j: np.copyto(values[j], gates[j]))
    stages += [identity_stage(arrays, edge, code, views) for edge in code.identities]
    return in_turn(stages)


def reset_stages(arrays: CpuArrays, code: NodeCode, views: Views) -> list[Step]:
    """The second product of a cell that has one: what it multiplies, and the gates it adds to."""
    if code.program is None or code.program.reset is None:
        return []
    resets = views(arrays.resets[code.key])
    stages = [program_stage(arrays, code.program.reset, [*arrays.operands(code, views), resets])]
    for product in code.external + code.internal:
        stages += [gates_stage(arrays, product.name, resets, run, code, views) for run in product.reset_runs]
    return stages
