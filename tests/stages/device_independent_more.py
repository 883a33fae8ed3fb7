"""More modules with one device baked in each, and clean copies."""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F

from tests.stages.device_independent import CLEAN, FAULTS, buffer, made


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
