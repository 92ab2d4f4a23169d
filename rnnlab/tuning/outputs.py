"""Values made fit for a Gaussian process: most of them near 0, none far away."""

import numpy as np

_FAR = 3.0  # in units of the spread of the middle half


def standardised(values: np.ndarray) -> np.ndarray:
    """Values with mean 0 and standard deviation 1, those far above the rest pulled in; order and good values stay.

    Losses have heavy tails upwards, and a single one of 1e6 would make all others look alike.

    >>> standardised(np.array([1.0, 2.0, 3.0, 4.0, 1e6])).round(1)
    array([-0.6, -0.5, -0.5, -0.4,  2. ])
    """
    largest = np.abs(values).max(initial=0.0)
    if largest == 0.0:
        return np.zeros(len(values))
    values = values / largest  # so that no difference overflows
    middle = np.median(values)
    spread = np.subtract(*np.quantile(values, [0.75, 0.25]))
    if spread > 0:
        far = middle + _FAR * spread
        values = np.where(values > far, far + spread * np.log1p(np.maximum(values - far, 0.0) / spread), values)
    deviation = values.std()
    return (values - values.mean()) / (deviation if deviation > 0 else 1.0)
