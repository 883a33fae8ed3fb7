"""Where random numbers begin: the same for each case in each run, whatever ran before it and in whichever process."""

from __future__ import annotations

import random
import sys

SEED = 0


def seed() -> None:
    """Seed torch, Python's ``random`` and, where it is imported, numpy."""
    import torch

    torch.manual_seed(SEED)
    random.seed(SEED)
    if (numpy := sys.modules.get("numpy")) is not None:
        numpy.random.seed(SEED)
