"""Random small architectures, valid by construction, with everything that an architecture may have."""

from dataclasses import replace

from hypothesis import strategies as st

from rnnlab import CELLS, Architecture, EdgeSpec, NodeSpec

PLAIN = ("tanh", "relu", "irnn")
ONE_PART = (*PLAIN, "ugrnn", "gru", "gru-cudnn", "mgu")  # cells whose state is h alone may follow one another in time
FAMILIES = (ONE_PART, ("lstm", "lstm-edges"), ("intersection",))

Keys = list[tuple[str, int]]


@st.composite
def architectures(draw: st.DrawFn, *, can_stream: bool = False, smooth: bool = False) -> Architecture:
    """Networks of one to three phases with any cells, delays, ties, ports, skips and initial states.

    Args:
        draw: hypothesis' own.
        can_stream: without negative delays, so that a sequence can be cut and continued.
        smooth: without relu, whose slope jumps where rounding errors of float32 can reach.
    """
    period = draw(st.integers(1, 3))
    inputs, hidden, outputs = (draw(_names(letters)) for letters in ("xw", "abc", "yz"))
    phases = {name: draw(_phases(period)) for name in (*inputs, *hidden)}
    phases |= {name: list(range(period)) for name in outputs}
    keys = [(name, phase) for name in (*inputs, *hidden, *outputs) for phase in phases[name]]
    same = draw(st.none() | st.integers(1, 3))
    units = {name: same or draw(st.integers(1, 3)) for name in phases}
    backward = draw(st.sets(st.sampled_from(hidden[1:]))) if hidden[1:] and not can_stream else set()
    families = {name: draw(st.sampled_from(FAMILIES[: 2 if smooth else 3])) for name in hidden}
    cells = {
        key: draw(st.sampled_from([cell for cell in families[key[0]] if not (smooth and cell in ("relu", "irnn"))]))
        for key in keys
        if key[0] in families
    }
    edges = _edges(draw, keys, set(inputs), backward, period, cells)
    moves = {name: 0 if can_stream or draw(st.booleans()) else draw(st.integers(-2, 2)) for name in phases}
    edges = [_moved(edge, (moves[edge.source[0]] - moves[edge.target[0]]) * period) for edge in edges]
    tokens = {name for name in inputs if draw(st.integers(0, 3)) == 0}
    nodes = [
        NodeSpec(
            name=name,
            phase=phase,
            kind="input" if name in inputs else "output" if name in outputs else "hidden",
            units=units[name],
            cell=cells.get((name, phase)),
            nonlinearity=draw(st.sampled_from([None, "tanh"] if smooth else [None, "tanh", "relu"]))
            if name in hidden
            else None,
            encoding="tokens" if name in tokens else "values",
            initial=draw(st.sampled_from(["learned", "zero"])),
        )
        for name, phase in keys
    ]
    edges = _with_roles(draw, edges, cells, units, tokens)
    edges += [
        EdgeSpec(source=edge.source, target=edge.target, delay=edge.delay, transform="identity", port=edge.port)
        for edge in edges
        if units[edge.source[0]] == units[edge.target[0]]
        and edge.source[0] not in tokens
        and draw(st.integers(0, 3)) == 0
    ]
    made = Architecture(nodes, edges, period)
    return _tied(draw, made) if draw(st.booleans()) else made


def _names(letters: str) -> st.SearchStrategy[list[str]]:
    return st.integers(1, len(letters)).map(lambda count: list(letters[:count]))


def _phases(period: int) -> st.SearchStrategy[list[int]]:
    every = list(range(period))
    return st.just(every) | st.lists(st.sampled_from(every), min_size=1, unique=True).map(sorted)


def _edges(
    draw: st.DrawFn,
    keys: Keys,
    inputs: set[str],
    backward: set[str],
    period: int,
    cells: dict[tuple[str, int], str],
) -> list[EdgeSpec]:
    """Dense edges. Delay 0 leads from an earlier key to a later one only; backward nodes never feed forward ones.

    So every cycle has a delay of one sign. Every hidden node reads its own past (backward nodes their own future), and
    +RNN nodes an earlier node at delay 0.
    """
    targets = [key for key in keys if key[0] not in inputs]
    pairs: list[tuple[tuple[str, int], tuple[str, int], int]] = [
        (key, target, draw(st.integers(0, 2)))
        for target in targets
        for key in draw(st.lists(st.sampled_from(keys), max_size=3))
    ]
    own: list[tuple[tuple[str, int], tuple[str, int], int]] = []
    for target in targets:
        if target in cells:
            sources = [key for key in keys if key[0] == target[0]]
            own.append((draw(st.sampled_from(sources)), target, draw(st.integers(0, 1))))
    found: dict[tuple[tuple[str, int], tuple[str, int], int], EdgeSpec] = {}
    for number, (source, target, laps) in enumerate([*own, *pairs]):
        if source[0] in backward and target[0] not in backward and target in cells:
            continue
        way = -1 if target[0] in backward and source[0] in backward else 1
        delay = way * ((way * (target[1] - source[1])) % period + laps * period)
        is_own = number < len(own)
        if delay == 0 and (is_own or keys.index(source) >= keys.index(target)):
            delay = way * period
        carry = True if is_own and CELLS[cells[target]].carries else None
        found.setdefault((source, target, delay), EdgeSpec(source=source, target=target, delay=delay, carry=carry))
    # where time runs both ways, a read-out that feeds others could join cycles of either direction
    feeds_none = {key for key in targets if key not in cells} if backward else set()
    return [edge for edge in found.values() if edge.source not in feeds_none]


def _moved(edge: EdgeSpec, change: int) -> EdgeSpec:
    """Nodes moved in time: delays change, their sums round cycles do not."""
    return replace(edge, delay=edge.delay + change)


def _with_roles(
    draw: st.DrawFn,
    edges: list[EdgeSpec],
    cells: dict[tuple[str, int], str],
    units: dict[str, int],
    tokens: set[str],
) -> list[EdgeSpec]:
    """Depth inputs of +RNN nodes, further carry edges of lstm-edges nodes, ports of what +RNN nodes hand on."""
    roles: list[EdgeSpec] = []
    has_depth: set[tuple[str, int]] = set()
    for edge in edges:
        target, source = cells.get(edge.target), cells.get(edge.source)
        is_possible = target == "intersection" and not edge.carry and edge.source[0] not in tokens
        if is_possible and edge.target not in has_depth:
            edge = replace(edge, role="depth")
            has_depth.add(edge.target)
        fits = source in ("lstm", "lstm-edges") and units[edge.source[0]] == units[edge.target[0]]
        if target == "lstm-edges" and fits and draw(st.integers(0, 3)):
            edge = replace(edge, carry=True)
        if source == "intersection" and draw(st.booleans()):
            edge = replace(edge, port=draw(st.sampled_from("hy")))
        roles.append(edge)
    for key, cell in cells.items():
        if cell == "intersection" and key not in has_depth:
            # nothing else leads here: its own past also serves as its depth input
            number = next(n for n, edge in enumerate(roles) if edge.target == key and edge.carry)
            roles[number] = replace(roles[number], role="depth")
    return roles


def _tied(draw: st.DrawFn, made: Architecture) -> Architecture:
    """Matrices and biases of equal shape and gates shared at random."""
    weights: list[EdgeSpec] = []
    for edge in made.edges:
        if edge.transform == "dense" and draw(st.booleans()):
            matrix, *projection = made._edge_parameters(edge)
            shape = (matrix.category, matrix.shape, matrix.blocks, [each.shape for each in projection])
            edge = replace(edge, weights=f"tied {draw(st.integers(0, 1))} {shape}")
        weights.append(edge)
    biases: list[NodeSpec] = []
    for node in made.nodes:
        if node.kind != "input" and draw(st.booleans()):
            node = replace(node, bias=f"shared {node.kind} {node.units} {made.gates(node.key)}")
        biases.append(node)
    return Architecture(biases, weights, made.period)
