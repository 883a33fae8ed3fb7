"""A multi-layer perceptron over tabular rows."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from pytest_exportready import export_ready


@dataclass(frozen=True)
class MLPConfig:
    features: int = 20
    hidden: int = 128
    layers: int = 3
    classes: int = 5
    dropout: float = 0.1


class Block(nn.Module):
    """Pre-norm residual block: (B, C) -> (B, C)."""

    def __init__(self, config: MLPConfig) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(config.hidden)
        self.up = nn.Linear(config.hidden, 2 * config.hidden)
        self.down = nn.Linear(2 * config.hidden, config.hidden)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, x: Tensor) -> Tensor:
        h = nn.functional.gelu(self.up(self.norm(x)))  # (B, 2C)
        y: Tensor = x + self.dropout(self.down(h))  # (B, C)
        return y


class MLP(nn.Module):
    """Standardized features (B, F) -> logits (B, classes)."""

    mean: Tensor
    std: Tensor

    def __init__(self, config: MLPConfig) -> None:
        super().__init__()
        # statistics of the training set
        self.register_buffer("mean", torch.zeros(config.features))
        self.register_buffer("std", torch.ones(config.features))
        self.embed = nn.Linear(config.features, config.hidden)
        self.blocks = nn.Sequential(*(Block(config) for _ in range(config.layers)))
        self.norm = nn.LayerNorm(config.hidden)
        self.head = nn.Linear(config.hidden, config.classes)

    def forward(self, x: Tensor) -> Tensor:
        x = self.embed((x - self.mean) / self.std)  # (B, F) -> (B, C)
        logits: Tensor = self.head(self.norm(self.blocks(x)))
        return logits


@export_ready(dynamic_batch=True, scenarios=["plain", "ddp", "ddp_amp", "fsdp2"])
def test_mlp() -> tuple[MLP, tuple[Tensor]]:
    torch.manual_seed(0)
    config = MLPConfig()
    return MLP(config).eval(), (torch.randn(4, config.features),)
