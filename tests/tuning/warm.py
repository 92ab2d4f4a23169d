"""What the processes of the tests have done before they begin: imported rnnlab, and compiled the small networks."""

import sys
import tempfile
from pathlib import Path

import torch

from tests.tuning.small_studies import arm, undisturbed

if "pytest" not in sys.modules:  # pytest looks into this file too, for doctests
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as _folder:
        _arms = [arm(num_trials=4, num_steps=1), arm("lstm", cell="lstm", num_trials=4, num_steps=1)]
        undisturbed(Path(_folder), _arms, population=4)
