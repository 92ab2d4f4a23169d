"""Graphs from files and to files, in the JSON form; and what a user may write where a graph is wanted."""

import json
from pathlib import Path

from rnnlab.errors import GraphError
from rnnlab.graph.catalogue import named_graph
from rnnlab.graph.cyclic import CyclicGraph


def find_graph(name_or_file: str) -> CyclicGraph:
    """The graph that a user means: a name of the catalogue, or a JSON file (what ends in .json or holds a slash)."""
    is_file = name_or_file.endswith(".json") or "/" in name_or_file or "\\" in name_or_file
    return load_graph(name_or_file) if is_file else named_graph(name_or_file)


def load_graph(path: str | Path) -> CyclicGraph:
    """The graph in a JSON file.

    Raises:
        GraphError: the file cannot be read, is not JSON, or describes no valid graph; the message names the file.
    """
    try:
        data = json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise GraphError(f"cannot read {path}: {error.strerror}") from error
    except ValueError as error:
        raise GraphError(f"{path} is not JSON: {error}") from error
    try:
        return CyclicGraph.from_json(data)
    except GraphError as error:
        raise GraphError(f"{path}: {error}") from error


def save_graph(graph: CyclicGraph, path: str | Path) -> None:
    """Write the graph to a JSON file, one node and one edge a line."""
    data = graph.to_json()
    rows = {key: ",\n    ".join(json.dumps(row, ensure_ascii=False) for row in data[key]) for key in ("nodes", "edges")}
    lists = ",\n".join(f'  "{key}": [\n    {text}\n  ]' for key, text in rows.items())
    text = f'{{\n  "period": {graph.period},\n{lists}\n}}\n'
    Path(path).write_text(text, encoding="utf-8")
