"""An architecture of your own: build its graph, measure it, draw it, and compare it with others from its file.

    python examples/own_architecture.py
    python examples/own_architecture.py --steps 2000 --trials 32 --seeds 10 --parameters 2000

Everything is written into the folder --folder. The small defaults show how it works, not which network is better.
"""

import argparse
from pathlib import Path

from rnnlab import CyclicGraph, compare, draw, measure, save_graph


def ring() -> CyclicGraph:
    """Two layers that feed each other: `a` reaches `b` one step later, `b` reaches `a` two steps later."""
    nodes = [("x", "input"), ("a",), ("b",), ("y", "output")]
    # (from, to, delay): 0 means within the same time step
    edges = [
        *(("x", "a", 0), ("b", "y", 0)),
        *(("a", "a", 1), ("a", "b", 1), ("b", "a", 2), ("b", "b", 1)),
    ]
    return CyclicGraph(nodes, edges)


def main() -> None:
    """Do all of it, in a few seconds."""
    parser = argparse.ArgumentParser(description="Measure, draw and compare an architecture of your own.")
    parser.add_argument("--folder", type=Path, default=Path("own_architecture"))
    parser.add_argument("--parameters", type=int, default=100, help="of each network, at most")
    parser.add_argument("--trials", type=int, default=2, help="hyperparameter settings to try for each")
    parser.add_argument("--seeds", type=int, default=2, help="how often to retrain the best setting of each")
    parser.add_argument("--steps", type=int, default=20, help="of each training run")
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)

    # The measures are exact, and each comes with the cycle or path that attains it.
    graph = ring()
    print(measure(graph))

    # The same network unfolded over six time steps, as a picture.
    draw(graph, unfold=6, title="ring").save(given.folder / "ring.svg")
    print(f"\nwrote {given.folder / 'ring.svg'}")

    # A comparison takes names of the catalogue and files; `file:cell` gives the graph other cells than tanh.
    save_graph(graph, given.folder / "ring.json")
    own = str(given.folder / "ring.json")
    report = compare(
        ["sh", own, f"{own}:gru"],
        {"name": "adding", "length": 10, "num_evaluation": 100},
        parameters=given.parameters,
        trials=given.trials,
        seeds=given.seeds,
        steps=given.steps,
        store=given.folder / "rnnlab.db",  # called again, it resumes or shows what is there
        output=given.folder / "report.html",
    )
    print(f"\n{report.comparison.verdict}")
    print(f"wrote {report.path}")


if __name__ == "__main__":  # workers may import this file: they must not start a comparison of their own
    main()
