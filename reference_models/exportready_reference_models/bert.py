"""BERT (Devlin et al., 2018): a post-norm encoder with a padding mask and a masked-language-model head.

Batch and sequence are dynamic; the head's weight is tied to the token embedding.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.export import Dim

from pytest_exportready import export_ready


@dataclass(frozen=True)
class BertConfig:
    vocabulary: int = 1000
    positions: int = 64
    width: int = 128
    heads: int = 4
    layers: int = 4
    dropout: float = 0.1


class Attention(nn.Module):
    """Self-attention over the tokens that ``keep`` (B, 1, 1, T) marks: (B, T, C) -> (B, T, C)."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.heads = config.heads
        self.query = nn.Linear(config.width, config.width)
        self.key = nn.Linear(config.width, config.width)
        self.value = nn.Linear(config.width, config.width)
        self.out = nn.Linear(config.width, config.width)
        self.dropout = config.dropout

    def split(self, x: Tensor) -> Tensor:
        return x.view(x.shape[0], x.shape[1], self.heads, -1).transpose(1, 2)  # (B, H, T, C / H)

    def forward(self, x: Tensor, keep: Tensor) -> Tensor:
        q, k, v = self.split(self.query(x)), self.split(self.key(x)), self.split(self.value(x))
        dropout = self.dropout if self.training else 0.0
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=keep, dropout_p=dropout)
        out: Tensor = self.out(y.transpose(1, 2).flatten(2))
        return out


class Layer(nn.Module):
    """(B, T, C) -> (B, T, C)."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.attention = Attention(config)
        self.norm1 = nn.LayerNorm(config.width)
        self.up = nn.Linear(config.width, 4 * config.width)
        self.down = nn.Linear(4 * config.width, config.width)
        self.norm2 = nn.LayerNorm(config.width)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, x: Tensor, keep: Tensor) -> Tensor:
        x = self.norm1(x + self.dropout(self.attention(x, keep)))
        y: Tensor = self.norm2(x + self.dropout(self.down(F.gelu(self.up(x)))))
        return y


class Bert(nn.Module):
    """Token ids (B, T) and a mask (B, T), False for padding -> logits (B, T, V) and pooled (B, C)."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.tokens = nn.Embedding(config.vocabulary, config.width)
        self.positions = nn.Embedding(config.positions, config.width)
        nn.init.normal_(self.tokens.weight, std=0.02)
        nn.init.normal_(self.positions.weight, std=0.02)
        self.norm = nn.LayerNorm(config.width)
        self.dropout = nn.Dropout(config.dropout)
        self.layers = nn.ModuleList(Layer(config) for _ in range(config.layers))
        self.pooler = nn.Linear(config.width, config.width)
        self.head = nn.Linear(config.width, config.vocabulary)
        self.head.weight = self.tokens.weight

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> dict[str, Tensor]:
        position = torch.arange(input_ids.shape[1], device=input_ids.device)  # (T,)
        keep = attention_mask | (position == 0)  # [CLS] is never padding, so no row is fully masked
        keep = keep[:, None, None, :]  # (B, 1, 1, T)
        x = self.tokens(input_ids) + self.positions(position)  # (B, T, C)
        x = self.dropout(self.norm(x))
        for layer in self.layers:
            x = layer(x, keep)
        return {"logits": self.head(x), "pooled": torch.tanh(self.pooler(x[:, 0]))}


BATCH, SEQUENCE = Dim("batch"), Dim("sequence", max=BertConfig.positions)


@export_ready(
    dynamic_shapes={"input_ids": {0: BATCH, 1: SEQUENCE}, "attention_mask": {0: BATCH, 1: SEQUENCE}},
    scenarios=["plain", "ddp", "ddp_amp", "fsdp2"],
)
def test_bert() -> tuple[Bert, tuple[()], dict[str, Tensor]]:
    torch.manual_seed(0)
    config = BertConfig()
    lengths = torch.tensor([12, 7, 9])
    return (
        Bert(config).eval(),
        (),
        {
            "input_ids": torch.randint(config.vocabulary, (3, 12)),
            "attention_mask": torch.arange(12) < lengths[:, None],
        },
    )
