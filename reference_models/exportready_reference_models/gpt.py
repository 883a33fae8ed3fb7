"""GPT (Radford et al., 2019), one decoding step at a time: buffers hold the keys and values so far.

In train mode a call takes whole sequences and does not use the cache. In eval mode it writes its tokens at ``position``
and attends to all tokens up to there. The weight of the head is tied to the token embedding.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pytest_exportready import ExportCase, export_ready


@dataclass(frozen=True)
class GPTConfig:
    vocabulary: int = 1000
    batch: int = 2
    context: int = 32
    width: int = 128
    heads: int = 4
    layers: int = 4
    dropout: float = 0.1


class CausalAttention(nn.Module):
    """(B, T, C) at positions (T,) -> (B, T, C)."""

    keys: Tensor
    values: Tensor

    def __init__(self, config: GPTConfig) -> None:
        super().__init__()
        self.heads = config.heads
        self.qkv = nn.Linear(config.width, 3 * config.width)
        self.out = nn.Linear(config.width, config.width)
        self.dropout = config.dropout
        shape = (config.batch, config.heads, config.context, config.width // config.heads)  # (B, H, S, C / H)
        self.register_buffer("keys", torch.zeros(shape), persistent=False)
        self.register_buffer("values", torch.zeros(shape), persistent=False)

    def forward(self, x: Tensor, position: Tensor) -> Tensor:
        B, T, C = x.shape
        qkv = self.qkv(x).view(B, T, 3, self.heads, C // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)  # (B, H, T, C / H) each
        if self.training:
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True, dropout_p=self.dropout)
        else:
            self.keys.index_copy_(2, position, k.detach())
            self.values.index_copy_(2, position, v.detach())
            seen = torch.arange(self.keys.shape[2], device=x.device) <= position[:, None]  # (T, S)
            y = F.scaled_dot_product_attention(q, self.keys, self.values, attn_mask=seen)
        out: Tensor = self.out(y.transpose(1, 2).reshape(B, T, C))
        return out


class Block(nn.Module):
    """(B, T, C) at positions (T,) -> (B, T, C)."""

    def __init__(self, config: GPTConfig) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(config.width)
        self.attention = CausalAttention(config)
        self.norm2 = nn.LayerNorm(config.width)
        self.up = nn.Linear(config.width, 4 * config.width)
        self.down = nn.Linear(4 * config.width, config.width)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, x: Tensor, position: Tensor) -> Tensor:
        x = x + self.dropout(self.attention(self.norm1(x), position))
        y: Tensor = x + self.dropout(self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh")))
        return y


class GPT(nn.Module):
    """Token ids (B, T) at positions (T,) -> logits of the next token (B, T, V)."""

    def __init__(self, config: GPTConfig) -> None:
        super().__init__()
        self.tokens = nn.Embedding(config.vocabulary, config.width)
        self.positions = nn.Embedding(config.context, config.width)
        nn.init.normal_(self.tokens.weight, std=0.02)
        nn.init.normal_(self.positions.weight, std=0.02)
        self.dropout = nn.Dropout(config.dropout)
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.layers))
        self.norm = nn.LayerNorm(config.width)
        self.head = nn.Linear(config.width, config.vocabulary, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, token: Tensor, position: Tensor) -> Tensor:
        x = self.dropout(self.tokens(token) + self.positions(position))  # (B, T, C)
        for block in self.blocks:
            x = block(x, position)
        logits: Tensor = self.head(self.norm(x))
        return logits


@export_ready(scenarios=["plain", "ddp", "ddp_amp", "fsdp2"])
def test_gpt() -> ExportCase:
    torch.manual_seed(0)
    config = GPTConfig()
    steps = [(torch.randint(config.vocabulary, (config.batch, 1)), torch.tensor([t])) for t in range(5)]
    return ExportCase(
        model=GPT(config).eval(),
        args=steps[0],
        more_inputs=[(step, {}) for step in steps[1:]],
        stateful_calls=True,
        allow_mutation=True,
    )
