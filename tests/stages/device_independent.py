"""Modules with one device baked in each, and clean twins, by an author who had not seen the stage."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
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
