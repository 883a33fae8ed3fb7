"""The third of the corpus that the probes were not tuned on."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor


class Faults:
    def table_from_numpy(m: Any, x: Tensor) -> Tensor:
        return m.linear(x) + torch.from_numpy(np.array([1.0, 2.0], dtype=np.float32))  # here

    def uniform(m: Any, x: Tensor) -> Tensor:
        return m.linear(x) + 0 * torch.rand(3, 1)  # here

    def triangle(m: Any, x: Tensor) -> Tensor:
        scores = x @ x.t()
        return scores.masked_fill(torch.triu(torch.ones(3, 3), 1) > 0, -1e9)  # here

    def one_hot(m: Any, x: Tensor) -> Tensor:
        return m.linear(x) + F.one_hot(torch.arange(3) % 2, 2)  # here

    def mesh(m: Any, x: Tensor) -> Tensor:
        rows, columns = torch.meshgrid(torch.arange(3), torch.arange(2), indexing="ij")  # here
        return m.linear(x) + rows + columns

    def scattered(m: Any, x: Tensor) -> Tensor:
        return x.scatter_add(0, torch.zeros(3, 2, dtype=torch.long), x)  # here

    def gathered(m: Any, x: Tensor) -> Tensor:
        place = x.argmax(-1, keepdim=True).cpu()  # here
        return x.gather(1, place)

    def chosen_kernel(m: Any, x: Tensor) -> Tensor:
        kernel = {"cuda": torch.tanh, "cpu": torch.sin}[x.device.type]  # here
        return kernel(m.linear(x))

    def both_asked(m: Any, x: Tensor) -> Tensor:
        on_gpu = x.is_cuda and x.device.index == 0  # here
        return m.linear(x) * (2 if on_gpu else 1)

    def no_gpu_no_scale(m: Any, x: Tensor) -> Tensor:
        scale = 3 if torch.cuda.device_count() else 1  # here
        return m.linear(x) * scale

    def fixed_device_in_a_loop(m: Any, x: Tensor) -> Tensor:
        for step in range(2):
            x = m.linear(x) + torch.tensor([step, step + 1], device="cpu")  # here
        return x


class Clean:
    def one_hot(m: Any, x: Tensor) -> Tensor:
        return m.linear(x) + F.one_hot(x.argmax(-1), 2)

    def mesh(m: Any, x: Tensor) -> Tensor:
        rows, columns = torch.meshgrid(
            torch.arange(3, device=x.device), torch.arange(2, device=x.device), indexing="ij"
        )
        return m.linear(x) + rows + columns

    def scalar_tensor(m: Any, x: Tensor) -> Tensor:
        return torch.where(x > 0, m.linear(x), torch.tensor(-1.0))

    def threshold(m: Any, x: Tensor) -> Tensor:
        return torch.maximum(m.linear(x), torch.zeros((), device=x.device))

    def rows_by_list(m: Any, x: Tensor) -> Tensor:
        return m.linear(x)[[2, 0]]

    def two_outputs(m: Any, x: Tensor) -> tuple[Tensor, Tensor]:
        y = m.linear(x)
        return y, y.argmax(-1).to("cpu")

    def same_device_asserted(m: Any, x: Tensor) -> Tensor:
        if x.device.type != m.scale.device.type or x.is_cuda != m.scale.is_cuda:
            raise ValueError(f"{x.device} and {m.scale.device}")
        return m.linear(x) * m.scale

    def device_kept_in_a_variable(m: Any, x: Tensor) -> Tensor:
        device = x.device
        steps = torch.linspace(0, 1, 3, device=device)
        return m.linear(x) * steps[:, None] + torch.empty(2, device=device).fill_(1.0)

    def data_dependent_index(m: Any, x: Tensor) -> Tensor:
        return m.linear(x)[x.argmax(0)]

    def options_of_another(m: Any, x: Tensor) -> Tensor:
        options = {"device": m.scale.device, "dtype": m.scale.dtype}
        return m.linear(x) + torch.ones(2, **options)

    def detached_copy_for_the_log(m: Any, x: Tensor) -> Tensor:
        y = m.linear(x)
        m.last = y.detach().cpu() if m.training else None
        return y
