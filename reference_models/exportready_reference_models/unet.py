"""U-Net (Ronneberger et al., 2015) for images of any size: upsampling resizes to the skip connection."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.export import Dim

from pytest_exportready import export_ready


@dataclass(frozen=True)
class UNetConfig:
    channels: int = 3
    widths: tuple[int, ...] = (16, 32, 64, 96)
    classes: int = 4
    groups: int = 8


class DoubleConv(nn.Sequential):
    """(B, C, H, W) -> (B, C', H, W)."""

    def __init__(self, inputs: int, outputs: int, groups: int) -> None:
        super().__init__(
            nn.Conv2d(inputs, outputs, 3, padding=1, bias=False),
            nn.GroupNorm(groups, outputs),
            nn.SiLU(),
            nn.Conv2d(outputs, outputs, 3, padding=1, bias=False),
            nn.GroupNorm(groups, outputs),
            nn.SiLU(),
        )


class Up(nn.Module):
    """x (B, 2C, h, w) and its skip (B, C, H, W) -> (B, C, H, W)."""

    def __init__(self, inputs: int, outputs: int, groups: int) -> None:
        super().__init__()
        self.reduce = nn.Conv2d(inputs, outputs, 1)
        self.conv = DoubleConv(2 * outputs, outputs, groups)

    def forward(self, x: Tensor, skip: Tensor) -> Tensor:
        x = F.interpolate(self.reduce(x), size=skip.shape[-2:], mode="bilinear", align_corners=False)
        y: Tensor = self.conv(torch.cat([skip, x], dim=1))
        return y


class UNet(nn.Module):
    """Images (B, 3, H, W) -> a score for each class and pixel (B, classes, H, W)."""

    def __init__(self, config: UNetConfig) -> None:
        super().__init__()
        widths, groups = config.widths, config.groups
        self.stem = DoubleConv(config.channels, widths[0], groups)
        self.down = nn.ModuleList(DoubleConv(a, b, groups) for a, b in pairwise(widths))
        self.up = nn.ModuleList(Up(a, b, groups) for a, b in pairwise(reversed(widths)))
        self.head = nn.Conv2d(widths[0], config.classes, 1)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)  # (B, C0, H, W)
        skips: list[Tensor] = []
        for down in self.down:
            skips.append(x)
            x = down(F.max_pool2d(x, 2))  # (B, 2C, H // 2, W // 2)
        for up in self.up:
            x = up(x, skips.pop())
        scores: Tensor = self.head(x)
        return scores


SMALLEST = 2 ** len(UNetConfig.widths)


@export_ready(
    dynamic_shapes={"x": {0: Dim("batch"), 2: Dim("height", min=SMALLEST), 3: Dim("width", min=SMALLEST)}},
    scenarios=["plain", "ddp", "ddp_amp", "fsdp2"],
)
def test_unet() -> tuple[UNet, tuple[Tensor]]:
    torch.manual_seed(0)
    return UNet(UNetConfig()).eval(), (torch.randn(2, 3, 45, 61),)
