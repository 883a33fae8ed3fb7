"""Vision transformer (Dosovitskiy et al., 2020): patches, class token, learned positions, pre-norm blocks."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pytest_exportready import export_ready


@dataclass(frozen=True)
class ViTConfig:
    image: int = 32
    patch: int = 8
    channels: int = 3
    width: int = 96
    heads: int = 6
    layers: int = 4
    classes: int = 10
    dropout: float = 0.1

    @property
    def tokens(self) -> int:
        return (self.image // self.patch) ** 2 + 1


class Attention(nn.Module):
    """Self-attention: (B, T, C) -> (B, T, C)."""

    def __init__(self, config: ViTConfig) -> None:
        super().__init__()
        self.heads = config.heads
        self.qkv = nn.Linear(config.width, 3 * config.width)
        self.out = nn.Linear(config.width, config.width)

    def forward(self, x: Tensor) -> Tensor:
        B, T, C = x.shape
        qkv = self.qkv(x).view(B, T, 3, self.heads, C // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)  # (B, H, T, C / H) each
        y = F.scaled_dot_product_attention(q, k, v)
        out: Tensor = self.out(y.transpose(1, 2).reshape(B, T, C))
        return out


class Block(nn.Module):
    """(B, T, C) -> (B, T, C)."""

    def __init__(self, config: ViTConfig) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(config.width)
        self.attention = Attention(config)
        self.norm2 = nn.LayerNorm(config.width)
        self.up = nn.Linear(config.width, 4 * config.width)
        self.down = nn.Linear(4 * config.width, config.width)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.dropout(self.attention(self.norm1(x)))
        y: Tensor = x + self.dropout(self.down(F.gelu(self.up(self.norm2(x)))))
        return y


class ViT(nn.Module):
    """Images (B, 3, image, image) -> logits (B, classes)."""

    def __init__(self, config: ViTConfig) -> None:
        super().__init__()
        self.patches = nn.Conv2d(config.channels, config.width, config.patch, stride=config.patch)
        self.class_token = nn.Parameter(0.02 * torch.randn(1, 1, config.width))
        self.positions = nn.Parameter(0.02 * torch.randn(1, config.tokens, config.width))
        self.dropout = nn.Dropout(config.dropout)
        self.blocks = nn.Sequential(*(Block(config) for _ in range(config.layers)))
        self.norm = nn.LayerNorm(config.width)
        self.head = nn.Linear(config.width, config.classes)

    def forward(self, x: Tensor) -> Tensor:
        x = self.patches(x).flatten(2).transpose(1, 2)  # (B, T - 1, C)
        class_token = self.class_token.expand(x.shape[0], -1, -1)  # (B, 1, C)
        x = torch.cat([class_token, x], dim=1) + self.positions  # (B, T, C)
        x = self.blocks(self.dropout(x))
        logits: Tensor = self.head(self.norm(x[:, 0]))
        return logits


@export_ready(dynamic_batch=True, scenarios=["plain", "ddp", "ddp_amp", "fsdp2"])
def test_vit() -> tuple[ViT, tuple[Tensor]]:
    torch.manual_seed(0)
    config = ViTConfig()
    return ViT(config).eval(), (torch.randn(4, config.channels, config.image, config.image),)
