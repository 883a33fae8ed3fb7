"""Programs exported at one batch size: what ``make_batch_dynamic`` can adapt, and what it has to refuse.

Every entry is judged by its eager module at other sizes, which the adapter never sees.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from types import FunctionType
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Net(nn.Module):
    """What the functions below find on the module whose ``forward`` they are."""

    def __init__(self) -> None:
        super().__init__()
        self.token = nn.Parameter(torch.randn(1, 1, 4))
        self.table = nn.Parameter(torch.randn(20, 4))
        self.norm = nn.BatchNorm1d(4)
        self.scale = 4


@dataclass(frozen=True)
class Entry:
    """adapts: whether a right program for every batch size exists and is to be found."""

    function: Callable[..., Any]
    shapes: tuple[tuple[int, ...], ...]
    adapts: bool

    def module(self) -> nn.Module:
        torch.manual_seed(0)
        code = self.function.__code__.replace(co_name="forward")  # torch notes lines of functions of that name only
        forward = FunctionType(code, self.function.__globals__, "forward", None, self.function.__closure__)
        net: nn.Module = type("Net", (Net,), {"forward": forward})().eval()
        return net

    def inputs(self, batch: int) -> tuple[Tensor, ...]:
        generator = torch.Generator().manual_seed(batch)
        old = self.shapes[0][0]
        return tuple(
            torch.randn([batch if n == old and not d else n for d, n in enumerate(shape)], generator=generator)
            for shape in self.shapes
        )


def heads(net: Net, h: Tensor) -> Tensor:
    b, t, c = h.shape
    q = h.view(b, t, 2, c // 2).transpose(1, 2)
    a = (q @ q.transpose(-1, -2) / math.sqrt(c // 2)).softmax(-1)
    return (a @ q).transpose(1, 2).reshape(b, t, c)


def folded_heads(net: Net, h: Tensor) -> Tensor:
    b, t, _ = h.shape
    q = h.view(b, t, 2, 2).transpose(1, 2).reshape(b * 2, t, 2)
    return torch.bmm(torch.bmm(q, q.transpose(1, 2)).softmax(-1), q).view(b, 2, t, 2).transpose(1, 2).flatten(2)


def sequence_first(net: Net, h: Tensor) -> Tensor:
    b, t, c = h.shape
    flat = h.transpose(0, 1).reshape(t * b, c)
    return net.norm(flat).view(t, b, c).transpose(0, 1)


def with_token(net: Net, h: Tensor) -> Tensor:
    return torch.cat([net.token.expand(h.shape[0], -1, -1), h], 1).mean(1)


def scanned(net: Net, h: Tensor) -> Tensor:
    state = torch.zeros(h.shape[0], 4)
    for step in range(h.shape[1]):
        state = torch.tanh(state + h[:, step])
    return state


def causal(net: Net, h: Tensor) -> Tensor:
    b, t, _ = h.shape
    mask = torch.ones(t, t, dtype=torch.bool).tril().expand(b, 1, t, t)
    return F.scaled_dot_product_attention(h[:, None], h[:, None], h[:, None], attn_mask=mask)[:, 0]


def picked(net: Net, h: Tensor) -> Tensor:
    best = h.sum(-1).argmax(1)
    return h[torch.arange(h.shape[0]), best]


def branch(net: Net, h: Tensor) -> Tensor:
    if h.shape[0] > 3:
        return h * 2
    return h * 3


def without_gradients(net: Net, h: Tensor) -> Tensor:
    with torch.no_grad():
        return h * h.shape[0]


def token_without_gradients(net: Net, h: Tensor) -> Tensor:
    with torch.no_grad():
        token = net.token.expand(h.shape[0], 1, 4) * 1.5
        with torch.autocast("cpu", torch.bfloat16):
            mixed = torch.zeros(h.shape[0] * 6, 4) + torch.mm(h.view(h.shape[0] * 6, 4), net.table[:4])
    return torch.cat([token, mixed.view(h.shape[0], 6, 4)], 1)


def transposed(net: Net, h: Tensor) -> Tensor:
    swapped = h.transpose(0, 1)
    return (swapped / swapped.shape[1]).transpose(0, 1)


def whole_shape(net: Net, h: Tensor) -> Tensor:
    shape = h.shape
    sizes = h.size()
    return h.view(sizes[0], -1) * (0.3 * shape[0])


def counted(net: Net, h: Tensor) -> Tensor:
    return h * torch.ones(h.shape[0]).sum()


def helper(x: Tensor, count: int) -> Tensor:
    return x / count


def unrolled(net: Net, h: Tensor) -> Tensor:
    return torch.stack([h[i] * 2 for i in range(h.shape[0])])


def written(net: Net, h: Tensor) -> Tensor:
    out = torch.empty(h.shape[0], 8)
    out[:, :4] = h
    out[:, 4:] = h.relu()
    return out


X, S = ((4, 4),), ((4, 6, 4),)

CORPUS = {
    "heads": Entry(heads, S, True),
    "heads, one row": Entry(heads, ((1, 6, 4),), True),
    "heads, all sizes equal": Entry(heads, ((4, 4, 4),), True),
    "folded heads": Entry(folded_heads, S, True),
    "sequence first": Entry(sequence_first, S, True),
    "sequence first, equal": Entry(sequence_first, ((4, 4, 4),), True),
    "class token": Entry(with_token, S, True),
    "class token, one row": Entry(with_token, ((1, 6, 4),), True),
    "scanned": Entry(scanned, S, True),
    "causal": Entry(causal, S, True),
    "causal, equal": Entry(causal, ((4, 4, 4),), True),
    "picked": Entry(picked, S, True),
    "written": Entry(written, X, True),
    "chunk": Entry(lambda net, h: torch.cat(h.chunk(2, 1), 0).view(2, h.shape[0], 2).sum(0), X, True),
    "split in the batch": Entry(lambda net, h: torch.cat([h, h.relu()]).split(h.shape[0])[1], X, True),
    "repeat": Entry(lambda net, h: net.table[:6].repeat(h.shape[0], 1, 1) + h, S, True),
    "split features": Entry(lambda net, h: h.reshape(h.shape[0], 4, 3).mean(2), ((4, 3, 4),), True),
    "batch norm in eval": Entry(lambda net, h: net.norm(h), X, True),
    "a literal that equals the batch": Entry(lambda net, h: h * 4 + net.scale, X, True),
    "two inputs": Entry(lambda net, h, y: h + y.view(h.shape[0], 4), ((3, 4), (3, 2, 2)), True),
    "in regions": Entry(token_without_gradients, S, True),
    "times the size": Entry(lambda net, h: h * h.shape[0], X, False),
    "times a part of the size": Entry(lambda net, h: h * (h.shape[0] * 0.1), X, False),
    "times a size elsewhere": Entry(transposed, S, False),
    "from a whole shape": Entry(whole_shape, X, False),
    "counted": Entry(counted, X, False),
    "counted, one row": Entry(counted, ((1, 4),), False),
    "mean by hand": Entry(lambda net, h: h - h.sum(0) / h.shape[0], X, False),
    "through a helper": Entry(lambda net, h: helper(h, h.shape[0]), X, False),
    "centred": Entry(lambda net, h: h - h.mean(0), X, False),
    "centred, one row": Entry(lambda net, h: h + h.mean(0), ((1, 4),), False),
    "softmax over the batch": Entry(lambda net, h: h.softmax(0), X, False),
    "batch norm in training": Entry(lambda net, h: F.batch_norm(h, None, None, training=True), X, False),
    "numbered rows": Entry(lambda net, h: h + torch.arange(h.shape[0])[:, None], X, False),
    "place in a table": Entry(lambda net, h: h + net.table[: h.shape[0]], X, False),
    "reversed": Entry(lambda net, h: h.flip(0), X, False),
    "branch on the size": Entry(branch, X, False),
    "unrolled": Entry(unrolled, X, False),
    "listed sizes": Entry(lambda net, h: h * [0.0, 0.5, 0.25, 0.3, 0.7][h.shape[0]], X, False),
    "without gradients": Entry(without_gradients, X, False),
    "the size itself": Entry(lambda net, h: (h * 2, h.shape[0]), X, False),
    "gram": Entry(lambda net, h: h @ h.T, X, False),
    "loss": Entry(lambda net, h: (h * h).mean(), X, False),
}
