"""`rnnlab list`: every architecture, cell and task."""

import json
from enum import StrEnum
from typing import Annotated, Any

import typer

from rnnlab.architecture.cells import CELLS, Cell
from rnnlab.commands.options import AsJson
from rnnlab.graph.catalogue import CATALOGUE, Family, named_graph
from rnnlab.graph.measures import Measures, measure
from rnnlab.tasks.registry import TASKS, task


class Listing(StrEnum):
    """What can be listed."""

    ARCHITECTURES = "architectures"
    CELLS = "cells"
    TASKS = "tasks"


def list_command(
    what: Annotated[
        Listing | None,
        typer.Argument(help="List only these; tasks then come with their sizes and scores.", show_default="all"),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List architectures with their measures, cells and tasks.

    An architecture and a cell make a network: `td:lstm`. An architecture alone has tanh cells; a cell alone is one
    layer.
    """
    tables = {
        Listing.ARCHITECTURES: (_architecture_lines, _architecture_entries),
        Listing.CELLS: (_cell_lines, _cell_entries),
        Listing.TASKS: (_task_lines, _task_entries) if what is None else (_task_table, _task_descriptions),
    }
    chosen = {kind: tables[kind] for kind in (Listing if what is None else (what,))}
    if as_json:
        print(json.dumps({kind.value: entries() for kind, (_, entries) in chosen.items()}, indent=2))
    else:
        print("\n\n".join("\n".join(lines()) for lines, _ in chosen.values()))


def _columns(measures: Measures) -> str:
    depth = "none" if measures.feedforward_depth is None else measures.feedforward_depth
    values = (measures.recurrent_depth, depth, measures.recurrent_skip_coefficient)
    return f"{measures.graph.period:>6}" + "".join(f"{value!s:>6}" for value in values)


def _measured() -> list[tuple[Family, str, Measures]]:
    return [(family, name, measure(named_graph(name))) for family in CATALOGUE for name in family.examples]


def _architecture_lines() -> list[str]:
    measured = _measured()
    lines = [f"{'name':<16}{'period':>6}{'d_r':>6}{'d_f':>6}{'s':>6}   what it is (source)"]
    for family in CATALOGUE:
        text = f"{family.summary} ({family.citation})"
        if family.pattern not in family.examples:
            lines.append(f"{family.pattern:<40}   {text}")
            text = ""
        for name, measures in ((name, measures) for owner, name, measures in measured if owner is family):
            label = name if text else f"  {name}"
            lines.append(f"{label:<16}{_columns(measures)}   {text}".rstrip())
    return lines


def _architecture_entries() -> list[dict[str, Any]]:
    return [_list_entry(*row) for row in _measured()]


def _list_entry(family: Family, name: str, measures: Measures) -> dict[str, Any]:
    numbers = {key: value for key, value in measures.to_json().items() if key not in ("witnesses", "slots")}
    return {"name": name, "family": family.pattern, "summary": family.summary, "citation": family.citation} | numbers


def _cell_lines() -> list[str]:
    lines = [f"{'cell':<16}{'gates':<14}{'state':<10}   what it is (source)"]
    for cell in CELLS.values():
        gates = " ".join((*cell.gates, *(f"{gate}…" for gate in cell.edge_gates)))
        lines.append(f"{cell.name:<16}{gates:<14}{' '.join(cell.state):<10}   {cell.summary}".rstrip())
    return lines


def _cell_entries() -> list[dict[str, Any]]:
    return [_cell_entry(cell) for cell in CELLS.values()]


def _cell_entry(cell: Cell) -> dict[str, Any]:
    gates = {"gates": list(cell.gates), "edge_gates": list(cell.edge_gates), "state": list(cell.state)}
    return {"name": cell.name, "summary": cell.summary} | gates


def _task_lines() -> list[str]:
    lines = [f"{entry.name:<40}   {entry.summary} ({entry.citation})" for entry in TASKS.values()]
    return [f"{'task':<40}   what the network has to do (source)", *lines]


def _task_entries() -> list[dict[str, str]]:
    return [{"name": each.name, "summary": each.summary, "citation": each.citation} for each in TASKS.values()]


def _task_table() -> list[str]:
    from rnnlab.tasks.show import task_table

    return [task_table(task(name) for name in TASKS)]


def _task_descriptions() -> list[dict[str, Any]]:
    from rnnlab.tasks.show import description

    return [entry | description(task(entry["name"])) for entry in _task_entries()]
