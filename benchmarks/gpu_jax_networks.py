"""Networks as a user of JAX writes them: lax.scan over time, all products that need no state hoisted out of it.

Each takes the numbers of an rnnlab network by the same names, without the population axis, inputs [T, B, I], and the
`scan` to use; it gives outputs [T, B, M].
"""

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp

Arrays = Mapping[str, Any]
Scan = Callable[..., tuple[Any, Any]]


def layer_tanh(arrays: Arrays, x: Any, scan: Scan) -> Any:
    """One tanh layer."""

    def step(h: Any, given: Any) -> tuple[Any, Any]:
        h = jnp.tanh(given + h @ arrays["h->h[1]"])
        return h, h

    states = scan(step, _initial(arrays, "h initial h", x), _given(arrays, "h", x))[1]
    return states @ arrays["h->y[0]"] + arrays["y bias"]


def layer_lstm(arrays: Arrays, x: Any, scan: Scan) -> Any:
    """One LSTM layer."""

    def step(state: tuple[Any, Any], given: Any) -> tuple[Any, Any]:
        h, c = _lstm(given + state[0] @ arrays["h->h[1]"], state[1])
        return (h, c), h

    start = (_initial(arrays, "h initial h", x), _initial(arrays, "h initial c", x))
    states = scan(step, start, _given(arrays, "h", x))[1]
    return states @ arrays["h->y[0]"] + arrays["y bias"]


def layer_gru(arrays: Arrays, x: Any, scan: Scan) -> Any:
    """One GRU layer, reset before the product."""
    units = arrays["h->h[1]"].shape[0]
    of_gates, of_candidate = arrays["h->h[1]"][:, : 2 * units], arrays["h->h[1]"][:, 2 * units :]

    def step(h: Any, given: Any) -> tuple[Any, Any]:
        reset, keep = jnp.split(jax.nn.sigmoid(given[:, : 2 * units] + h @ of_gates), 2, axis=-1)
        candidate = jnp.tanh(given[:, 2 * units :] + (reset * h) @ of_candidate)
        h = keep * h + (1 - keep) * candidate
        return h, h

    states = scan(step, _initial(arrays, "h initial h", x), _given(arrays, "h", x))[1]
    return states @ arrays["h->y[0]"] + arrays["y bias"]


def td(arrays: Arrays, x: Any, scan: Scan) -> Any:
    """Two layers, the upper one read by the lower at the next step."""

    def step(state: tuple[Any, Any], given: Any) -> tuple[Any, Any]:
        h1, h2 = state
        h1 = jnp.tanh(given + h1 @ arrays["h1->h1[1]"] + h2 @ arrays["h2->h1[1]"])
        h2 = jnp.tanh(arrays["h2 bias"] + h1 @ arrays["h1->h2[0]"] + h2 @ arrays["h2->h2[1]"])
        return (h1, h2), h2

    start = (_initial(arrays, "h1 initial h", x), _initial(arrays, "h2 initial h", x))
    states = scan(step, start, _given(arrays, "h1", x))[1]
    return states @ arrays["h2->y[0]"] + arrays["y bias"]


def skip_21(arrays: Arrays, x: Any, scan: Scan) -> Any:
    """One layer that reads itself one step and 21 steps ago, out of a ring of the last 21 states."""

    def step(state: tuple[Any, Any], given: tuple[Any, Any]) -> tuple[Any, Any]:
        (h, ring), (place, given_now) = state, given
        old = jax.lax.dynamic_index_in_dim(ring, place, keepdims=False)
        h = jnp.tanh(given_now + h @ arrays["h->h[1]"] + old @ arrays["h->h[21]"])
        return (h, jax.lax.dynamic_update_index_in_dim(ring, h, place, 0)), h

    start = _initial(arrays, "h initial h", x)
    ring = jnp.broadcast_to(start, (21, *start.shape))
    places = jnp.arange(x.shape[0], dtype=jnp.int32) % 21
    states = scan(step, (start, ring), (places, _given(arrays, "h", x)))[1]
    return states @ arrays["h->y[0]"] + arrays["y bias"]


def dts_2(arrays: Arrays, x: Any, scan: Scan) -> Any:
    """Deep transition with a shortcut past its inner layer."""
    return _deep_transition(arrays, x, scan) @ arrays["h->y[0]"] + arrays["y bias"]


def dots_2(arrays: Arrays, x: Any, scan: Scan) -> Any:
    """The same with a deep output."""
    o = jnp.tanh(_deep_transition(arrays, x, scan) @ arrays["h->o[0]"] + arrays["o bias"])
    return o @ arrays["o->y[0]"] + arrays["y bias"]


def _deep_transition(arrays: Arrays, x: Any, scan: Scan) -> Any:
    def step(h: Any, given: tuple[Any, Any]) -> tuple[Any, Any]:
        z = jnp.tanh(given[0] + h @ arrays["h->z1[1]"])
        h = jnp.tanh(given[1] + z @ arrays["z1->h[0]"] + h @ arrays["h->h[1]"])
        return h, h

    given = (_given(arrays, "z1", x), _given(arrays, "h", x))
    return scan(step, _initial(arrays, "h initial h", x), given)[1]


def stack_8_intersection(arrays: Arrays, x: Any, scan: Scan) -> Any:
    """Eight layers of +RNN, one after another, each over all steps; the upward half is hoisted."""
    depth = x @ arrays["x->h1[0] projection"] + arrays["x->h1[0] projection bias"]
    for layer in range(1, 9):
        name, below = f"h{layer}", f"h{layer - 1}" if layer > 1 else "x"
        recurrent = arrays[f"{name}->{name}[1]"]

        def step(h: Any, given: Any, recurrent: Any = recurrent) -> tuple[Any, Any]:
            gates = given + h @ recurrent
            _, candidate, _, keep = jnp.split(gates, 4, axis=-1)
            keep = jax.nn.sigmoid(keep)
            return keep * h + (1 - keep) * jnp.tanh(candidate), gates

        given = depth @ arrays[f"{below}->{name}[0]"] + arrays[f"{name} bias"]
        gates = scan(step, _initial(arrays, f"{name} initial h", x), given)[1]
        candidate, _, keep, _ = jnp.split(gates, 4, axis=-1)
        keep = jax.nn.sigmoid(keep)
        depth = keep * depth + (1 - keep) * jax.nn.relu(candidate)
    return depth @ arrays["h8->y[0]"] + arrays["y bias"]


def mongia_d_lstm(arrays: Arrays, x: Any, scan: Scan) -> Any:
    """LSTM with two matrices in turn, two steps at a time; every second step adds the state of two steps ago."""
    if x.shape[0] % 2:
        raise ValueError(f"an even number of steps, got {x.shape[0]}")
    biases = jnp.stack([arrays["h@0 bias"], arrays["h@1 bias"]])[:, None]

    def step(state: tuple[Any, Any], given: Any) -> tuple[Any, Any]:
        before, c = state
        first, c = _lstm(given[0] + before @ arrays["W1"], c)
        second, c = _lstm(given[1] + first @ arrays["W2"], c)
        second = second + before
        return (second, c), jnp.stack([first, second])

    start = (_initial(arrays, "h@1 initial h", x), _initial(arrays, "h@1 initial c", x))
    given = (x @ arrays["Wx"]).reshape(-1, 2, x.shape[1], arrays["Wx"].shape[1]) + biases
    states = scan(step, start, given)[1]
    return states.reshape(*x.shape[:2], -1) @ arrays["Wo"] + arrays["by"]


def _lstm(gates: Any, c: Any) -> tuple[Any, Any]:
    i, f, o, g = jnp.split(gates, 4, axis=-1)
    c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
    return jax.nn.sigmoid(o) * jnp.tanh(c), c


def _given(arrays: Arrays, name: str, x: Any) -> Any:
    """The input product of a node at all steps."""
    return x @ arrays[f"x->{name}[0]"] + arrays[f"{name} bias"]


def _initial(arrays: Arrays, name: str, x: Any) -> Any:
    """The learned state before the first step, for every sequence of the batch."""
    return jnp.broadcast_to(arrays[name], (x.shape[1], arrays[name].shape[-1]))


NETWORKS: dict[str, Callable[[Arrays, Any, Scan], Any]] = {
    "sh:tanh": layer_tanh,
    "sh:lstm": layer_lstm,
    "sh:gru": layer_gru,
    "td:tanh": td,
    "skip-21:tanh": skip_21,
    "dts-2:tanh": dts_2,
    "dots-2:tanh": dots_2,
    "stack-8:intersection": stack_8_intersection,
    "mongia-d:lstm": mongia_d_lstm,
}
"""Every network by its name in the catalogue."""
