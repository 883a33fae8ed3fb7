"""Modules for the batch adapter by an author who had not seen it, with inputs for any batch."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn


@dataclass(frozen=True)
class Written:
    name: str
    forward: Callable[..., Any]
    inputs: Callable[[int], tuple[Any, ...]]
    at: int  # the batch of the export
    layers: Callable[[], Mapping[str, nn.Module]]
    batch_dim: int

    def module(self) -> nn.Module:
        torch.manual_seed(0)
        made = type(self.name, (nn.Module,), {"forward": self.forward})()
        for name, layer in self.layers().items():
            setattr(made, name, layer)
        return made.eval()


def written(
    corpus: list[Written],
    inputs: Callable[[int], tuple[Any, ...]],
    at: int,
    layers: Callable[[], Mapping[str, nn.Module]] = dict,
    batch_dim: int = 0,
) -> Callable[[Callable[..., Any]], None]:
    """The decorated function is the forward of a module with these layers."""

    def add(forward: Callable[..., Any]) -> None:
        name = forward.__name__
        forward.__code__ = forward.__code__.replace(co_name="forward")  # torch.export takes down the lines of no other
        corpus.append(Written(name, forward, inputs, at, layers, batch_dim))

    return add


INDEPENDENT: list[Written] = []
randn, randint = torch.randn, torch.randint


@written(INDEPENDENT, lambda b: (randn(b, 4, 3),), at=3, layers=lambda: {"linear": nn.Linear(3, 3)})
def batch_folded_second(net, x):
    tokens = x.permute(1, 0, 2).reshape(4, -1)
    return net.linear(tokens.view(4, x.shape[0], 3)).permute(1, 0, 2)


@written(INDEPENDENT, lambda b: (randn(b, 6, 4),), at=2, layers=lambda: {"lstm": nn.LSTM(4, 5, num_layers=2)})
def lstm_time_first(net, x):
    output, (hidden, _) = net.lstm(x.transpose(0, 1))
    return output.transpose(0, 1), hidden[-1]


@written(INDEPENDENT, lambda b: (randn(b, 3, 3),), at=3)
def eye_of_features_beside_zeros_of_batch(net, x):
    return x @ torch.eye(3) + torch.zeros(x.shape[0], 3, 1)


@written(INDEPENDENT, lambda b: (randn(b, 4),), at=3)
def eye_of_batch(net, x):
    return torch.eye(x.shape[0]) @ x


@written(INDEPENDENT, lambda b: (randn(b, 5, 4), randint(5, (b,))), at=2)
def picks_by_arange(net, x, at):
    return x[torch.arange(x.shape[0]), at]


@written(INDEPENDENT, lambda b: (randn(b, 3, 4),), at=3, layers=lambda: {"cell": nn.GRUCell(4, 3)})
def cell_with_made_state(net, x):
    state = torch.zeros(x.shape[0], 3)
    for step in range(3):
        state = net.cell(x[:, step], state)
    return state


@written(INDEPENDENT, lambda b: (randn(b, 8, 4), randint(1, 9, (b,))), at=8)
def mask_from_lengths(net, x, lengths):
    alive = torch.arange(x.shape[1])[None] < lengths[:, None]
    return (x * alive[..., None]).sum(1) / lengths[:, None]


@written(INDEPENDENT, lambda b: (randn(b, 8, 8),), at=8)
def causal_mask_as_long_as_the_batch(net, x):
    scores = x @ x.transpose(1, 2)
    hidden = torch.ones(x.shape[1], x.shape[1]).triu(1).bool()
    return scores.masked_fill(hidden, -1e4).softmax(-1) @ x


@written(INDEPENDENT, lambda b: (randn(b, 3, 4),), at=3, layers=lambda: {"linear": nn.Linear(12, 3)})
def flat_and_back(net, x):
    return net.linear(x.reshape(-1).view(x.size(0), -1))


@written(INDEPENDENT, lambda b: (randn(b, 4),), at=2, layers=lambda: {"linear": nn.Linear(4, 4)})
def row_after_row(net, x):
    return torch.cat([net.linear(row) for row in x.split(1)])


@written(INDEPENDENT, lambda b: (randn(b, 4, 4, 6),), at=16, layers=lambda: {"qkv": nn.Linear(6, 18)})
def windows_folded_into_batch(net, x):
    b, h, w, c = x.shape
    windows = x.view(b, h // 2, 2, w // 2, 2, c).permute(0, 1, 3, 2, 4, 5).reshape(-1, 4, c)
    q, k, v = net.qkv(windows).chunk(3, dim=-1)
    windows = (q @ k.transpose(1, 2)).softmax(-1) @ v
    b = int(windows.shape[0] / (h * w / 4))
    return windows.view(b, h // 2, w // 2, 2, 2, -1).permute(0, 1, 3, 2, 4, 5).reshape(b, h, w, -1)


@written(INDEPENDENT, lambda b: (randn(b, 8, 4),), at=8, layers=lambda: {"norm": nn.BatchNorm1d(4)})
def batch_times_equal_time(net, x):
    b, t = x.shape[:2]
    return net.norm(x.reshape(b * t, 4)).view(b, t, -1)


@written(INDEPENDENT, lambda b: (randn(b, 6, 4), randint(6, (b, 2))), at=2)
def expanded_gather(net, x, at):
    return x.gather(1, at.unsqueeze(-1).expand(x.shape[0], 2, 4))


@written(INDEPENDENT, lambda b: (randn(b, 5, 8),), at=2, layers=lambda: {"qkv": nn.Linear(8, 24)})
def einsum_attention(net, x):
    q, k, v = net.qkv(x).view(x.shape[0], 5, 3, 2, 4).unbind(2)
    scores = torch.einsum("bthd,bshd->bhts", q, k) / math.sqrt(4)
    return torch.einsum("bhts,bshd->bthd", scores.softmax(-1), v).reshape(x.shape[0], 5, 8)


@written(INDEPENDENT, lambda b: (randn(b, 3, 4),), at=3)
def unflattened(net, x):
    return torch.relu(x.flatten(0, 1)).unflatten(0, (x.shape[0], 3))


@written(INDEPENDENT, lambda b: (randn(b, 5, 8),), at=3, layers=lambda: {"queries": nn.Embedding(3, 8)})
def queries_repeated(net, x):
    b = x.shape[0]
    queries = net.queries.weight.unsqueeze(0).repeat_interleave(b, dim=0)
    return (queries @ x.transpose(1, 2)).softmax(-1) @ x + net.queries.weight.repeat(b, 1, 1)


@written(INDEPENDENT, lambda b: (randn(b, 4),), at=3, layers=lambda: {"norm": nn.BatchNorm1d(4)})
def counts_its_calls(net, x):
    net.norm.num_batches_tracked.add_(1)
    return net.norm(x)


@written(INDEPENDENT, lambda b: (randn(b, 4),), at=3)
def divided_by_batch(net, x):
    return x.sum(1) / x.shape[0]


@written(INDEPENDENT, lambda b: (randn(b, 4, 4),), at=16)
def scaled_by_root_of_batch(net, x):
    return (x * x.shape[0] ** -0.5).relu()


@written(INDEPENDENT, lambda b: (randn(b, 4),), at=3)
def centred_over_the_batch(net, x):
    return x - x.mean(0, keepdim=True)


@written(INDEPENDENT, lambda b: (randn(b, 4),), at=8)
def other_way_for_large_batches(net, x):
    return x * 2 if x.shape[0] > 4 else x


@written(INDEPENDENT, lambda b: (randn(b, 2), randn(3, 2)), at=3)
def anchors_as_many_as_rows(net, x, anchors):
    return torch.cdist(x, anchors)


@written(INDEPENDENT, lambda b: (randn(b, 4, 8),), at=2, layers=lambda: {"attend": nn.MultiheadAttention(8, 2)})
def multihead_sequence_first(net, x):
    tokens = x.transpose(0, 1)
    return net.attend(tokens, tokens, tokens, need_weights=False)[0].transpose(0, 1)


@written(INDEPENDENT, lambda b: (randn(b, 8, 3, 3),), at=3, layers=lambda: {"conv": nn.Conv2d(8, 8, 1)})
def shuffled_pixels(net, x):
    return F.pixel_shuffle(net.conv(x), 2).reshape(x.shape[0], 2, 36).roll(1, dims=2)


@written(INDEPENDENT, lambda b: (randn(b, 4),), at=3)
def rolled_over_the_batch(net, x):
    return x + x.roll(1, dims=0)


@written(INDEPENDENT, lambda b: (randint(8, (b,)),), at=8, layers=lambda: {"linear": nn.Linear(8, 4)})
def one_hot_of_as_many_classes(net, labels):
    return net.linear(F.one_hot(labels, 8).float())


@written(INDEPENDENT, lambda b: (randn(b, 4),), at=2)
def summed_down_the_batch(net, x):
    return x.cumsum(0)


@written(INDEPENDENT, lambda b: (randint(20, (b, 16)),), at=16, layers=lambda: {"place": nn.Embedding(16, 4)})
def positions_expanded(net, ids):
    places = torch.arange(ids.shape[1]).unsqueeze(0).expand(ids.shape)
    return net.place(places) * ids.unsqueeze(-1)


@written(INDEPENDENT, lambda b: (randn(6, b, 4),), at=3, batch_dim=1, layers=lambda: {"gru": nn.GRU(4, 3)})
def recurrent_batch_second(net, x):
    return net.gru(x, x.new_zeros(1, x.shape[1], 3))[0]
