"""ResNet for small images (He et al., 2015): BatchNorm, and stages that halve the size and double the width."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pytest_exportready import export_ready


@dataclass(frozen=True)
class ResNetConfig:
    channels: int = 3
    widths: tuple[int, ...] = (16, 32, 64, 128)
    blocks: tuple[int, ...] = (2, 2, 2, 2)
    classes: int = 10


def conv3x3(inputs: int, outputs: int, stride: int = 1) -> nn.Conv2d:
    return nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False)


class BasicBlock(nn.Module):
    """(B, C, H, W) -> (B, C', H / stride, W / stride)."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv1 = conv3x3(inputs, outputs, stride)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = conv3x3(outputs, outputs)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or inputs != outputs:
            projection = nn.Conv2d(inputs, outputs, 1, stride, bias=False)
            self.shortcut = nn.Sequential(projection, nn.BatchNorm2d(outputs))

    def forward(self, x: Tensor) -> Tensor:
        h = F.relu(self.bn1(self.conv1(x)))  # (B, C', H', W')
        h = self.bn2(self.conv2(h))
        return F.relu(h + self.shortcut(x))


class ResNet(nn.Module):
    """Images (B, 3, H, W) -> logits (B, classes)."""

    def __init__(self, config: ResNetConfig) -> None:
        super().__init__()
        width = config.widths[0]
        self.stem = nn.Sequential(conv3x3(config.channels, width), nn.BatchNorm2d(width), nn.ReLU())
        self.stages = nn.ModuleList()
        inputs = width
        for index, (outputs, count) in enumerate(zip(config.widths, config.blocks, strict=True)):
            first = BasicBlock(inputs, outputs, stride=1 if index == 0 else 2)
            rest = [BasicBlock(outputs, outputs, stride=1) for _ in range(count - 1)]
            self.stages.append(nn.Sequential(first, *rest))
            inputs = outputs
        self.head = nn.Linear(inputs, config.classes)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)  # (B, C0, H, W)
        for stage in self.stages:
            x = stage(x)  # (B, 2C, H / 2, W / 2) after the first
        x = F.adaptive_avg_pool2d(x, 1).flatten(1)  # (B, C)
        logits: Tensor = self.head(x)
        return logits


@export_ready(dynamic_batch=True, scenarios=["plain", "ddp", "ddp_amp", "fsdp2"])
def test_resnet() -> tuple[ResNet, tuple[Tensor]]:
    torch.manual_seed(0)
    return ResNet(ResNetConfig()).eval(), (torch.randn(4, 3, 32, 32),)
