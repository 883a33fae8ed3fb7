"""Make torch import its lazy modules once, before processes are forked that would each import them again."""

from __future__ import annotations

from functools import cache
from io import BytesIO

import torch

from pytest_exportready.analysis.torch_internals.cuda import cuda_unasked


class _Shift(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + 1


@cache
def rehearse() -> None:
    """Export, save, load and run a program of one addition (0.3 CPU seconds; a first load costs 2).

    Children that are forked afterwards can use CUDA.
    """
    file = BytesIO()
    size = {0: torch.export.Dim("size")}
    with torch.no_grad(), cuda_unasked():
        torch.export.save(torch.export.export(_Shift(), (torch.ones(2),), dynamic_shapes=(size,)), file)
        file.seek(0)
        torch.export.load(file).module()(torch.ones(3))
