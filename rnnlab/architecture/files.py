"""Architectures from files and to files, in the JSON form; and what a user may write where one is wanted."""

from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any, TypeVar, Unpack

from rnnlab.architecture.architecture import Architecture, checked_architecture
from rnnlab.architecture.catalogue import BuildOptions, architecture, split_name, widths_by_name
from rnnlab.architecture.cells import named_cell
from rnnlab.architecture.specs import EdgeSpec, NodeSpec
from rnnlab.errors import ArchitectureError, RnnlabError
from rnnlab.graph.cyclic import CyclicGraph
from rnnlab.graph.files import read_json, write_json

SpecT = TypeVar("SpecT", NodeSpec, EdgeSpec)


def find_architecture(written: str, cell: str | None = None, **options: Unpack[BuildOptions]) -> Architecture:
    """The architecture that a user means by NAME, NAME:CELL, FILE or FILE:CELL.

    Args:
        written: a name of the catalogue, or a JSON file (any name that ends in .json or contains a slash) that
            describes an architecture or a graph.
        cell: the cell, if `written` gives none.
        options: sizes and the rest, as in `architecture`. A file that gives cells and widths itself accepts none of
            them except its own input and output sizes.

    Raises:
        RnnlabError: there is no such name, the file cannot be read, or sizes do not fit.
    """
    file, own = _split_file(written)
    if file is None:
        graph, own = split_name(written)
        return architecture(graph, own or cell, **options)
    found = _load(file)
    if isinstance(found, CyclicGraph):
        return architecture(found, own or cell, **options)
    _check_options(found, file, own, options)
    return found


def sized_architecture(written: str, units: int | None = None) -> Architecture:
    """The architecture that a user means, with widths to look at where it gives none.

    Args:
        written: NAME, NAME:CELL, FILE or FILE:CELL, as for `find_architecture`.
        units: the width of every hidden node, 64 by default; inputs and outputs are then 1 wide. A file that gives
            widths itself keeps them, and takes no others.
    """
    file, cell = _split_file(written)
    found = _load(file) if file is not None and units is None else None
    if file is not None and isinstance(found, Architecture):
        _check_no_cell(file, cell)
        return found
    return find_architecture(written, input_size=1, output_size=1, units=64 if units is None else units)


def find_connections(written: str) -> CyclicGraph:
    """The graph of the architecture that a user means by NAME, NAME:CELL, FILE or FILE:CELL, whatever its sizes.

    >>> find_connections("td:lstm") == find_connections("td")
    True
    """
    file, own = _split_file(written)
    if file is None:
        return architecture(written, input_size=1, output_size=1, units=1).graph
    found = _load(file)
    if isinstance(found, CyclicGraph):
        return found if own is None else architecture(found, own, input_size=1, output_size=1, units=1).graph
    _check_no_cell(file, own)
    return found.graph


def load_architecture(path: str | Path) -> Architecture:
    """The architecture in a JSON file.

    Raises:
        RnnlabError: the file cannot be read, is not JSON, or describes no valid architecture; the message names it.
    """
    found = _load(path)
    if isinstance(found, CyclicGraph):
        raise ArchitectureError(
            f"{path} holds a graph without cells and widths; give it some: architecture(load_graph(path), 'lstm', …)"
        )
    return found


def save_architecture(architecture: Architecture, path: str | Path) -> None:
    """Write the architecture to a JSON file, with one node or edge per line."""
    write_json(architecture_to_json(checked_architecture(architecture, "save_architecture")), path)


def architecture_to_json(architecture: Architecture) -> dict[str, Any]:
    """The architecture in the file form, ready for `json.dumps`: a graph's file with cells, widths and transforms.

    What `architecture_from_json` fills in by itself is left out.
    """
    return {
        "period": architecture.period,
        "nodes": [_node_row(node) for node in architecture.nodes],
        "edges": [_edge_row(edge, architecture) for edge in architecture.edges],
    }


def architecture_from_json(data: Any) -> Architecture:
    """The architecture of a parsed file; `["h", 0]` may be written `"h"` where the period is 1.

    Raises:
        RnnlabError: naming the node or edge and the key that is missing, unknown or wrong.

    >>> architecture_from_json({
    ...     "nodes": [
    ...         {"name": "x", "kind": "input", "units": 3},
    ...         {"name": "h", "kind": "hidden", "units": 4, "cell": "gru"},
    ...     ],
    ...     "edges": [{"source": "x", "target": "h", "delay": 0}, {"source": "h", "target": "h", "delay": 1}],
    ... })
    <Architecture: <CyclicGraph: 2 nodes, 2 edges, period 1>, gru, 100 parameters>
    """
    if not isinstance(data, dict) or not all(isinstance(data.get(key), list) for key in ("nodes", "edges")):
        raise ArchitectureError(f"an architecture is a JSON object with lists nodes and edges, got {data!r}"[:300])
    if unknown := sorted(set(data) - {"period", "nodes", "edges"}):
        raise ArchitectureError(f"the architecture has unknown keys {', '.join(unknown)}; known: period, nodes, edges")
    period = data.get("period", 1)
    nodes = [_spec(NodeSpec, node, f"node {number}") for number, node in enumerate(data["nodes"])]
    edges = [
        _spec(EdgeSpec, _with_keys(edge, f"edge {number}", period), f"edge {number}")
        for number, edge in enumerate(data["edges"])
    ]
    return Architecture(nodes, edges, period)


def _node_row(node: NodeSpec) -> dict[str, Any]:
    written = {"name": node.name, "kind": node.kind, "phase": node.phase, "units": node.units}
    return written | _different(node, ("cell", "nonlinearity", "encoding", "bias", "initial"))


def _edge_row(edge: EdgeSpec, architecture: Architecture) -> dict[str, Any]:
    written = edge.edge.to_json() | {"transform": edge.transform} | _different(edge, ("weights", "role"))
    if edge.carry:
        written["carry"] = True
    source = architecture.by_key[edge.source]
    if source.cell is not None and len(named_cell(source.cell).ports) > 1:
        written["port"] = edge.port
    return written


def _different(spec: NodeSpec | EdgeSpec, names: tuple[str, ...]) -> dict[str, Any]:
    """The fields of those names that differ from their defaults."""
    defaults = {field.name: field.default for field in fields(spec)}
    return {name: getattr(spec, name) for name in names if getattr(spec, name) != defaults[name]}


def _spec(kind: type[SpecT], data: Any, what: str) -> SpecT:
    """A specification from its JSON object, whose keys are the specification's own fields."""
    known = {field.name: field.default is MISSING for field in fields(kind)}
    _check_object(data, what)
    if missing := [name for name, is_required in known.items() if is_required and name not in data]:
        raise ArchitectureError(f"{what} lacks {', '.join(map(repr, missing))}: {data!r}"[:300])
    if unknown := [name for name in data if name not in known]:
        raise ArchitectureError(f"{what} has unknown keys {', '.join(map(repr, unknown))}; known: {', '.join(known)}")
    return kind(**data)


def _with_keys(data: Any, what: str, period: Any) -> dict[str, Any]:
    """An edge's JSON object with its ends as (name, phase)."""
    _check_object(data, what)
    return data | {end: _key(data[end], f"{what}: {end}", period) for end in ("source", "target") if end in data}


def _key(end: Any, what: str, period: Any) -> tuple[str, int]:
    if isinstance(end, str) and period == 1:
        return (end, 0)
    if isinstance(end, list) and len(end) == 2 and isinstance(end[0], str) and isinstance(end[1], int):
        return (end[0], end[1])
    raise ArchitectureError(f'{what} is written ["name", phase], or "name" where the period is 1; got {end!r}')


def _check_object(data: Any, what: str) -> None:
    if not isinstance(data, dict):
        raise ArchitectureError(f"{what} must be a JSON object, got {data!r}"[:300])


def _split_file(written: str) -> tuple[str | None, str | None]:
    """File and cell, or no file where a name of the catalogue is meant."""
    file, colon, cell = written.rpartition(":")
    if not colon or set(cell) & set("/\\.") or not file.endswith(".json"):
        file, cell = written, None
    is_file = file.endswith(".json") or "/" in file or "\\" in file
    return (file, cell) if is_file else (None, None)


def _load(path: str | Path) -> Architecture | CyclicGraph:
    """What a JSON file describes: an architecture if any node has a cell or a width, else a graph."""
    data = read_json(path)
    nodes = data.get("nodes") if isinstance(data, dict) else None
    rows = [node for node in nodes if isinstance(node, dict)] if isinstance(nodes, list) else []
    has_cells = any("cell" in node or "units" in node for node in rows)
    try:
        return architecture_from_json(data) if has_cells else CyclicGraph.from_json(data)
    except RnnlabError as error:
        raise type(error)(f"{path}: {error}") from error


def _check_options(found: Architecture, file: str, cell: str | None, options: BuildOptions) -> None:
    """Refuse what contradicts a file with cells and widths of its own."""
    _check_no_cell(file, cell)
    for given in ("units", "parameters"):
        if options.get(given) is not None:
            raise ArchitectureError(
                f"{file} gives widths itself, so {given} cannot be set: leave it out, or give a graph without cells"
            )
    wanted = {
        **widths_by_name(found.graph, "input", options["input_size"], f"{file}: input_size"),
        **widths_by_name(found.graph, "output", options["output_size"], f"{file}: output_size"),
    }
    for node in found.nodes:
        if node.units != wanted.get(node.name, node.units):
            raise ArchitectureError(
                f"{file}: {node.kind} {node.name!r} has {node.units} units, {wanted[node.name]} are needed"
            )
        if node.kind == "input" and node.encoding != options.get("encoding", node.encoding):
            raise ArchitectureError(
                f"{file}: input {node.name!r} takes {node.encoding}, {options.get('encoding')} are needed"
            )


def _check_no_cell(file: str, cell: str | None) -> None:
    if cell is not None:
        raise ArchitectureError(f"{file} gives its cells itself; write it without :{cell}")
