"""What the best constant answer reaches on the test split of each data set, known also without its files.

`measure_chance` of a task measures these from the files; where the files are, the tests do so and compare.
"""

from collections.abc import Mapping

# by task, with its default arguments, and by score
BASELINES: Mapping[str, Mapping[str, float]] = {
    "mnist": {"accuracy": 0.1135, "cross_entropy": 2.3010023017379226},
    "permuted-mnist": {"accuracy": 0.1135, "cross_entropy": 2.3010023017379226},
    "ptb-characters": {"bits_per_character": 4.330591439017167},
    "ptb-words": {"perplexity": 639.7854734952413},
    "text8-zhang": {"bits_per_character": 4.1192890630590355},
    "text8-collins": {"bits_per_character": 4.119288805441989},
    "jsb-chorales": {"nats_per_step": 11.061427978854093},
    "nottingham": {"nats_per_step": 10.251921569940185},
    "musedata": {"nats_per_step": 11.509658400572638},
    "piano-midi": {"nats_per_step": 11.045502531870275},
    "sst": {"accuracy": 0.23076923076923078, "cross_entropy": 1.5804926190278792},
}
