"""An output class and an operator as a user's library has them: importable, and unknown without that
import."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn


@dataclass
class Output:
    x: Tensor


torch.export.register_dataclass(Output, serialized_type_name="exportready_tests.Output")


class ReturnsOutput(nn.Module):
    def forward(self, x: Tensor) -> Output:
        return Output(x * 2)


@torch.library.custom_op("exportready_tests::twice", mutates_args=())
def twice(x: Tensor) -> Tensor:
    return x * 2


@twice.register_fake
def _(x: Tensor) -> Tensor:
    return torch.empty_like(x)


class UsesOperator(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return twice(x)
