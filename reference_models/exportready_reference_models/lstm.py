"""A recurrent language model (Zaremba et al., 2014): embedding, stacked LSTM, logits and the last state."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from pytest_exportready import export_ready


@dataclass(frozen=True)
class LSTMConfig:
    vocabulary: int = 500
    width: int = 96
    hidden: int = 128
    layers: int = 2
    dropout: float = 0.2


class LSTM(nn.Module):
    """Token ids (B, T) -> logits (B, T, V) and the last hidden and cell states (L, B, H).

    The dimension T is static: torch.export unrolls an LSTM when it decomposes it.
    """

    def __init__(self, config: LSTMConfig) -> None:
        super().__init__()
        self.tokens = nn.Embedding(config.vocabulary, config.width)
        self.lstm = nn.LSTM(config.width, config.hidden, config.layers, batch_first=True, dropout=config.dropout)
        self.dropout = nn.Dropout(config.dropout)
        self.head = nn.Linear(config.hidden, config.vocabulary)

    def forward(self, tokens: Tensor) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        x = self.dropout(self.tokens(tokens))  # (B, T, C)
        x, state = self.lstm(x)  # (B, T, H), (L, B, H) twice
        return self.head(self.dropout(x)), state


@export_ready(dynamic_batch=True, scenarios=["plain", "ddp", "ddp_amp", "fsdp2"])
def test_lstm() -> tuple[LSTM, tuple[Tensor]]:
    torch.manual_seed(0)
    config = LSTMConfig()
    return LSTM(config).eval(), (torch.randint(config.vocabulary, (4, 11)),)
