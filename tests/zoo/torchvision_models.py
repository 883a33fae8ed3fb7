"""Models of torchvision with random weights, one or two small ones of each family."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import torch
from zoo_model import Call, Models

CLASSIFIERS = (Path(__file__).parent / "torchvision.txt").read_text().split()
SEGMENTERS = ["deeplabv3_mobilenet_v3_large", "deeplabv3_resnet50", "fcn_resnet50", "lraspp_mobilenet_v3_large"]
VIDEOS = ["mc3_18", "mvit_v2_s", "r2plus1d_18", "r3d_18", "s3d"]
DETECTORS = [
    "fasterrcnn_mobilenet_v3_large_320_fpn",
    "fcos_resnet50_fpn",
    "retinanet_resnet50_fpn",
    "ssdlite320_mobilenet_v3_large",
]
FLOWS = ["raft_small"]
SIZES = {"inception_v3": 96, "maxvit_t": 224, "vit_b_32": 224}
CLIPS = {"mvit_v2_s": (3, 16, 224, 224), "s3d": (3, 16, 224, 224)}


def models() -> Models:
    found: Models = {}
    for name in CLASSIFIERS:
        found[f"torchvision/{name}"] = partial(_build, name, (3, SIZES.get(name, 64), SIZES.get(name, 64)))
    for name in SEGMENTERS:
        found[f"torchvision/{name}"] = partial(_build, name, (3, 64, 64))
    for name in VIDEOS:
        found[f"torchvision/{name}"] = partial(_build, name, CLIPS.get(name, (3, 8, 64, 64)))
    for name in DETECTORS:
        found[f"torchvision/{name}"] = partial(_detector, name)
    for name in FLOWS:
        found[f"torchvision/{name}"] = partial(_flow, name)
    return found


def _build(name: str, shape: tuple[int, ...], batch: int) -> Call:
    from torchvision.models import get_model

    wanted = {"weights_backbone": None} if name in SEGMENTERS else {}
    if name in ("googlenet", "inception_v3"):
        wanted = {"init_weights": True}
    return get_model(name, weights=None, **wanted), (torch.randn(batch, *shape),), {}


def _detector(name: str, batch: int) -> Call:
    from torchvision.models import get_model

    model = get_model(name, weights=None, weights_backbone=None)
    return model, ([torch.rand(3, 96, 96) for _ in range(batch)],), {}


def _flow(name: str, batch: int) -> Call:
    from torchvision.models import get_model

    first, second = (torch.randn(batch, 3, 128, 128) for _ in range(2))
    return get_model(name, weights=None), (first, second, 2), {}
