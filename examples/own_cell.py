"""A cell of your own: ten lines of formulas, checked against the reference path, then trained.

    python examples/own_cell.py
    python examples/own_cell.py --graph td --steps 2000

Registered under a name, a cell works in every architecture, on every path, in `train`, `tune` and `compare`.
"""

import argparse

import torch

from rnnlab import Cell, Hyperparameters, Model, architecture, nonlinearity, register_cell, sigmoid, task, train


def update(gates, carried):
    """The new state: part of the old one is kept, the rest is new and goes through an output gate.

    Gates arrive as sums of all incoming products and a bias; formulas are elementwise. Gradients follow by themselves.
    """
    keep = sigmoid(gates.keep)
    return {"h": keep * carried.h + (1 - keep) * nonlinearity(gates.new) * sigmoid(gates.out)}


def check(name: str) -> float:
    """The largest difference between the fast path and the reference path, in outputs and gradients, in float64.

    The reference path computes node by node and step by step, the way the formulas are written.
    """
    network = architecture(name, input_size=2, output_size=1, units=8)
    x = torch.randn(4, 30, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    results = []
    for path in ("auto", "reference"):
        model = Model(network, seed=0, path=path).double()  # the same initial values for both
        outputs, _ = model(x)
        gradients = torch.autograd.grad(outputs.square().sum(), list(model.parameters()))
        results.append([outputs, *gradients])
    return max((fast - slow).abs().max().item() for fast, slow in zip(*results, strict=True))


def main() -> None:
    """Register, check, train."""
    parser = argparse.ArgumentParser(description="Define a cell, check it and train it.")
    parser.add_argument("--graph", default="sh", help="an architecture of the catalogue")
    parser.add_argument("--units", type=int, default=16)
    parser.add_argument("--steps", type=int, default=100)
    given = parser.parse_args()

    # `gate_bias` names the gates whose bias starts at the hyperparameter of that name
    cell = register_cell(Cell("keeper", gates=("keep", "new", "out"), update=update, gate_bias=("keep",)))
    name = f"{given.graph}:{cell.name}"
    print(f"{cell}\nlargest difference to the reference path: {check(name):.0e}\n")

    adding = task("adding", length=10, num_evaluation=200)
    network = architecture(name, input_size=adding.input_size, output_size=adding.output_size, units=given.units)
    settings = Hyperparameters(learning_rate=1e-2, num_steps=given.steps, evaluate_every=max(1, given.steps // 4))
    run = train(network, adding, settings.with_seeds(2))  # two networks at once, of different initial values
    print(run)


if __name__ == "__main__":
    main()
