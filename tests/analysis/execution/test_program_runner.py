"""A program run operator by operator: every result is seen, state is restored, a failure has its node."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from pytest_exportready.analysis.execution.program_runner import RunningProgram
from pytest_exportready.analysis.program.nodes import operator_name, source

X = torch.ones(2, 3)


class Counts(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x: Tensor, *, scale: Tensor) -> Tensor:
        self.calls.add_(1)
        with torch.autocast("cpu", torch.bfloat16):
            y = x @ x.mT
        return y.float() * scale + self.calls


def test_every_operator_is_seen_and_the_state_is_restored() -> None:
    program = RunningProgram(torch.export.export(Counts(), (X,), {"scale": torch.tensor(2.0)}))
    call = ((X,), {"scale": torch.tensor(2.0)})
    for _ in range(2):
        seen: dict[str, object] = {}
        program.watched(call, lambda node, result: seen.setdefault(operator_name(node), result))  # noqa: B023
        assert seen["aten::matmul"].dtype == torch.bfloat16  # inside the region
        assert seen["output"] is not None
    assert torch.equal(program.outputs([call])[0], torch.full((2, 2), 7.0))


def test_failing() -> None:
    class Looks(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            with torch.autocast("cpu", torch.bfloat16):
                y = x @ x.mT
                return torch.index_select(y, 0, x[0].long())

    program = RunningProgram(torch.export.export(Looks(), (X,)))
    assert program.failing([((X,), {})]) is None
    node = program.failing([((X,), {}), ((X * 7,), {})])
    assert node is not None
    assert operator_name(node) == "aten::index_select"
    assert source(node) == (__file__, Looks.forward.__code__.co_firstlineno + 3)
    assert program.failing([((torch.ones(1, 1),), {})]) is None  # a guard of the program is no operator
