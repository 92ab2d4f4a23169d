"""Length scales, signal, trend and noise of a kernel from data: the maximum of likelihood times prior (C1).

All are positive, so what is searched is their logarithms: of each group's length scale, then of `OTHERS`.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from scipy.optimize import minimize
from torch import Tensor

from rnnlab.tuning.kernel import Kernel, matern

# of the logarithms: centre, standard deviation, lowest and highest. Values have variance 1, features lie in 0 to 1.
OTHERS = {
    "signal": (0.0, 1.0, -6.0, 6.0),
    "slope": (-4.0, 2.0, -12.0, 6.0),
    "bend": (-4.0, 2.0, -12.0, 6.0),
    "noise": (-6.0, 3.0, math.log(1e-6), 0.0),
}
# the centre grows with the root of the number of dimensions, as distances do
_LENGTH_CENTRE, _LENGTH_SPREAD, _LENGTH_BOUNDS = -1.5, 0.6, (-4.0, 10.0)
_NUM_PART, _MOST_STEPS, _STEPS_WITH_ALL = 256, 200, 8
_TOLERANCE = 1e-7


@dataclass(frozen=True)
class Data:
    """What a kernel is fitted to.

    Args:
        features: of n points, [n, columns].
        values: at them, standardised, [n].
        groups: for each column the group whose length scale it has, [columns].
        numeric: the columns that have a trend.
    """

    features: Tensor
    values: Tensor
    groups: np.ndarray
    numeric: np.ndarray

    def part(self, size: int) -> "Data":
        """Some of the points, evenly from first to last."""
        chosen = np.linspace(0, len(self.values) - 1, size).astype(int)
        return Data(self.features[chosen], self.values[chosen], self.groups, self.numeric)

    @property
    def num_groups(self) -> int:
        """How many length scales there are."""
        return int(self.groups.max()) + 1

    def prior(self) -> tuple[np.ndarray, np.ndarray]:
        """Centres and standard deviations of all parameters."""
        length = (_LENGTH_CENTRE + 0.5 * math.log(self.num_groups), _LENGTH_SPREAD)
        rows = np.array([length] * self.num_groups + [row[:2] for row in OTHERS.values()])
        return rows[:, 0], rows[:, 1]

    def kernel(self, parameters: np.ndarray) -> Kernel:
        """The kernel of some parameters."""
        lengths = torch.from_numpy(np.exp(parameters[: self.num_groups][self.groups]))
        others = dict(zip(OTHERS, np.exp(parameters[self.num_groups :]).tolist(), strict=True))
        return Kernel(lengths, torch.from_numpy(self.numeric), **others)


def fit(data: Data) -> Kernel:
    """The most likely kernel.

    Nothing is kept from an earlier fit, so that the same data always give the same kernel. Many data begin with a part
    of them, which tells nearly as much at a small share of the cost.
    """
    start, _ = data.prior()
    if len(data.values) <= 2 * _NUM_PART:
        return data.kernel(_maximise(start, data, _MOST_STEPS))
    start = _maximise(start, data.part(_NUM_PART), _MOST_STEPS)
    return data.kernel(_maximise(start, data, _STEPS_WITH_ALL))


def _maximise(start: np.ndarray, data: Data, num_steps: int) -> np.ndarray:
    def loss(parameters: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = log_posterior(parameters, data)
        return -value, -gradient

    bounds = [_LENGTH_BOUNDS] * data.num_groups + [row[2:] for row in OTHERS.values()]
    options = {"maxiter": num_steps, "ftol": _TOLERANCE}
    found: Any = minimize(loss, start, jac=True, bounds=bounds, method="L-BFGS-B", options=options)
    return found.x


def log_posterior(parameters: np.ndarray, data: Data) -> tuple[float, np.ndarray]:
    """The logarithm of likelihood times prior, up to a constant, and its gradient."""
    centre, spread = data.prior()
    away = (parameters - centre) / spread
    likelihood, gradient = log_likelihood(data.kernel(parameters), data)
    return likelihood - 0.5 * float(away @ away), gradient - away / spread


def log_likelihood(kernel: Kernel, data: Data) -> tuple[float, np.ndarray]:
    """The logarithm of the likelihood, up to a constant, and its gradient by the logarithms of all parameters."""
    rows = kernel.rows(data.features)
    signal, slopes = matern(rows.squared_distances(rows))
    signal.mul_(kernel.signal)
    covariance = torch.addmm(signal, rows.trend, rows.trend.T)
    covariance.diagonal().add_(kernel.noise)
    factor = torch.linalg.cholesky(covariance)
    inverse = torch.cholesky_inverse(factor)
    weights = inverse @ data.values
    value = -0.5 * (data.values @ weights) - factor.diagonal().log().sum()
    by_covariance = torch.addr(inverse, weights, weights, alpha=0.5, beta=-0.5)
    by_column = _by_length(rows.scaled, slopes.mul_(kernel.signal).mul_(by_covariance))
    by_trend = ((by_covariance @ rows.trend) * rows.trend).sum(0)
    first_bend = 1 + len(data.numeric)
    others = (
        (by_covariance * signal).sum(),
        by_trend[1:first_bend].sum(),
        by_trend[first_bend:].sum(),
        kernel.noise * by_covariance.trace(),
    )
    by_length = np.bincount(data.groups, weights=by_column.numpy())
    return float(value), np.concatenate([by_length, [float(each) for each in others]])


def _by_length(scaled: Tensor, by_distance: Tensor) -> Tensor:
    """The gradient by the logarithm of each column's length scale, from that by squared distances H [n, n].

    The sum over all pairs of H (x - x')² is 2 (h·x² - xᵀHx), where h are the sums of H's rows: no array of pairs by
    columns is needed.
    """
    return -4.0 * (by_distance.sum(1) @ scaled.square() - (scaled * (by_distance @ scaled)).sum(0))
