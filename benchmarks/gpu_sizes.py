"""Which networks the benchmark runs, with which sizes, and what it is to reach: the issue's table."""

POPULATION = (64, 175, 300)  # batch, steps, inputs
POPULATIONS = (  # cell, units, members
    ("tanh", 256, 132),
    ("lstm", 118, 132),  # about 200,000 parameters
    ("gru", 148, 132),  # the same
    ("lstm", 256, 132),
    ("tanh", 128, 528),
)
POPULATION_GOALS = {  # at least so many times as fast, by peer, precision and network
    ("cudnn", "bf16", "tanh", 256): 25,
    ("cudnn", "bf16", "lstm", 118): 40,
    ("cudnn", "bf16", "gru", 148): 40,
    ("batched products", "bf16", "tanh", 128): 20,
} | {
    ("jax", precision, cell, units): goal
    for precision, goal in (("bf16", 3), ("tf32", 2), ("float32", 1.5))
    for cell, units, members in POPULATIONS
    # JAX compiles and tunes LSTMs of 256 units for more than 200 s where numbers are float32
    if members == 132 and (cell, units, precision) not in (("lstm", 256, "tf32"), ("lstm", 256, "float32"))
}

SINGLE = (64, 180, 27)  # batch, steps, inputs
LAYER_GOALS = {  # against cuDNN, by cell and units
    "tanh": {256: 1.0, 512: 2.0, 1024: 1.3, 2048: 1.0},
    "lstm": {256: 3.0, 512: 2.0, 1024: 1.3, 2048: 1.0},
    "gru-cudnn": {256: 3.0, 512: 2.0, 1024: 1.3, 2048: 1.0},
}
STACK_GOALS = {256: 8.0, 512: 8.0}  # four layers of LSTM, by units
BEST_OF_CUDNN = (16, 1024, 128, 768)  # batch, steps, inputs, units
NETWORK_UNITS = 256
NETWORKS_BY_HAND = (
    "td:tanh",
    "skip-21:tanh",
    "dts-2:tanh",
    "dots-2:tanh",
    "stack-8:intersection",
    "mongia-d:lstm",
)
BY_HAND_GOALS = {"loop as a CUDA graph": 5.0, "jax": 4.0}
FLASHRNN = (16, 1024, 768)  # batch, steps, units; as many inputs
FLASHRNN_BACKENDS = {  # by heads; Triton's have 64 units at most
    12: ("cuda_fused", "cuda", "triton_fused"),
    1: ("cuda_fused", "cuda"),
}
FLASHRNN_GOAL = 1.5
MEMORY_GOAL = 1.5  # times cuDNN's peak at most
FIRST_CALL_GOAL = 20.0  # seconds at most
