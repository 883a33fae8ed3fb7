"""Modules with one device baked in each, and clean twins, by an author who had not seen the stage."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

X = torch.randn(3, 4, generator=torch.Generator().manual_seed(0))
FAULTS: list[tuple[str, Callable[[], nn.Module]]] = []
CLEAN: list[tuple[str, Callable[[], nn.Module]]] = []
CPU = torch.device("cpu")


def made(into: list[tuple[str, Callable[[], nn.Module]]], **held: Callable[[nn.Module], Any]) -> Callable[..., None]:
    """The decorated function is the forward of a module that holds ``held``, next to a layer ``linear``."""

    def add(forward: Callable[..., Any]) -> None:
        name = forward.__name__
        forward.__code__ = forward.__code__.replace(co_name="forward")  # torch.export takes down the lines of no other

        def build() -> nn.Module:
            torch.manual_seed(0)
            module = type(name, (nn.Module,), {"forward": forward})()
            module.linear = nn.Linear(4, 4)
            for attribute, value in held.items():
                setattr(module, attribute, value(module))
            return module.eval()

        into.append((name, build))

    return add


@dataclass
class Config:
    scale: float = 2.0
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))


def buffer(value: Tensor, persistent: bool = True) -> Callable[[nn.Module], Any]:
    return lambda module: nn.Buffer(value.clone(), persistent=persistent)


@made(FAULTS, offset=lambda net: torch.arange(4.0))
def tensor_attribute(net, x):
    return net.linear(x) + net.offset


@made(CLEAN, offset=buffer(torch.arange(4.0)))
def tensor_buffer(net, x):
    return net.linear(x) + net.offset


@made(FAULTS, offsets=lambda net: [torch.ones(4), torch.arange(4.0)])
def tensors_in_a_list(net, x):
    return net.linear(x) + net.offsets[1]


@made(CLEAN, offsets=lambda net: nn.ParameterList([torch.ones(4), torch.arange(4.0)]))
def parameters_in_a_list(net, x):
    return net.linear(x) + net.offsets[1]


@made(FAULTS, table=lambda net: {"a": torch.arange(4.0)})
def tensors_in_a_dict(net, x):
    return net.linear(x) * net.table["a"]


@made(CLEAN, table=lambda net: nn.ParameterDict({"a": torch.arange(4.0)}))
def parameters_in_a_dict(net, x):
    return net.linear(x) * net.table["a"]


@made(FAULTS)
def arange_without_device(net, x):
    return net.linear(x) + torch.arange(4)


@made(CLEAN)
def arange_beside_the_input(net, x):
    return net.linear(x) + torch.arange(4, device=x.device)


@made(FAULTS)
def zeros_joined(net, x):
    return torch.cat([net.linear(x), torch.zeros(x.shape[0], 1)], 1)


@made(CLEAN)
def new_zeros_joined(net, x):
    return torch.cat([net.linear(x), x.new_zeros(x.shape[0], 1)], 1)


@made(FAULTS)
def device_string(net, x):
    return net.linear(x) + torch.full((4,), 2.0, device="cpu")


@made(CLEAN)
def device_of_a_weight(net, x):
    return net.linear(x) + torch.full((4,), 2.0, device=net.linear.weight.device)


@made(FAULTS, device=lambda net: net.linear.weight.device)
def device_kept_from_init(net, x):
    return net.linear(x) + torch.ones(4, device=net.device)


@made(CLEAN, device=lambda net: net.linear.weight.device)
def device_kept_and_unused(net, x):
    return net.linear(x) + torch.ones_like(x)


@made(FAULTS)
def moved_to_cpu(net, x):
    return net.linear(x.to("cpu"))


@made(CLEAN)
def moved_to_the_weight(net, x):
    return net.linear(x.to(net.linear.weight.device, net.linear.weight.dtype))


@made(FAULTS)
def mean_taken_on_cpu(net, x):
    y = net.linear(x)
    return y - y.cpu().mean(-1, keepdim=True)


@made(CLEAN)
def result_of_another_dtype(net, x):
    return net.linear(x).to(torch.float64)


@made(FAULTS)
def sum_made_on_cpu(net, x):
    y = net.linear(x)
    return y + y.cpu().sort(-1).values.to(y.device) * torch.ones(4, device=torch.device("cpu"))


@made(CLEAN)
def sorted_in_place(net, x):
    y = net.linear(x)
    return y + y.sort(-1).values * torch.ones(4, device=y.device)


@made(FAULTS, config=lambda net: Config())
def config_with_a_device(net, x):
    return net.linear(x) + torch.linspace(0, 1, 4, device=net.config.device) * net.config.scale


@made(CLEAN, config=lambda net: Config())
def config_with_a_scale(net, x):
    return net.linear(x) + torch.linspace(0, 1, 4, device=x.device) * net.config.scale


@made(FAULTS, zeros=lambda net: functools.partial(torch.zeros, device="cpu"))
def partial_with_a_device(net, x):
    return torch.stack([net.linear(x), net.zeros(x.shape)])


@made(CLEAN, zeros=lambda net: functools.partial(torch.zeros_like, dtype=torch.float32))
def partial_with_a_dtype(net, x):
    return torch.stack([net.linear(x), net.zeros(x)])


@made(FAULTS)
def branch_on_is_cuda(net, x):
    return net.linear(x).relu() if x.is_cuda else net.linear(x)


@made(CLEAN)
def branch_on_dtype(net, x):
    return net.linear(x) if x.is_floating_point() else net.linear(x.float())


@made(FAULTS)
def branch_on_device_type(net, x):
    y = net.linear(x)
    return y.half().float() if x.device.type == "cuda" else y


@made(CLEAN)
def same_either_way(net, x):
    return net.linear(x) * (1.0 if x.device.type == "cuda" else 1)


@made(FAULTS)
def branch_on_a_weight(net, x):
    return net.linear(x) * (2.0 if net.linear.weight.device == CPU else 1.0)


@made(CLEAN)
def branch_on_a_shape(net, x):
    return net.linear(x) * (2.0 if net.linear.weight.shape == (4, 4) else 1.0)


@made(FAULTS)
def mask_cached_lazily(net, x):
    if not hasattr(net, "mask"):
        net.mask = torch.ones(4).cumsum(0)
    return net.linear(x) * net.mask


@made(CLEAN)
def mask_made_each_time(net, x):
    return net.linear(x) * torch.ones(4, device=x.device).cumsum(0)


@made(FAULTS)
def autocast_of_cpu(net, x):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return net.linear(x).float()


@made(CLEAN)
def autocast_of_the_input(net, x):
    with torch.autocast(x.device.type, enabled=False):
        return net.linear(x).float()


@made(FAULTS)
def default_device_set(net, x):
    with torch.device("cpu"):
        return net.linear(x) + torch.ones(4)


@made(CLEAN)
def default_device_of_the_input(net, x):
    with torch.device(x.device):
        return net.linear(x) + torch.ones(4)


@made(FAULTS, steps=lambda net: np.arange(4, dtype=np.float32))
def from_numpy(net, x):
    return net.linear(x) + torch.from_numpy(net.steps)


@made(CLEAN, steps=lambda net: [float(n) for n in range(4)])
def from_numbers(net, x):
    return net.linear(x) + torch.tensor(net.steps, device=x.device)


@made(FAULTS, order=lambda net: torch.tensor([2, 0, 1, 3]))
def gathered_by_an_attribute(net, x):
    return net.linear(x).gather(1, net.order.expand(x.shape[0], 4))


@made(CLEAN, order=buffer(torch.tensor([2, 0, 1, 3]), persistent=False))
def gathered_by_a_buffer(net, x):
    return net.linear(x).gather(1, net.order.expand(x.shape[0], 4))


@made(FAULTS)
def literal_tensor(net, x):
    return net.linear(x) - torch.tensor([0.1, 0.2, 0.3, 0.4])


@made(CLEAN)
def literal_scalar(net, x):
    return net.linear(x) - torch.tensor(0.1)


@made(FAULTS)
def mask_from_shape(net, x):
    return net.linear(x).masked_fill(torch.arange(4) > x.shape[1] // 2, 0.0)


@made(CLEAN)
def mask_from_values(net, x):
    return net.linear(x).masked_fill(x > 0, 0.0)


@made(FAULTS)
def embedding_of_made_places(net, x):
    return x + F.embedding(torch.arange(x.shape[1] - 1), net.linear.weight).sum(0)


@made(CLEAN)
def embedding_of_given_places(net, x):
    return x + F.embedding(torch.arange(x.shape[1] - 1, device=x.device), net.linear.weight).sum(0)


@made(FAULTS)
def type_of_cpu(net, x):
    return net.linear(x.type(torch.FloatTensor))


@made(CLEAN)
def type_as_input(net, x):
    return net.linear(x).type_as(x)


@made(FAULTS)
def state_without_device(net, x):
    return F.linear(torch.eye(4), net.linear.weight) + net.linear(x).mean()


@made(CLEAN)
def state_like_the_weight(net, x):
    return F.linear(torch.eye(4).to(x), net.linear.weight) + net.linear(x).mean()


@made(FAULTS, inner=lambda net: type("Holder", (), {"mean": torch.arange(4.0)})())
def tensor_in_a_plain_object(net, x):
    return net.linear(x - net.inner.mean)


@made(CLEAN, inner=lambda net: type("Holder", (), {"mean": 0.5})())
def number_in_a_plain_object(net, x):
    return net.linear(x - net.inner.mean)


@made(FAULTS, scale=lambda net: (lambda held: lambda: held)(torch.arange(4.0)))
def tensor_in_a_closure(net, x):
    return net.linear(x) * net.scale()


@made(CLEAN, scale=lambda net: lambda like: torch.arange(4.0, device=like.device))
def closure_that_follows(net, x):
    return net.linear(x) * net.scale(x)


@made(FAULTS)
def one_output_of_a_made_tensor(net, x):
    return {"y": net.linear(x), "count": torch.ones(x.shape[0]) * x[:, 0]}


@made(CLEAN)
def one_output_beside(net, x):
    return {"y": net.linear(x), "count": x.new_ones(x.shape[0]) * x[:, 0]}


@made(FAULTS)
def meshgrid_without_device(net, x):
    rows, columns = torch.meshgrid(torch.arange(3), torch.arange(4), indexing="ij")
    return net.linear(x) + rows * columns


@made(CLEAN)
def meshgrid_beside(net, x):
    rows, columns = torch.meshgrid(torch.arange(3, device=x.device), torch.arange(4, device=x.device), indexing="ij")
    return net.linear(x) + rows * columns


@made(FAULTS)
def written_into_made_tensor(net, x):
    result = torch.empty(3, 4)
    result.copy_(net.linear(x))
    return result + x


@made(CLEAN)
def index_on_cpu_is_allowed(net, x):
    return net.linear(x)[:, torch.tensor([2, 0, 1])]


@made(FAULTS)
def kernel_without_device(net, x):
    return F.conv1d(x[:, None], torch.ones(1, 1, 3) / 3) + net.linear(x)[:, None, :2]


@made(CLEAN)
def kernel_like_the_weight(net, x):
    return F.conv1d(x[:, None], torch.ones_like(net.linear.weight[:1, None, :3]) / 3) + net.linear(x)[:, None, :2]
