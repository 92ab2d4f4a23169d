"""Graphs from files and to files, in the JSON form."""

import json
from pathlib import Path
from typing import Any

from rnnlab.errors import GraphError
from rnnlab.graph.cyclic import CyclicGraph, checked_graph


def load_graph(path: str | Path) -> CyclicGraph:
    """The graph in a JSON file.

    Raises:
        GraphError: the file cannot be read, is not JSON, or describes no valid graph; the message names the file.
    """
    data = read_json(path)
    try:
        return CyclicGraph.from_json(data)
    except GraphError as error:
        raise GraphError(f"{path}: {error}") from error


def save_graph(graph: CyclicGraph, path: str | Path) -> None:
    """Write the graph to a JSON file, with one node or edge per line."""
    write_json(checked_graph(graph, "save_graph").to_json(), path)


def read_json(path: str | Path) -> Any:
    """What a JSON file holds; a GraphError names the file where it cannot be read."""
    try:
        return json.loads(Path(path).read_text(encoding="utf-8-sig"), object_pairs_hook=_without_repeats)
    except OSError as error:
        raise GraphError(f"cannot read {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise GraphError(f"{path} is not UTF-8 text: {error.reason} at byte {error.start}") from error
    except RecursionError as error:
        raise GraphError(f"{path} is not a graph: its brackets nest too deeply") from error
    except ValueError as error:
        raise GraphError(f"{path} is not JSON: {error}") from error


def write_json(data: dict[str, Any], path: str | Path) -> None:
    """Write a graph or an architecture in its JSON form, with one node or edge per line."""
    rows = {key: ",\n    ".join(json.dumps(row, ensure_ascii=False) for row in data[key]) for key in ("nodes", "edges")}
    lists = ",\n".join(f'  "{key}": [\n    {text}\n  ]' for key, text in rows.items())
    Path(path).write_text(f'{{\n  "period": {data["period"]},\n{lists}\n}}\n', encoding="utf-8")


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"the key {key!r} stands twice in one object")
        found[key] = value
    return found
