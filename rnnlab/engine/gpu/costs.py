"""What a time step is estimated to take where each member has programs or clusters of its own.

`spread.py` estimates the same of spread kernels, and `choice.py` compares.
"""

from collections.abc import Sequence

from rnnlab.engine.gpu.launch import best_shape
from rnnlab.engine.gpu.layout import SMALLEST, batch_tile, padded
from rnnlab.engine.gpu.program import GpuProgram
from rnnlab.engine.gpu.resident import Shape
from rnnlab.engine.nodes import Product

# Microseconds of a time step of a component, forward and backward together, for programs of 16 sequences. Fitted to
# timings on an H200 (benchmarks/results/gpu-shapes-h200.json and gpu-relay-h200.json).
_FIRST = {"bf16": 1.3, "tf32": 2.6, "float32": 3.2}  # for the first node
_FURTHER = 0.9  # for each further node or second stage
_ON_CHIP = {"bf16": 0.8, "tf32": 1.15, "float32": 2.0}  # for 10,000 matrix numbers of a program, in shared memory
_READ = 2.7  # for as many that are read anew in each step
_OF_CLUSTERS = {"bf16": 0.85, "tf32": 1.0, "float32": 1.0}  # what clusters take of that: some numbers are in registers
# A relay takes _BEHIND longer for each layer that follows another, and _HANDED for 10,000 numbers of a program that
# multiply what is handed to it: little in bf16, where most of that is done by the time its own states have come. A leg
# of more than 16 sequences takes _TALL longer to send its states and sums.
_BEHIND, _HANDED = 0.22, {"bf16": 0.25, "tf32": 1.15, "float32": 2.0}
_TALL = 0.8
# The estimates of `spread.py` are too low for networks of these widths, and are multiplied by this.
SPREAD = {"bf16": 1.0, "tf32": 1.35, "float32": 1.13}


def microseconds_alone(
    program: GpuProgram, sizes: tuple[int, int], processors: int, relays: Sequence[tuple[Shape, ...]] = ()
) -> float | None:
    """Estimated microseconds of a time step, both passes, if each member has programs of its own.

    None for networks of a kind that was never timed.

    Args:
        program: of the network.
        sizes: the numbers of members and sequences.
        processors: how many multiprocessors (SMs) the model may take.
        relays: how the legs of each relay are divided, if layers run side by side.
    """
    found = sum(_relay_microseconds(program, *relay) for relay in zip(program.relays, relays, strict=True))
    for number in range(len(program.plan.components)):
        kind = program.kind(number)
        if kind == "resident":
            shape = best_shape(program.shapes(number), program.resident(number), sizes, processors)
            num_turns = max(1.0, shape.num_in_all(*sizes) / processors)
            found += _resident_microseconds(program, number, shape) * num_turns
        elif kind == "general":
            spent = _general_microseconds(program, number, sizes, processors)
            if spent is None:
                return None
            found += spent
    return found


def _general_microseconds(program: GpuProgram, number: int, sizes: tuple[int, int], processors: int) -> float | None:
    """Estimated microseconds of a time step of a general component; None for a kind that was never timed."""
    products = [product for code in program.codes_of(program.plan.components[number]) for product in code.internal]
    if program.precision != "bf16" or any(product.reset_pairs for product in products):
        return None
    size = sum(_size(program, product) for product in products)
    num_programs = sizes[0] * -(-sizes[1] // batch_tile(*sizes, processors))
    return (_FIRST["bf16"] + size / 10_000 * _READ) * max(1.0, num_programs / processors)


def is_on_chip(program: GpuProgram) -> bool:
    """Whether members with programs of their own would keep all matrices in shared memory.

    Such networks are not spread in more than one turn, because that was never timed against this.
    """
    components = enumerate(program.plan.components)
    return all(component.is_hoisted or program.is_resident(number) for number, component in components)


def _resident_microseconds(program: GpuProgram, number: int, shape: Shape) -> float:
    """Estimated microseconds of a time step of a resident component; a node runs at one time of each period."""
    resident = program.resident(number)
    num_stages = sum(1 + (code.program.early is not None) for code in resident.codes)
    once = _FIRST[program.precision] + _FURTHER * (num_stages / resident.period - 1)
    once += resident.num_numbers / resident.period * _of_program(shape) * _ON_CHIP[program.precision]
    return once * (_OF_CLUSTERS[program.precision] if shape.num_programs > 1 else 1.0)


def _relay_microseconds(program: GpuProgram, legs: tuple[int, ...], shapes: tuple[Shape, ...]) -> float:
    """Estimated microseconds of a time step of all legs: that of the slowest, and how far each is behind another."""
    found: list[float] = []
    for number, shape in zip(legs, shapes, strict=True):
        handed = program.resident(number).num_handed * _of_program(shape) * _HANDED[program.precision]
        tall = _TALL if shape.rows > SMALLEST else 0.0
        found.append(_resident_microseconds(program, number, shape) + handed + tall)
    return max(found) + _BEHIND * sum(bool(program.resident(number).handed) for number in legs)


def _of_program(shape: Shape) -> float:
    """What multiplies a component's matrix numbers to give those of a program, in units of 10,000 for 16 sequences."""
    return shape.rows / SMALLEST / shape.num_programs / 10_000


def _size(program: GpuProgram, product: Product) -> int:
    """How many numbers a matrix has in memory, padding included."""
    return product.num_gates * padded(program.codes[product.edge.target].units) * program.widths[product.part]
