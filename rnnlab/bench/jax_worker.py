"""The JAX side of a race, in a process of its own: `python -m rnnlab.bench.jax_worker`, driven by `jax_peers`.

Messages are pickled, in on standard input, out on standard output. The network is lax.scan over time with the input
product hoisted, under jit; a population is vmap over it. Unrolling the scan makes it slower here, so it stays rolled.
"""

import gc
import pickle
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, BinaryIO

import jax  # pyright: ignore[reportMissingImports]
import jax.numpy as jnp  # pyright: ignore[reportMissingImports]
import numpy as np

Numbers = dict[str, Any]


def tanh(numbers: Numbers, h: Any, given: Any) -> tuple[Any, Any]:
    """One step of a tanh layer: new state, output."""
    h = jnp.tanh(given + h @ numbers["wh"])
    return h, h


def gru(numbers: Numbers, h: Any, given: Any) -> tuple[Any, Any]:
    """One step of torch's GRU, reset after the product."""
    r, z, n = jnp.split(h @ numbers["wh"], 3, axis=-1)
    given_r, given_z, given_n = jnp.split(given, 3, axis=-1)
    candidate = jnp.tanh(given_n + jax.nn.sigmoid(given_r + r) * (n + numbers["bn"]))
    update = jax.nn.sigmoid(given_z + z)
    h = update * h + (1 - update) * candidate
    return h, h


def lstm(numbers: Numbers, state: Any, given: Any) -> tuple[Any, Any]:
    """One step of torch's LSTM."""
    h, c = state
    i, f, g, o = jnp.split(given + h @ numbers["wh"], 4, axis=-1)
    c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
    h = jax.nn.sigmoid(o) * jnp.tanh(c)
    return (h, c), h


STEPS: dict[str, Callable[[Numbers, Any, Any], tuple[Any, Any]]] = {"tanh": tanh, "gru": gru, "lstm": lstm}


def outputs(cell: str, numbers: Numbers, x: Any) -> Any:
    """All states [T, B, H] for inputs [T, B, I]."""
    zeros = jnp.zeros((x.shape[1], numbers["wh"].shape[0]))
    start = (zeros, zeros) if cell == "lstm" else zeros
    return jax.lax.scan(
        lambda state, given: STEPS[cell](numbers, state, given), start, x @ numbers["wx"] + numbers["b"]
    )[1]


class Race:
    """A compiled training step of one network or a population of them.

    Args:
        cell: a key of `STEPS`.
        numbers: wx [I, G·H], wh [H, G·H], b [G·H], for a GRU also bn [H]; P in front for a population.
        x: [T, B, I], P in front for a population.
        dy: the gradient of the outputs, [T, B, H], P in front for a population.
    """

    def __init__(self, cell: str, numbers: Numbers, x: Any, dy: Any) -> None:
        def training_step(numbers: Numbers, x: Any, dy: Any) -> tuple[Any, Any]:
            y, backward = jax.vjp(lambda numbers: outputs(cell, numbers, x), numbers)
            return y, backward(dy)[0]

        def with_inputs(numbers: Numbers, x: Any, dy: Any) -> tuple[Any, Any]:
            y, backward = jax.vjp(lambda numbers, x: outputs(cell, numbers, x), numbers, x)
            return y, backward(dy)

        is_population = np.ndim(x) == 4
        self._step = jax.jit(jax.vmap(training_step) if is_population else training_step)
        self._all = jax.jit(jax.vmap(with_inputs) if is_population else with_inputs)
        self._given = jax.device_put((numbers, x, dy))

    def results(self) -> dict[str, Any]:
        """Output, gradient of the input, and gradients of the numbers by name."""
        y, (numbers, x) = self._all(*self._given)
        named = {f"gradient of {name}": value for name, value in numbers.items()}
        return {name: np.asarray(value) for name, value in {"output": y, "gradient of x": x, **named}.items()}

    def times(self, count: int) -> list[float]:
        """The seconds that each of so many training steps takes."""
        found: list[float] = []
        for _ in range(count):
            start = time.perf_counter()
            jax.block_until_ready(self._step(*self._given))
            found.append(time.perf_counter() - start)
        return found


def serve(requests: BinaryIO, answers: BinaryIO) -> None:
    """Answer until the requests end: a tuple makes a new race and asks for its results, a number asks for times."""
    race: Race | None = None
    gc.disable()  # as on the other side, it never runs within a step
    while True:
        try:
            request = pickle.load(requests)
        except EOFError:
            return
        if isinstance(request, tuple):
            race = None
            jax.clear_caches()
            gc.collect()
            race = Race(*request)
            answer: Any = race.results()
        else:
            assert race is not None
            answer = race.times(request)
        pickle.dump(answer, answers)
        answers.flush()


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):  # the command that drives this process says that it was stopped
        serve(sys.stdin.buffer, sys.stdout.buffer)
