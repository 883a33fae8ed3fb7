"""Modules that a device is baked into, one fault each, its line marked; and modules that look alike and are healthy."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

DEVICE = torch.device("cpu")
SCALE = torch.tensor([0.5, 2.0])


class Net(nn.Module):
    """The layers that the corpus needs, with a forward given by function."""

    def __init__(self, forward: Callable[[Any, Tensor], Any]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.do = forward
        self.linear = nn.Linear(2, 2)
        self.table = nn.Embedding(9, 2)
        self.lstm = nn.LSTM(2, 2, batch_first=True)
        self.attention = nn.MultiheadAttention(2, 1, batch_first=True)
        self.register_buffer("scale", torch.tensor([1.0, 3.0]))
        self.device = "cpu"

    def forward(self, x: Tensor) -> Any:
        return self.do(self, x)


X = torch.tensor([[0.5, -1.0], [2.0, 0.25], [-0.75, 1.5]])


class Faults:
    def positions(m: Any, x: Tensor) -> Tensor:
        return x + m.table(torch.arange(x.shape[0]))  # here

    def zeros(m: Any, x: Tensor) -> Tensor:
        return m.linear(torch.cat([x, torch.zeros(1, 2)]))  # here

    def ones_by_name(m: Any, x: Tensor) -> Tensor:
        mask = torch.ones(x.shape, device="cpu")  # here
        return m.linear(x) * mask

    def literal(m: Any, x: Tensor) -> Tensor:
        return m.linear(x) * torch.tensor([1.0, 2.0])  # here

    def as_tensor(m: Any, x: Tensor) -> Tensor:
        return m.linear(x) - torch.as_tensor([1.0, 2.0])  # here

    def global_device(m: Any, x: Tensor) -> Tensor:
        return m.linear(x) + torch.linspace(0, 1, 2, device=DEVICE)  # here

    def attribute_device(m: Any, x: Tensor) -> Tensor:
        return m.linear(x) + torch.full((2,), 3.0, device=m.device)  # here

    def half_way_to_the_cpu(m: Any, x: Tensor) -> Tensor:
        norm = x.norm(dim=-1, keepdim=True).cpu()  # here
        return m.linear(x) / (1 + norm)

    def to_cpu_by_name(m: Any, x: Tensor) -> Tensor:
        return m.linear(x) + x.softmax(-1).to("cpu")  # here

    def to_attribute(m: Any, x: Tensor) -> Tensor:
        moved = x.to(m.device)  # here
        return m.linear(x) * moved

    def rank_in_the_device(m: Any, x: Tensor) -> Tensor:
        device = f"cuda:{os.environ.get('LOCAL_RANK', 0)}" if torch.cuda.device_count() > 64 else "cpu"
        return m.linear(x) + torch.eye(2, device=device)[0]  # here

    def initial_state(m: Any, x: Tensor) -> Tensor:
        state = torch.zeros(1, 1, 2)  # here
        return m.lstm(x[None], (state, state))[0]

    def attention_mask(m: Any, x: Tensor) -> Tensor:
        mask = torch.ones(3, 3).tril().bool()  # here
        return F.scaled_dot_product_attention(x[None], x[None], x[None], attn_mask=mask)

    def global_tensor(m: Any, x: Tensor) -> Tensor:
        return m.linear(x) * SCALE  # here

    def is_cuda(m: Any, x: Tensor) -> Tensor:
        if x.is_cuda:  # here
            return m.linear(x).relu()
        return m.linear(x)

    def device_type(m: Any, x: Tensor) -> Tensor:
        if x.device.type == "cuda":  # here
            x = x * 2
        return m.linear(x)

    def not_on_the_cpu(m: Any, x: Tensor) -> Tensor:
        eps = 1e-6 if x.device == torch.device("cpu") else 1e-1  # here
        return m.linear(x / (x.norm() + eps))

    def of_the_weights(m: Any, x: Tensor) -> Tensor:
        fast = m.linear.weight.is_cuda  # here
        return m.linear(x).clamp(min=0 if fast else -1)

    def machine_with_gpu(m: Any, x: Tensor) -> Tensor:
        half = torch.cuda.is_available()  # here
        return m.linear(x).to(torch.float16 if half else torch.float32)

    def number_of_the_device(m: Any, x: Tensor) -> Tensor:
        return m.linear(x) + x.get_device()  # here

    def as_text(m: Any, x: Tensor) -> Tensor:
        return m.linear(x) - ("cuda" in str(x.device))  # here

    def rounded_on_one_kind(m: Any, x: Tensor) -> Tensor:
        exact = x.is_cpu  # here
        y = m.linear(x) + torch.zeros(2, device=x.device)
        return y if exact else y.half().float()


class Clean:
    def positions(m: Any, x: Tensor) -> Tensor:
        return x + m.table(torch.arange(x.shape[0], device=x.device))

    def of_the_weights(m: Any, x: Tensor) -> Tensor:
        return m.linear(x) + torch.zeros(2, device=m.linear.weight.device)

    def like(m: Any, x: Tensor) -> Tensor:
        return m.linear(x) + torch.ones_like(x) + x.new_full((2,), 3.0) + torch.zeros(2).to(x)

    def buffer(m: Any, x: Tensor) -> Tensor:
        return m.linear(x) * m.scale

    def number(m: Any, x: Tensor) -> Tensor:
        return m.linear(x) * torch.tensor(2.0)

    def index(m: Any, x: Tensor) -> Tensor:
        return m.linear(x)[torch.tensor([0, 2])]

    def output_on_the_cpu(m: Any, x: Tensor) -> Tensor:
        return m.linear(x).cpu()

    def autocast_that_follows_off(m: Any, x: Tensor) -> Tensor:
        with torch.autocast(x.device.type, enabled=False):
            return m.linear(x)

    def library_state(m: Any, x: Tensor) -> Tensor:
        return m.lstm(x[None])[0]

    def own_state(m: Any, x: Tensor) -> Tensor:
        state = x.new_zeros(1, 1, 2)
        return m.lstm(x[None], (state, state))[0]

    def attention(m: Any, x: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(x[None], x[None], x[None], is_causal=True)

    def attention_layer(m: Any, x: Tensor) -> Tensor:
        return m.attention(x[None], x[None], x[None])[0]

    def devices_compared(m: Any, x: Tensor) -> Tensor:
        if x.device != m.linear.weight.device:
            x = x.to(m.linear.weight.device)
        return m.linear(x)

    def moved_along(m: Any, x: Tensor) -> Tensor:
        return m.linear(x) + torch.tensor([0.5, 2.0]).to(x.device, non_blocking=True)

    def there_and_back(m: Any, x: Tensor) -> Tensor:
        return m.linear(x.cpu().round().to(x.device))

    def meta_is_asked_for(m: Any, x: Tensor) -> Tensor:
        return x if x.is_meta and x.is_sparse else m.linear(x)

    def device_is_told(m: Any, x: Tensor) -> Tensor:
        assert x.device.type in ("cpu", "cuda", "meta"), f"not on {x.device}"
        return m.linear(x)

    def device_by_text(m: Any, x: Tensor) -> Tensor:
        return m.linear(x) + torch.zeros(2, device=str(x.device))

    def dtype_only(m: Any, x: Tensor) -> Tensor:
        return m.linear(x.to(torch.float64).to(torch.float32))

    def mask(m: Any, x: Tensor) -> Tensor:
        causal = torch.ones(3, 3, dtype=torch.bool, device=x.device).tril()
        return F.scaled_dot_product_attention(x[None], x[None], x[None], attn_mask=causal)

    def mask_with_lowest(m: Any, x: Tensor) -> Tensor:
        return m.linear(x).masked_fill(x < 0, torch.finfo(x.dtype).min)

    def device_by_kind(m: Any, x: Tensor) -> Tensor:
        return m.linear(x) + torch.zeros(2, device="cuda" if x.is_cuda else "cpu")

    def device_by_number(m: Any, x: Tensor) -> Tensor:
        device = torch.device(f"cuda:{x.get_device()}") if x.is_cuda else torch.device("cpu")
        return m.linear(x) + torch.arange(2, device=device)

    def device_of_the_machine(m: Any, x: Tensor) -> Tensor:
        device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        return m.linear(x) + torch.tensor([1.0, 2.0], device=device)

    def moved_by_kind(m: Any, x: Tensor) -> Tensor:
        shift = torch.tensor([1.0, 2.0])
        return m.linear(x) + (shift.cuda() if x.is_cuda else shift)

    def random(m: Any, x: Tensor) -> Tensor:
        return m.linear(x) + 0 * torch.randn(2, device=x.device)


def functions(kind: type) -> dict[str, Callable[[Any, Tensor], Any]]:
    return {name: function for name, function in vars(kind).items() if callable(function) and name[0] != "_"}
