"""Models of timm with random weights: one of the smallest of each module, at a small image size if possible."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import torch
from zoo_model import Call, Models

NAMES = (Path(__file__).parent / "timm.txt").read_text().split()
SMALLEST = 64  # pixels


def models() -> Models:
    return {f"timm/{name}": partial(_build, name) for name in NAMES}


def _build(name: str, batch: int) -> Call:
    import timm

    model = timm.create_model(name)
    settings = model.default_cfg
    height, width = settings["input_size"][1:]
    if not settings.get("fixed_input_size"):
        least = settings.get("min_input_size", (3, 2 * SMALLEST, 2 * SMALLEST))[1]
        height = width = min(height, max(least, SMALLEST))
    return model, (torch.randn(batch, 3, height, width),), {}
