"""Custom operators with correct and with wrong schemas and fake kernels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

LIBRARY = torch.library.Library("exportready_ops", "DEF")


@torch.library.custom_op("exportready_ops::doubled", mutates_args=())
def doubled(x: Tensor) -> Tensor:
    return x * 2


@doubled.register_fake
def _(x: Tensor) -> Tensor:
    return torch.empty_like(x)


def _setup(ctx: Any, inputs: Any, output: Any) -> None:
    pass


@torch.library.custom_op("exportready_ops::tripled", mutates_args=())
def tripled(x: Tensor) -> Tensor:
    return x * 3


@tripled.register_fake
def _(x: Tensor) -> Tensor:
    return torch.empty_like(x)


tripled.register_autograd(lambda ctx, grad: grad * 3, setup_context=_setup)


@torch.library.custom_op("exportready_ops::secretly_writes", mutates_args=())
def secretly_writes(x: Tensor, scale: float) -> Tensor:
    x.mul_(scale)
    return x.sum()


@secretly_writes.register_fake
def _(x: Tensor, scale: float) -> Tensor:
    return x.new_empty(())


@torch.library.custom_op("exportready_ops::openly_writes", mutates_args=("x",))
def openly_writes(x: Tensor, scale: float) -> None:
    x.mul_(scale)


@torch.library.custom_op("exportready_ops::turned", mutates_args=())
def turned(x: Tensor) -> Tensor:
    return x.t().contiguous().t() * 2


@turned.register_fake
def _(x: Tensor) -> Tensor:
    return x.new_empty(x.shape)


@torch.library.custom_op("exportready_ops::mixed", mutates_args=())
def mixed(xs: Sequence[Tensor], bias: Tensor | None, *, scale: float = 1.0) -> list[Tensor]:
    return [x * scale + (0 if bias is None else bias) for x in xs]


@mixed.register_fake
def _(xs: Sequence[Tensor], bias: Tensor | None, *, scale: float = 1.0) -> list[Tensor]:
    return [torch.empty_like(x) for x in xs]


@torch.library.custom_op("exportready_ops::without_fake", mutates_args=())
def without_fake(x: Tensor, k: int, *, largest: bool = True) -> tuple[Tensor, Tensor]:
    values, indices = x.topk(k, largest=largest)
    return values, indices


LIBRARY.define("same_memory(Tensor x) -> Tensor")
LIBRARY.impl("same_memory", lambda x: x.view(-1), "CompositeExplicitAutograd")
torch.library.register_fake("exportready_ops::same_memory", lambda x: x.new_empty(x.numel()), lib=LIBRARY)
LIBRARY.define("a_view(Tensor(a) x) -> Tensor(a)")
LIBRARY.impl("a_view", lambda x: x.view(-1), "CompositeExplicitAutograd")
torch.library.register_fake("exportready_ops::a_view", lambda x: x.view(-1), lib=LIBRARY)
LIBRARY.define("in_kernel(Tensor x) -> Tensor")
LIBRARY.impl("in_kernel", lambda x: x * x, "CPU")
torch.library.register_fake("exportready_ops::in_kernel", lambda x: torch.empty_like(x), lib=LIBRARY)
