"""The circumstances in which trials are trained, as their records tell them: who, where, and with which versions."""

import os
import platform
import uuid
from typing import Any

import torch

from rnnlab.tuning.arms import Arm
from rnnlab.tuning.lots import Lot
from rnnlab.version import VERSION


def worker_name() -> str:
    """A name for a new worker, which no other has."""
    return f"{platform.node()}:{os.getpid()}:{uuid.uuid4().hex[:8]}"


def device_name(device: torch.device) -> str:
    """A device by its kind: of a GPU, the model."""
    return torch.cuda.get_device_name(device) if device.type == "cuda" else str(device)


def circumstances(lot: Lot, arm: Arm, path: str, *, device: torch.device, worker: str) -> dict[str, Any]:
    """Those of the trials of a lot.

    Args:
        lot: of which lot.
        arm: whose trials they are.
        path: the path of the engine that trained them.
        device: where.
        worker: the name of the worker.
    """
    return {
        "path": path,
        "device": device_name(device),
        "precision": arm.precision if path.startswith("gpu") else "float32",  # others do not ask for one
        "seed": arm.seed,
        "rnnlab": VERSION,
        "torch": torch.__version__,
        "worker": worker,
        "num_lost": lot.num_lost,
        "num_resumed": lot.generation,
    }
