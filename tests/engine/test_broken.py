"""The comparison finds what it is there to find: deliberately broken fast paths fail it, in every dtype."""

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import rnnlab.engine.autograd
import rnnlab.engine.cell_program
import rnnlab.engine.nodes
from rnnlab import CELLS, Architecture, Expression, architecture, nonlinearity, sigmoid, tanh
from rnnlab.engine.state import State
from tests.engine.comparison import TOLERANCES, DifferenceError, compare, poisoned_memory

Patch = Callable[[pytest.MonkeyPatch], None]
Values = dict[str, Tensor]


@dataclass(frozen=True)
class Broken:
    """A defect of the fast path: a network in which it shows, what breaks it, and the first result that must differ."""

    network: str
    patch: Patch
    shows_in: str
    steps_before: int = 0


def around_run(
    change: Callable[[Architecture, Values, Values, State | None], tuple[Values, Values, State | None]],
) -> Patch:
    """The fast path with something done to what it is given."""

    def patch(monkeypatch: pytest.MonkeyPatch) -> None:
        run = rnnlab.engine.autograd.run_cpu

        def broken(
            pool: Any, parameters: Values, inputs: Values, state: State | None, **options: bool
        ) -> tuple[Values, State]:
            return run(pool, *change(pool.program.architecture, parameters, inputs, state), **options)

        monkeypatch.setattr(rnnlab.engine.autograd, "run_cpu", broken)

    return patch


def after_run(change: Callable[[Values, State], tuple[Values, State]]) -> Patch:
    """The fast path with something done to what it returns."""

    def patch(monkeypatch: pytest.MonkeyPatch) -> None:
        run = rnnlab.engine.autograd.run_cpu
        monkeypatch.setattr(
            rnnlab.engine.autograd, "run_cpu", lambda *given, **options: change(*run(*given, **options))
        )

    return patch


def changed_parameters(change: Callable[[str, Tensor], Tensor]) -> Patch:
    return around_run(
        lambda _, parameters, inputs, state: ({k: change(k, v) for k, v in parameters.items()}, inputs, state)
    )


def in_cell(cell: str, update: Callable[..., Any]) -> Patch:
    """The fast path compiled from another declaration of a cell; the reference keeps the right one."""

    def patch(monkeypatch: pytest.MonkeyPatch) -> None:
        compile_cell = rnnlab.engine.nodes.compile_cell
        broken = replace(CELLS[cell], update=update)
        monkeypatch.setattr(
            rnnlab.engine.nodes,
            "compile_cell",
            lambda found, *rest, **options: compile_cell(broken if found.name == cell else found, *rest, **options),
        )

    return patch


def in_gradients(change: Callable[[dict[str, Any], dict[str, Expression]], dict[str, Expression]]) -> Patch:
    """The derivatives of a cell's formulas, from which its backward pass is compiled, changed."""

    def patch(monkeypatch: pytest.MonkeyPatch) -> None:
        gradients = rnnlab.engine.cell_program.gradients
        monkeypatch.setattr(
            rnnlab.engine.cell_program, "gradients", lambda outputs, of: change(outputs, gradients(outputs, of))
        )

    return patch


ZERO = Expression("number", number=0.0)


def _swapped_lstm(gates: Any, carried: Any) -> dict[str, Expression]:
    memory = sigmoid(gates.i) * carried.c + sigmoid(gates.f) * nonlinearity(gates.g)
    return {"h": sigmoid(gates.o) * tanh(memory), "c": memory}


def _kept_and_new_exchanged(gates: Any, carried: Any) -> dict[str, Expression]:
    keep = sigmoid(gates.u)
    return {"h": (1 - keep) * carried.h + keep * nonlinearity(gates.c)}


def _detached_state(network: Any, parameters: Values, inputs: Values, state: State | None) -> Any:
    return parameters, inputs, None if state is None else state.detach()


def _from_step_zero(network: Any, parameters: Values, inputs: Values, state: State | None) -> Any:
    return parameters, inputs, None if state is None else State(state.step + 1, state.values)


def _inputs_detached(network: Any, parameters: Values, inputs: Values, state: State | None) -> Any:
    return parameters, {name: value.detach() for name, value in inputs.items()}, state


def _reversed_members(name: str, value: Tensor) -> Tensor:
    return value.flip(0) if name == "h->h[1]" else value


def _earlier(outputs: Values, state: State) -> tuple[Values, State]:
    """The outputs of the step before."""
    return {name: torch.cat([value[:, :, :1], value[:, :, :-1]], dim=2) for name, value in outputs.items()}, state


def _rounded(outputs: Values, state: State) -> tuple[Values, State]:
    """Half the digits of the dtype lost, where a sum is gathered in too low a precision."""
    lower = {torch.float32: torch.bfloat16, torch.float64: torch.float32}
    return {name: value.to(lower[value.dtype]).to(value.dtype) for name, value in outputs.items()}, state


BROKEN = {
    "gate swapped": Broken("sh:lstm", in_cell("lstm", _swapped_lstm), "outputs"),
    "old and new exchanged": Broken("sh:gru", in_cell("gru", _kept_and_new_exchanged), "outputs"),
    "bias dropped": Broken("sh:tanh", changed_parameters(lambda k, v: v * 0 if k == "h bias" else v), "outputs"),
    "initial state dropped": Broken(
        "skip-3:tanh", changed_parameters(lambda k, v: v * 0 if "initial" in k else v), "outputs"
    ),
    "read-out bias not trained": Broken(
        "sh:gru", changed_parameters(lambda k, v: v.detach() if k == "y bias" else v), "gradient of y bias"
    ),
    "gradient of the initial state missing": Broken(
        "sh:lstm", changed_parameters(lambda k, v: v.detach() if "initial" in k else v), "gradient of h initial h"
    ),
    "gradient of a matrix twice": Broken(
        "td:tanh",
        changed_parameters(lambda k, v: 2 * v - v.detach() if k == "h2->h1[1]" else v),
        "gradient of h2->h1[1]",
    ),
    "gradient of the carried state not added": Broken(
        "sh:lstm",
        in_gradients(lambda outputs, found: {k: ZERO if k.startswith("carried") else v for k, v in found.items()}),
        "gradient of",
    ),
    "gradient of the reset missing": Broken(
        "sh:gru",
        in_gradients(lambda outputs, found: dict.fromkeys(found, ZERO) if "reset" in outputs else found),
        "gradient of",
    ),
    "slope of a gate wrong by a hundredth": Broken(
        "sh:lstm",
        in_gradients(lambda outputs, found: {k: v * 1.01 if k == "gate g" else v for k, v in found.items()}),
        "gradient of",
    ),
    "gradient of the depth input missing": Broken(
        "stack-3:intersection",
        in_gradients(lambda outputs, found: {k: ZERO if k == "depth" else v for k, v in found.items()}),
        "gradient of",
    ),
    "gradient of the passed state missing": Broken(
        "skip-3:gru", around_run(_detached_state), "gradient of state", steps_before=4
    ),
    "phase of the passed state forgotten": Broken(
        "mongia-d:tanh", around_run(_from_step_zero), "outputs", steps_before=1
    ),
    "gradient of the input missing": Broken("deep-input:tanh", around_run(_inputs_detached), "gradient of input x"),
    "members mixed up": Broken("sh:gru", changed_parameters(_reversed_members), "outputs"),
    "outputs of the step before": Broken("sh:tanh", after_run(_earlier), "outputs"),
    "too few digits": Broken("td:lstm", after_run(_rounded), "outputs"),
}


@pytest.fixture(autouse=True)
def _compile_anew() -> Iterator[None]:
    """What was compiled before is forgotten, and what is compiled here with it."""
    forget()
    yield
    forget()


def forget() -> None:
    modules = [
        module for name, module in sys.modules.items() if name.startswith("rnnlab.engine") and ".native" not in name
    ]
    caches = [value for module in modules for value in vars(module).values() if hasattr(value, "cache_clear")]
    assert caches
    for cache in caches:
        cache.cache_clear()


@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize("what", BROKEN)
def test_broken_path_fails_the_comparison(what: str, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = BROKEN[what]
    network = architecture(broken.network, input_size=3, output_size=2, units=4)
    check = {"num_steps": 5, "population": 3, "steps_before": broken.steps_before, "dtypes": [dtype]}
    compare(network, **check)
    forget()
    broken.patch(monkeypatch)
    with pytest.raises(DifferenceError, match=f"{dtype}, {broken.shows_in}".replace("[", r"\[")):
        compare(network, **check)


def test_every_defect_is_in_what_it_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """A defect of the gradients alone leaves the outputs as they are: a comparison of outputs would miss it."""
    broken = BROKEN["gradient of the carried state not added"]
    broken.patch(monkeypatch)
    with pytest.raises(DifferenceError, match="gradient of"):
        compare(architecture(broken.network, input_size=3, output_size=2, units=4), num_steps=5)


def test_poisoned_memory_shows_what_was_never_written() -> None:
    with poisoned_memory():
        assert np.isnan(np.empty(3)).all()
        assert np.isnan(np.empty_like(np.zeros(3, np.float32))).all()
        assert np.empty(2, np.int64).min() > 2**60
        assert torch.empty(3).isnan().all()
        assert torch.zeros(2).new_empty(3).isnan().all()
    assert "poisoned" not in np.empty.__name__


def test_comparison_refuses_nan_and_other_shapes(monkeypatch: pytest.MonkeyPatch) -> None:
    network = architecture("sh:tanh", input_size=3, output_size=2, units=4)
    patches = {
        "outputs: off by nan": after_run(lambda y, state: ({k: v * torch.nan for k, v in y.items()}, state)),
        "outputs: shape": after_run(lambda y, state: ({k: v[..., :1] for k, v in y.items()}, state)),
        "in one of the two only": after_run(lambda y, state: (y, State(state.step, {("other", "h"): y["y"]}))),
    }
    for message, patch in patches.items():
        with monkeypatch.context() as context:
            patch(context)
            with pytest.raises(DifferenceError, match=message):
                compare(network, num_steps=2)
