"""A Gaussian process with what was observed, and what is believed of points that are still to be tried."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from rnnlab.tuning.kernel import Kernel, Rows

# variances below this share of the signal are rounding errors
_LEAST = 1e-12


class GaussianProcess:
    """The distribution of a function, given values at some points, and points where its mean is believed.

    A mean that is believed changes no mean anywhere, only variances. Each such point adds one row to the Cholesky
    factor of all covariances: `_cross` [n, m] and `_corner` [m, m] are the rows of m points below the n observed ones.

    Args:
        kernel: its covariances.
        features: of the points observed, [n, columns].
        values: at these points, [n].
    """

    def __init__(self, kernel: Kernel, features: Tensor, values: Tensor) -> None:
        self.kernel = kernel
        self._rows = self._observed = kernel.rows(features)
        covariance, _ = kernel.between(self._rows, self._rows)
        covariance.diagonal().add_(kernel.noise)
        self._factor = torch.linalg.cholesky(covariance)
        self._weights = torch.cholesky_solve(values[:, None], self._factor)[:, 0]
        self._cross = torch.empty(len(features), 0, dtype=torch.float64)
        self._corner = torch.empty(0, 0, dtype=torch.float64)

    def mean(self, features: Tensor) -> Tensor:
        """The mean of the function at rows of features."""
        return self.kernel.between(self.kernel.rows(features), self._observed)[0] @ self._weights

    def believe(self, features: Tensor) -> Tensor:
        """Believe the mean at one more point [columns]; returns the row [n + m + 1] that the factor grew by."""
        row, size = self.kernel.rows(features[None]), len(self._corner)
        towards, corner = self._known(self.kernel.between(self._rows, row)[0])
        known = float(towards.square().sum() + corner.square().sum())
        left = float(self.kernel.variances(row)) + self.kernel.noise - known
        added = torch.cat([corner[:, 0], torch.tensor([math.sqrt(max(left, self.kernel.noise))], dtype=torch.float64)])
        grown = torch.zeros(size + 1, size + 1, dtype=torch.float64)
        grown[:size, :size] = self._corner
        grown[size] = added
        self._rows = self._rows.with_row(row)
        self._cross = torch.cat([self._cross, towards], 1)
        self._corner = grown
        return torch.cat([towards[:, 0], added])

    def posterior(self, features: Tensor) -> "Posterior":
        """Mean and variance of the function at rows of features [q, columns]."""
        rows = self.kernel.rows(features)
        covariances, slopes = self.kernel.between(self._rows, rows)
        towards, corner = self._known(covariances)
        mean = self._weights @ covariances[: len(self._observed)]
        variance = self.kernel.variances(rows) - towards.square().sum(0) - corner.square().sum(0)
        return Posterior(mean, variance.clamp_min_(_LEAST * self.kernel.signal), self, rows, slopes, towards, corner)

    def _known(self, covariances: Tensor) -> tuple[Tensor, Tensor]:
        """The factor's inverse times covariances [n + m, q]: its squares are what is known of each of q points."""
        towards = torch.linalg.solve_triangular(self._factor, covariances[: len(self._observed)], upper=False)
        rest = covariances[len(self._observed) :] - self._cross.T @ towards
        return towards, torch.linalg.solve_triangular(self._corner, rest, upper=False)

    def pull(self, posterior: "Posterior", by_mean: Tensor, by_variance: Tensor) -> Tensor:
        """See `Posterior.pull`."""
        corner = torch.linalg.solve_triangular(self._corner.T, posterior.corner, upper=True)
        rest = posterior.towards - self._cross @ corner
        towards = torch.linalg.solve_triangular(self._factor.T, rest, upper=True)
        by_covariance = torch.cat([towards, corner]).mul_(-2.0 * by_variance)
        by_covariance[: len(self._observed)] += self._weights[:, None] * by_mean
        gradient = self.kernel.pull(posterior.rows, self._rows, by_covariance, posterior.slopes)
        return gradient + self.kernel.pull_variances(posterior.rows, by_variance)


@dataclass(frozen=True)
class Posterior:
    """What a process says of q points: mean [q] and variance [q], and what their gradients need."""

    mean: Tensor
    variance: Tensor
    process: GaussianProcess
    rows: Rows
    slopes: Tensor
    towards: Tensor
    corner: Tensor

    def pull(self, by_mean: Tensor, by_variance: Tensor) -> Tensor:
        """The gradient by the features [q, columns] of something, from its gradients by mean and variance [q]."""
        return self.process.pull(self, by_mean, by_variance)


class Followed:
    """Mean and variance at fixed points, kept up to date at the cost of one row for each point believed."""

    def __init__(self, process: GaussianProcess, features: Tensor) -> None:
        posterior = process.posterior(features)
        self._kernel = process.kernel
        self._rows = posterior.rows
        self._known = torch.cat([posterior.towards, posterior.corner])
        self.mean, self.variance = posterior.mean, posterior.variance

    def believe(self, features: Tensor, row: Tensor) -> None:
        """Take over a point [columns] with the row that `GaussianProcess.believe` gave for it."""
        covariances = self._kernel.between(self._kernel.rows(features[None]), self._rows)[0][0]
        added = (covariances - row[:-1] @ self._known) / row[-1]
        self._known = torch.cat([self._known, added[None]])
        self.variance = (self.variance - added.square()).clamp_min(_LEAST * self._kernel.signal)
