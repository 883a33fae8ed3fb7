"""A third of the corpus, written before the adapter and not looked at while it was tuned."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from batch_corpus import Entry, Net
from torch import Tensor


def windows(net: Net, h: Tensor) -> Tensor:
    b, t, c = h.shape
    w = h.view(b, t // 2, 2, c).reshape(b * (t // 2), 2, c)
    mixed = (w @ w.transpose(1, 2)).softmax(-1) @ w
    return mixed.view(b, t // 2, 2, c).reshape(b, t, c)


def relative(net: Net, h: Tensor) -> Tensor:
    t = h.shape[1]
    distance = torch.arange(t)[:, None] - torch.arange(t)[None]
    bias = distance.abs().float().neg().expand(h.shape[0], t, t)
    return (torch.bmm(h, h.transpose(1, 2)) + bias).softmax(-1) @ h


def grown(net: Net, h: Tensor) -> Tensor:
    zeros = h.new_zeros(h.size(0), 1, h.size(2))
    return torch.cat([zeros, h], dim=1).cumsum(1)[:, 1:]


def last_valid(net: Net, h: Tensor) -> Tensor:
    rows = torch.arange(h.size(0)).view(-1, 1)
    order = h[..., 0].argsort(1)
    return h[rows, order][:, -1]


def normed_factor(net: Net, h: Tensor) -> Tensor:
    count = len(h)
    factor = 1.0 / math.sqrt(count)
    return h * factor


def contrast(net: Net, h: Tensor) -> Tensor:
    h = F.normalize(h, dim=1)
    return (h @ h.t()).softmax(1) @ h


def shifted(net: Net, h: Tensor) -> Tensor:
    return h + h.roll(1, 0)


def two_outputs(net: Net, h: Tensor) -> tuple[Tensor, Tensor]:
    b = h.shape[0]
    return h.reshape(b, -1), torch.zeros(b, 3) + h[:, :3]


def size_tensor(net: Net, h: Tensor) -> Tensor:
    return h * torch.tensor(float(h.shape[0]))


def loop_of_sizes(net: Net, h: Tensor) -> Tensor:
    for _ in range(h.shape[0]):
        h = torch.tanh(h)
    return h


def groups(net: Net, h: Tensor) -> Tensor:
    b, t, c = h.shape
    return F.conv1d(h.reshape(1, b * t, c), torch.ones(b * t, 1, 3), padding=1, groups=b * t).view(b, t, c)


def every_pair(net: Net, h: Tensor) -> Tensor:
    return (h[:, None] - h[None]).abs().sum(1)


S, X = ((4, 6, 4),), ((4, 4),)

HELD_OUT = {
    "windows": Entry(windows, S, True),
    "windows, two rows": Entry(windows, ((2, 4, 4),), True),
    "relative": Entry(relative, S, True),
    "relative, equal": Entry(relative, ((4, 4, 4),), True),
    "grown": Entry(grown, S, True),
    "last valid": Entry(last_valid, S, True),
    "two outputs": Entry(two_outputs, X, True),
    "half the features": Entry(lambda net, h: h.view(h.shape[0], 2, 2)[:, 1] * 0.5, X, True),
    "factor of the size": Entry(normed_factor, X, False),
    "contrast": Entry(contrast, X, False),
    "shifted": Entry(shifted, X, False),
    "size as a tensor": Entry(size_tensor, X, False),
    "as many times as rows": Entry(loop_of_sizes, X, False),
    "groups": Entry(groups, S, False),
    "every pair": Entry(every_pair, X, False),
    "first row": Entry(lambda net, h: h - h[0], X, False),
    "sorted rows": Entry(lambda net, h: h.sort(0).values, X, False),
    "weighted by count": Entry(lambda net, h: h.sum(1, keepdim=True) * (1 / (h.size(0) + 1)), X, False),
}
