"""The Matérn 5/2 kernel with a length scale for each group of columns (C1)."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

_ROOT5 = math.sqrt(5.0)


def matern(squared: Tensor) -> tuple[Tensor, Tensor]:
    """Matérn 5/2 of squared distances r², (1 + √5 r + 5/3 r²) exp(-√5 r), and its derivative by r².

    The derivative, -5/6 (1 + √5 r) exp(-√5 r), has no singularity at 0, unlike that by r.
    """
    scaled = squared.clamp_min(0.0).sqrt_().mul_(_ROOT5)
    decay = torch.exp(-scaled)
    linear = scaled.add_(1.0)
    slope = linear.mul(decay)
    value = squared.mul(5.0 / 3.0).add_(linear).mul_(decay)
    return value, slope.mul_(-5.0 / 6.0)


@dataclass(frozen=True)
class Rows:
    """Rows of features as a kernel needs them; made once where they are compared often.

    Args:
        features: themselves, [n, columns].
        scaled: divided by the length scales.
        norms: the squared lengths of the scaled ones, [n].
        trend: rows whose products are the covariances of the trend, [n, 1 + 2 numbers].
    """

    features: Tensor
    scaled: Tensor
    norms: Tensor
    trend: Tensor

    def __len__(self) -> int:
        return len(self.features)

    def squared_distances(self, other: "Rows") -> Tensor:
        """|a - b|² of all pairs of scaled rows, [n, m]."""
        norms = self.norms[:, None] + other.norms
        return torch.addmm(norms, self.scaled, other.scaled.T, alpha=-2.0).clamp_min_(0.0)

    def with_row(self, row: "Rows") -> "Rows":
        """These and some more."""
        return Rows(*(torch.cat(pair) for pair in zip(self._parts(), row._parts(), strict=True)))

    def _parts(self) -> tuple[Tensor, ...]:
        return self.features, self.scaled, self.norms, self.trend


@dataclass(frozen=True)
class Kernel:
    """Matérn 5/2 of scaled features, plus a trend, plus noise.

    The trend is a constant and a parabola along each number, with normally distributed coefficients: most
    hyperparameters have a best value somewhere in the middle, and far from all data this is what is left of them.

    Args:
        length_scales: of each column; columns of one group have the same, [columns].
        numeric: the columns of numbers, which have a trend.
        signal: the variance of the part without trend.
        slope, bend: the variances of the coefficients of 2x - 1 and of its square.
        noise: the variance of what is observed around the function.
    """

    length_scales: Tensor
    numeric: Tensor
    signal: float
    slope: float
    bend: float
    noise: float

    def rows(self, features: Tensor) -> Rows:
        """Rows of features [n, columns], made ready."""
        scaled, centred = features / self.length_scales, self._centred(features)
        ones = torch.ones(len(features), 1, dtype=torch.float64)
        trend = torch.cat([ones, math.sqrt(self.slope) * centred, math.sqrt(self.bend) * centred.square()], 1)
        return Rows(features, scaled, scaled.square().sum(1), trend)

    def _centred(self, features: Tensor) -> Tensor:
        return features[:, self.numeric].mul_(2.0).sub_(1.0)

    def between(self, one: Rows, other: Rows) -> tuple[Tensor, Tensor]:
        """Covariances of the function at all pairs, [n, m], and their derivatives by the squared distance."""
        value, slope = matern(one.squared_distances(other))
        return torch.addmm(value, one.trend, other.trend.T, beta=self.signal), slope.mul_(self.signal)

    def variances(self, rows: Rows) -> Tensor:
        """Of the function, before anything is observed."""
        return self.signal + rows.trend.square().sum(1)

    def pull(self, rows: Rows, others: Rows, by_covariance: Tensor, slopes: Tensor) -> Tensor:
        """The gradient by the features of rows [q, columns], from that by their covariances to others [n, q].

        `slopes` are what `between` gave for others and rows.
        """
        by_distance = by_covariance * slopes
        moved = rows.features * by_distance.sum(0)[:, None] - by_distance.T @ others.features
        gradient = 2.0 * moved / self.length_scales**2
        _, by_slope, by_bend = torch.tensor_split(by_covariance.T @ others.trend, (1, 1 + len(self.numeric)), 1)
        slope, bend = math.sqrt(self.slope), math.sqrt(self.bend)
        gradient[:, self.numeric] += 2.0 * slope * by_slope + 4.0 * bend * self._centred(rows.features) * by_bend
        return gradient

    def pull_variances(self, rows: Rows, by_variance: Tensor) -> Tensor:
        """The gradient by the features of rows [q, columns], from that by their `variances` [q]."""
        gradient = torch.zeros_like(rows.features)
        centred = self._centred(rows.features)
        gradient[:, self.numeric] = (4.0 * self.slope * centred + 8.0 * self.bend * centred**3) * by_variance[:, None]
        return gradient
