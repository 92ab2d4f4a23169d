"""The slow, obvious twin of the Gaussian process: plain loops, dense solves, and mpmath for the tails."""

import math

import mpmath
import numpy as np

from rnnlab.tuning.kernel import Kernel


def covariance(kernel: Kernel, one: np.ndarray, other: np.ndarray) -> float:
    """Of the function at two rows of features."""
    lengths = kernel.length_scales.numpy()
    r = math.sqrt(sum(((a - b) / length) ** 2 for a, b, length in zip(one, other, lengths, strict=True)))
    matern = (1 + math.sqrt(5) * r + 5 * r * r / 3) * math.exp(-math.sqrt(5) * r)
    trend = 1.0
    for column in kernel.numeric.tolist():
        a, b = 2 * one[column] - 1, 2 * other[column] - 1
        trend += kernel.slope * a * b + kernel.bend * a * a * b * b
    return kernel.signal * matern + trend


def covariances(kernel: Kernel, ones: np.ndarray, others: np.ndarray) -> np.ndarray:
    return np.array([[covariance(kernel, one, other) for other in others] for one in ones])


def posterior(
    kernel: Kernel, features: np.ndarray, values: np.ndarray, at: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance at rows of features, from the whole matrix."""
    whole = covariances(kernel, features, features) + kernel.noise * np.eye(len(features))
    towards = covariances(kernel, features, at)
    known = towards.T @ np.linalg.solve(whole, towards)
    return towards.T @ np.linalg.solve(whole, values), np.diag(covariances(kernel, at, at) - known)


def log_likelihood(kernel: Kernel, features: np.ndarray, values: np.ndarray) -> float:
    whole = covariances(kernel, features, features) + kernel.noise * np.eye(len(features))
    return -0.5 * float(values @ np.linalg.solve(whole, values)) - 0.5 * float(np.linalg.slogdet(whole)[1])


def log_improvement(standard: float) -> tuple[float, float, float]:
    """log h, Φ/h and φ/h for h(z) = φ(z) + z Φ(z), with as many digits as the tail takes.

    Φ and φ are both taken times exp(z²/2), because mpmath's own would be 0 far out.
    """
    with mpmath.workdps(60):
        z = mpmath.mpf(standard)
        density = 1 / mpmath.sqrt(2 * mpmath.pi)
        mass = mpmath.quad(lambda t: mpmath.exp(z * t - t * t / 2), [0, _scale(z), 4 * _scale(z), mpmath.inf]) * density
        whole = density + z * mass
        return float(mpmath.log(whole) - z * z / 2), float(mass / whole), float(density / whole)


def _scale(z: mpmath.mpf) -> mpmath.mpf:
    return 1 / (1 + abs(z))


def log_feasibility(mean: float, variance: float) -> float:
    with mpmath.workdps(60):
        return float(mpmath.log(mpmath.ncdf(mpmath.mpf(mean) / mpmath.sqrt(mpmath.mpf(variance)))))
