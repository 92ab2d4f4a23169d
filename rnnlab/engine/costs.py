"""What a plan costs for a given batch and length: slots, parameters, memory."""

from dataclasses import dataclass
from typing import Any

from rnnlab.architecture.architecture import Architecture
from rnnlab.engine.explanation import labelled
from rnnlab.engine.memory import Memory, training_memory
from rnnlab.engine.plan import Plan, plan, slots_per_step
from rnnlab.errors import ModelError
from rnnlab.integers import as_integer

GROUPS: tuple[str, ...] = (
    *("input", "between layers", "recurrent", "projection"),
    *("read-out", "biases", "initial state"),
)


@dataclass(frozen=True, repr=False)
class Costs:
    """A plan with its costs for P members, B sequences and T steps; prints as text.

    Args:
        plan: what runs.
        population, batch, steps: P, B and T.
        num_slots: how many sequential slots T steps take.
        parameters: how many trainable numbers a member has, by group.
        memory: the bytes that a training step needs.
    """

    plan: Plan
    population: int
    batch: int
    steps: int
    num_slots: int
    parameters: dict[str, int]
    memory: Memory

    def __repr__(self) -> str:
        numbers = f"{self.num_slots} slots, {sum(self.parameters.values())} parameters, {show_bytes(self.memory.total)}"
        return f"<Costs: {numbers} for P = {self.population}, B = {self.batch}, T = {self.steps}>"

    def __str__(self) -> str:
        is_population = self.population > 1
        size = f"{f'P = {self.population}, ' if is_population else ''}B = {self.batch}, T = {self.steps}"
        members = f" a member, {self.population} members" if is_population else ""
        groups = ", ".join(f"{group} {count}" for group, count in self.parameters.items() if count)
        kept = {name.replace("_", " "): size for name, size in self.memory._asdict().items() if size}
        return "\n".join(
            (
                str(self.plan),
                labelled("slots", f"{self.plan.slots_formula}, that is {self.num_slots} for T = {self.steps}"),
                labelled("parameters", f"{sum(self.parameters.values())}{members}: {groups}"),
                labelled("memory", f"{show_bytes(self.memory.total)} on the cpu path for a training step of {size}"),
                labelled("", ", ".join(f"{name} {show_bytes(size)}" for name, size in kept.items())),
            )
        )

    def to_json(self) -> dict[str, Any]:
        """The plan's own form, with these figures; memory in bytes."""
        return self.plan.to_json() | {
            "slots_per_step": str(slots_per_step(self.plan)),
            "num_slots": self.num_slots,
            "population": self.population,
            "batch": self.batch,
            "steps": self.steps,
            "parameters": {"total": sum(self.parameters.values()), **self.parameters},
            "memory": {"total": self.memory.total, **self.memory._asdict()},
        }


def costs(whole: Plan, *, batch: int = 32, steps: int = 100, population: int = 1, num_bytes: int = 4) -> Costs:
    """The costs of a plan for given sizes.

    Args:
        whole: the plan.
        batch: B, how many sequences run together.
        steps: T, how long they are.
        population: P, how many members.
        num_bytes: the size of a number, 4 for float32.

    Raises:
        ModelError: a count is not a positive integer.

    >>> from rnnlab.architecture.catalogue import architecture
    >>> found = costs(plan(architecture("st:gru", input_size=27, output_size=27, units=64)), steps=1000)
    >>> found.num_slots, found.parameters["recurrent"]
    (2000, 24576)
    """
    if not isinstance(whole, Plan):
        hint = ": plan(architecture) makes one" if isinstance(whole, Architecture) else ""
        raise ModelError(f"costs takes a plan, got {whole!r}"[:300] + hint)
    batch = as_integer(batch, "batch", ModelError, 1)
    steps = as_integer(steps, "steps", ModelError, 1)
    population = as_integer(population, "population", ModelError, 1)
    return Costs(
        plan=whole,
        population=population,
        batch=batch,
        steps=steps,
        num_slots=whole.num_slots(steps),
        parameters=parameter_groups(whole.architecture),
        memory=training_memory(whole, population=population, batch=batch, steps=steps, num_bytes=num_bytes),
    )


def parameter_groups(architecture: Architecture) -> dict[str, int]:
    """How many parameters there are in each group; a matrix that several edges share is recurrent if one of them is.

    Weights are `input`, `recurrent` (on a cycle) or `between layers` (all others between hidden nodes); the `read-out`
    counts with its biases, the `projection` of depth inputs too.
    """
    components = plan(architecture)
    recurrent = {architecture.matrix_name(edge) for edge in architecture.edges if components.is_internal(edge)}
    groups = dict.fromkeys(GROUPS, 0)
    for spec in architecture.parameters:
        group = spec.category.removesuffix(" weights").removesuffix(" biases")
        if group == "weights":
            group = "input" if spec.source_kind == "input" else "between layers"
            group = "recurrent" if spec.name in recurrent else group
        groups[group] += spec.size
    return groups


def show_bytes(count: int) -> str:
    """A number of bytes with three digits or fewer: `512 B`, `3.1 kB`, `14 MB`."""
    size, units = float(count), ["B", "kB", "MB", "GB", "TB"]
    while size >= 999.5 and len(units) > 1:
        size /= 1000
        units.pop(0)
    return f"{size:.3g} {units[0]}"
