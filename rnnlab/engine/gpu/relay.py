"""Relays: layers that run side by side on the GPU, a cluster of programs each, and hand their states on.

One after another, four layers take four times as long as one. But a layer needs no more of the one below than the
state of the same step, and can follow it a few steps behind, all the way through the sequence. So all layers run at
once, and what one hands to the next may come late, as long as every layer keeps its own pace. In the backward pass
gradients of states are handed back the same way. What is handed on is multiplied where it arrives, while the layer
waits for its own states.
"""

from rnnlab.engine.gpu.program import GpuProgram, cluster_size
from rnnlab.engine.gpu.resident import Shape, taken_over


def relay_shape(program: GpuProgram, sizes: tuple[int, int], processors: int) -> Shape | str:
    """How each layer is cut up for so many members and sequences, or why the network cannot run as a relay."""
    if obstacle := relay_obstacle(program):
        return obstacle
    common = set.intersection(*(set(program.shapes(number)) for number in program.legs))
    fitting = [shape for shape in common if len(program.legs) * shape.num_in_all(*sizes) <= processors]
    if not fitting:
        return f"the clusters of its {len(program.legs)} layers do not fit into {processors} multiprocessors at once"
    return min(fitting, key=lambda shape: (shape.rows, -shape.num_programs))


def relay_obstacle(program: GpuProgram) -> str | None:
    """Why a network cannot run as a relay, if it cannot."""
    components, legs = program.plan.components, program.legs
    if cluster_size() == 1:
        return "this GPU has no clusters of programs"
    if program.architecture.period > 1:
        return f"its period is {program.architecture.period}, and relays have period 1"
    if len(legs) < 2:
        return "it has no two layers with cycles of their own"
    if legs != tuple(range(legs[0], legs[0] + len(legs))):
        return "there are nodes without cycles between its layers"
    if any(components[number].is_backward for number in legs):
        return "a layer reads the sequence backward"
    if not all(program.shapes(number) for number in legs):
        return "a layer has no cluster of programs that holds its matrices and those of what is handed to it"
    if len({program.resident(number).width for number in legs}) > 1:
        return "its layers differ in width"
    return next(filter(None, (_edge_obstacle(program, number) for number in legs)), None)


def _edge_obstacle(program: GpuProgram, number: int) -> str | None:
    """Why what is handed to a layer cannot be, if it cannot."""
    resident = program.resident(number)
    for code in resident.codes:
        if any(edge in program.handed for edge in taken_over(code).values()):
            return f"{code.key[0]} takes over a state of another layer as it is"
    for code, product in resident.handed:
        if product.edge.delay or product.has_projection:
            return f"what {code.key[0]} reads of another layer is delayed or projected"
        if not any(each.pairs for each in code.internal):
            return f"{code.key[0]} has no product of its own in the first stage of its cell"
    return None
