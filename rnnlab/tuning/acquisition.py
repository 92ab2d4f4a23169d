"""What makes a point worth trying: the logarithm of its expected improvement times its probability to be feasible."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from rnnlab.tuning.gaussian_process import Followed, GaussianProcess, Posterior

_LOG_ROOT_2PI = 0.5 * math.log(2.0 * math.pi)
_NEAR, _FAR = -1.0, -1e4  # beyond the second 1 + z·Φ/φ is mostly rounding, and 1/z² has eight digits


def log_improvement(standard: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """log h(z) with h(z) = φ(z) + z Φ(z), exact far into the tail; also Φ/h, its derivative, and φ/h.

    In the tail h = φ (1 + z Φ/φ), where Φ/φ is a scaled complementary error function; far out 1 + z Φ/φ is 1/z².

    >>> log_improvement(torch.tensor([0.0, -40.0], dtype=torch.float64))[0]
    tensor([  -0.9189, -808.2986], dtype=torch.float64)
    """
    log_density = -0.5 * standard.square() - _LOG_ROOT_2PI
    near = standard.clamp_min(_NEAR)
    density, mass = (-0.5 * near.square() - _LOG_ROOT_2PI).exp(), torch.special.ndtr(near)
    plain = density + near * mass
    tail = standard.clamp(_FAR, _NEAR)
    ratio = math.sqrt(0.5 * math.pi) * torch.special.erfcx(-tail / math.sqrt(2.0))
    share = torch.where(standard < _FAR, standard.square().reciprocal(), 1.0 + tail * ratio)
    ratio = torch.where(standard < _FAR, -standard.reciprocal(), ratio)
    is_near = standard > _NEAR
    return (
        torch.where(is_near, plain.log(), log_density + share.log()),
        torch.where(is_near, mass / plain, ratio / share),
        torch.where(is_near, density / plain, 1.0 / share),
    )


def log_expected_improvement(mean: Tensor, variance: Tensor, best: float) -> tuple[Tensor, Tensor, Tensor]:
    """log E[max(best - f, 0)] for f normal, with its derivatives by mean and variance."""
    deviation = variance.sqrt()
    value, slope, density = log_improvement((best - mean) / deviation)
    return value + deviation.log(), -slope / deviation, 0.5 * density / variance


def log_feasibility(mean: Tensor, variance: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """log P(f > 0) for f normal, with its derivatives by mean and variance."""
    deviation = variance.sqrt()
    standard = mean / deviation
    value = torch.special.log_ndtr(standard)
    slope = torch.exp(-0.5 * standard.square() - _LOG_ROOT_2PI - value)
    return value, slope / deviation, -0.5 * slope * standard / variance


class Acquisition:
    """The logarithm of expected improvement, plus that of the probability of feasibility where anything was infeasible.

    Args:
        objective: the process of the values.
        feasibility: the process of what is feasible (1) and what is not (-1), if anything is not. Both will believe the
            points of the batch.
        best: the lowest mean at a point that was observed.
    """

    def __init__(self, objective: GaussianProcess, feasibility: GaussianProcess | None, best: float) -> None:
        self._objective = objective
        self._feasibility = feasibility
        self._best = best

    def believe(self, features: Tensor) -> list[Tensor]:
        """Take one more point [columns] into the batch; returns what `Watched` points are told."""
        self._best = min(self._best, float(self._objective.mean(features[None])))
        return [process.believe(features) for process in self._processes()]

    def _processes(self) -> list[GaussianProcess]:
        return [self._objective] if self._feasibility is None else [self._objective, self._feasibility]

    def watch(self, features: Tensor) -> "Watched":
        """Fixed points whose values are to be known again after each point of the batch."""
        return Watched(self, [Followed(process, features) for process in self._processes()])

    def values(self, features: Tensor) -> Tensor:
        """For rows of features."""
        return self.value([process.posterior(features) for process in self._processes()])

    def value(self, known: Sequence[Posterior | Followed]) -> Tensor:
        """Of points, from what each process knows of them."""
        value, _, _ = log_expected_improvement(known[0].mean, known[0].variance, self._best)
        return value if len(known) == 1 else value + log_feasibility(known[1].mean, known[1].variance)[0]

    def gradients(self, features: Tensor) -> tuple[Tensor, Tensor]:
        """Values and their gradients by the features."""
        posterior = self._objective.posterior(features)
        value, *slopes = log_expected_improvement(posterior.mean, posterior.variance, self._best)
        gradient = posterior.pull(*slopes)
        if self._feasibility is not None:
            posterior = self._feasibility.posterior(features)
            chance, *slopes = log_feasibility(posterior.mean, posterior.variance)
            value, gradient = value + chance, gradient + posterior.pull(*slopes)
        return value, gradient


@dataclass(frozen=True)
class Watched:
    """The values of fixed points while a batch grows."""

    acquisition: Acquisition
    followed: list[Followed]

    def believe(self, features: Tensor, rows: Sequence[Tensor]) -> None:
        """Take over a point of the batch and what `Acquisition.believe` gave for it."""
        for followed, row in zip(self.followed, rows, strict=True):
            followed.believe(features, row)

    def values(self) -> Tensor:
        """As they are now."""
        return self.acquisition.value(self.followed)
