"""Deep learning recommendation model (Naumov et al., 2019): embedding bags, pairwise interaction, MLPs."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor, nn

from pytest_exportready import export_ready


@dataclass(frozen=True)
class DLRMConfig:
    dense: int = 13
    tables: tuple[int, ...] = (1000, 400, 50)
    width: int = 16
    bottom: tuple[int, ...] = (64, 32)
    top: tuple[int, ...] = (64, 32)


def mlp(*sizes: int) -> nn.Sequential:
    """Return linear layers with ReLUs between them: (B, sizes[0]) -> (B, sizes[-1])."""
    layers: list[nn.Module] = []
    for inputs, outputs in pairwise(sizes):
        layers += [nn.Linear(inputs, outputs), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


class Interaction(nn.Module):
    """Dot products of all pairs of F feature vectors: (B, F, C) -> (B, F * (F - 1) / 2)."""

    pairs: Tensor

    def __init__(self, features: int) -> None:
        super().__init__()
        self.register_buffer("pairs", torch.tril_indices(features, features, offset=-1), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        products = torch.bmm(x, x.transpose(1, 2))  # (B, F, F)
        return products[:, self.pairs[0], self.pairs[1]]


class DLRM(nn.Module):
    """Dense features (B, 13), a bag of ids (B, bag) per table -> click probability (B,)."""

    def __init__(self, config: DLRMConfig) -> None:
        super().__init__()
        features = 1 + len(config.tables)
        self.bottom = mlp(config.dense, *config.bottom, config.width)
        self.tables = nn.ModuleList(nn.EmbeddingBag(rows, config.width, mode="sum") for rows in config.tables)
        self.interaction = Interaction(features)
        self.top = mlp(config.width + features * (features - 1) // 2, *config.top, 1)

    def forward(self, dense: Tensor, categories: list[Tensor]) -> Tensor:
        x = self.bottom(dense)  # (B, C)
        bags = [table(ids) for table, ids in zip(self.tables, categories, strict=True)]  # (B, C) each
        pairs = self.interaction(torch.stack([x, *bags], dim=1))
        return torch.sigmoid(self.top(torch.cat([x, pairs], dim=1))).squeeze(1)


@export_ready(dynamic_batch=True, scenarios=["plain", "ddp", "ddp_amp", "fsdp2"])
def test_dlrm() -> tuple[DLRM, tuple[Tensor, list[Tensor]]]:
    torch.manual_seed(0)
    config = DLRMConfig()
    categories = [torch.randint(rows, (4, 5)) for rows in config.tables]
    return DLRM(config).eval(), (torch.randn(4, config.dense), categories)
