"""What is private to torch about programs: there in 2.13 to 2.15; what a newer torch has lost fails here."""

from __future__ import annotations

import logging

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

from pytest_exportready.analysis.torch_internals.programs import (
    SizeGuards,
    bound_sizes,
    draft_failures,
    failed_operator,
    program_guards,
    traced_frames,
    tracing_mode,
    without_bound,
)
from pytest_exportready.analysis.torch_internals.tensors import is_fake
from pytest_exportready.diagnosis._draft import _quiet


def test_failed_operator() -> None:
    """Carried by the exception, or found in its stack; of an error of Python's there is none."""
    fake = FakeTensorMode()
    with fake, pytest.raises(RuntimeError) as devices:
        torch.zeros(2) + torch.zeros(2, device="meta")
    assert failed_operator(devices.value) == "aten.add.Tensor"
    with fake, pytest.raises(RuntimeError) as shapes:
        torch.zeros(2, 3).mm(torch.zeros(2, 3))
    assert failed_operator(shapes.value) == "aten.mm.default"
    assert failed_operator(ValueError()) == ""


def test_program_guards() -> None:
    class Even(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + 1 if x.shape[0] % 2 == 0 else x

    dynamic = {"x": {0: torch.export.Dim.DYNAMIC}}
    program = torch.export.export(Even(), (torch.ones(4, 3),), dynamic_shapes=dynamic)
    assert any("% 2" in guard for guard in program_guards(program))


def test_traced_frames_and_draft_failures() -> None:
    """Where strict export was, and what draft_export met; unknown for anything else."""

    class Net(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x if x.sum() > 0 else -x

    with pytest.raises(Exception, match="ata-dependent") as raised:
        torch.export.export(Net(), (torch.ones(2),), strict=True)
    line = Net.forward.__code__.co_firstlineno + 1
    assert traced_frames(raised.value)[-1] == (__file__, line)
    assert traced_frames(ValueError()) == []
    program = torch.export.export(nn.Linear(1, 1), (torch.ones(1, 1),))
    assert draft_failures(program) == []
    with _quiet():
        draft = torch.export.draft_export(Net(), (torch.ones(2),))
    assert draft_failures(draft) == [("DATA_DEPENDENT_ERROR", __file__, line, [])]


def test_tracing_mode() -> None:
    """2.13 to 2.15 have it."""
    program = torch.export.export(nn.Linear(2, 2), (torch.ones(1, 2),))
    val = program.graph.find_nodes(op="placeholder")[0].meta["val"]
    with tracing_mode(program):
        assert is_fake(val + 1)


def test_size_guards() -> None:
    """2.13 to 2.15 log them; torch's own handlers and level are as before."""

    class Net(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * 2 if x.shape[0] > 2 else x

    logger = logging.getLogger("torch.__trace")
    before = logger.level, list(logger.handlers)
    with SizeGuards() as guards:
        torch.export.export(Net(), (torch.ones(4, 3),), dynamic_shapes=({0: torch.export.Dim.AUTO},))
    assert (logger.level, list(logger.handlers)) == before
    line = Net.forward.__code__.co_firstlineno + 1
    assert any(of == "L['x'].size()[0]" and (__file__, line) in stack for of, _, stack in guards.found)


def test_sizes_get_an_upper_bound() -> None:
    """Every supported torch keeps the range of a size both in the program and in its ShapeEnv."""
    shapes = ({0: torch.export.Dim("rows", min=1), 1: torch.export.Dim("columns", max=9)},)
    program = torch.export.export(torch.nn.ReLU(), (torch.ones(2, 3),), dynamic_shapes=shapes)
    (rows,) = without_bound(program)
    bound_sizes(program, {rows: 6})
    assert without_bound(program) == set()
    assert {(str(size) == rows, int(span.upper)) for size, span in program.range_constraints.items()} == {
        (True, 6),
        (False, 9),
    }
    value = next(iter(program.graph.nodes)).meta["val"]
    assert int(value.shape[0].node.shape_env.var_to_range[value.shape[0].node.expr].upper) == 6
    static = torch.export.export(torch.nn.ReLU(), (torch.ones(2),))
    bound_sizes(static, {"s0": 1})
    assert without_bound(static) == set()
