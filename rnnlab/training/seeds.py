"""Seeds for the generators of a run, far from one another and from those of the tasks' fixed sets."""

import hashlib

import torch


def seeded(purpose: str, seed: int, device: torch.device | str = "cpu") -> torch.Generator:
    """A generator for one purpose: other purposes with the same seed draw other numbers.

    >>> a, b = seeded("batches", 0), seeded("dropout", 0)
    >>> bool(torch.rand(1, generator=a) == torch.rand(1, generator=b))
    False
    """
    digest = hashlib.blake2b(f"{purpose} {seed}".encode(), digest_size=7).digest()
    return torch.Generator(device).manual_seed(int.from_bytes(digest, "big"))
