"""Candidates moved uphill: the numbers of several points at once, their categories as they are."""

from typing import Any

import numpy as np
import torch
from scipy.optimize import minimize

from rnnlab.tuning.acquisition import Acquisition
from rnnlab.tuning.encoding import Encoding


def polished(
    acquisition: Acquisition,
    encoding: Encoding,
    positions: np.ndarray,
    box: tuple[np.ndarray, np.ndarray],
    num_steps: int,
) -> np.ndarray:
    """Positions [q, D] after some steps of L-BFGS on the sum of their values, inside a box, snapped.

    Whole numbers are moved as if they had no steps and rounded at the end.
    """
    dimensions, columns = np.flatnonzero(encoding.numeric), encoding.numeric_columns
    if not len(columns):
        return positions
    features = torch.from_numpy(encoding.features(positions))
    is_active = encoding.active(positions)[:, dimensions]

    def loss(flat: np.ndarray) -> tuple[float, np.ndarray]:
        features[:, columns] = torch.from_numpy(flat.reshape(is_active.shape))
        value, gradient = acquisition.gradients(features)
        return -float(value.sum()), -(gradient[:, columns].numpy() * is_active).ravel()

    bounds = [(low, high) for low, high in zip(box[0][dimensions], box[1][dimensions], strict=True)] * len(positions)
    start, options = positions[:, dimensions].ravel(), {"maxiter": num_steps}
    found: Any = minimize(loss, start, jac=True, bounds=bounds, method="L-BFGS-B", options=options)
    moved = positions.copy()
    moved[:, dimensions] = found.x.reshape(is_active.shape)
    return encoding.snapped(moved)
