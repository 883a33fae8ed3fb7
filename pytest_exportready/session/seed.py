"""Seed each case, so that it has the same random numbers in every run and process, and after any other case."""

from __future__ import annotations

import random
import sys

SEED = 0


def seed() -> None:
    """Seed torch, Python's ``random`` and, if it is imported, NumPy."""
    import torch

    torch.manual_seed(SEED)
    random.seed(SEED)
    if (numpy := sys.modules.get("numpy")) is not None:
        numpy.random.seed(SEED)
