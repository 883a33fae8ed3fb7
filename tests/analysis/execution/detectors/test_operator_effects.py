"""Custom operators that modify or alias undeclared arguments are found while they run."""

from __future__ import annotations

from typing import Any

import custom_operators as ops
import pytest
import torch

from pytest_exportready.analysis.execution.detectors.operator_effects import Observed, observe
from pytest_exportready.analysis.program.nodes import is_custom


def seen(work: Any) -> dict[str, Observed]:
    found: dict[Any, Observed] = {}
    observe(work, found)
    return {observed.name.removeprefix("exportready_ops::"): observed for observed in found.values()}


def test_the_arguments_are_those_before_the_call() -> None:
    """They are copies, which the operator does not modify."""
    x = torch.ones(3)
    (observed,) = seen(lambda: ops.openly_writes(x, 2.0)).values()
    assert torch.equal(observed.args[0], torch.ones(3))
    assert observed.args[1] == 2.0
    assert torch.equal(x, torch.full((3,), 2.0))


def test_undeclared_effects() -> None:
    x = torch.ones(2, 3)
    found = seen(lambda: (ops.secretly_writes(x, 2.0), torch.ops.exportready_ops.same_memory(x)))
    assert list(found["secretly_writes"].written) == ["x"]
    assert list(found["same_memory"].aliased) == ["x"]


def test_a_later_call_counts_too() -> None:
    """Modified in the second call only: multiplying by one changes nothing."""
    x = torch.ones(2)
    found = seen(lambda: (ops.secretly_writes(x, 1.0), ops.secretly_writes(x, 3.0)))
    assert list(found["secretly_writes"].written) == ["x"]


def test_declared_effects() -> None:
    x = torch.ones(2, 3)
    work = lambda: (  # noqa: E731
        ops.openly_writes(x, 2.0),
        torch.ops.exportready_ops.a_view(x),
        ops.mixed([x, x + 1], None, scale=2.0),
        ops.mixed([x], x),
    )
    for observed in seen(work).values():
        assert (observed.written, observed.aliased) == ({}, {})


@pytest.mark.parametrize(("requires_grad", "expected"), [(True, True), (False, False)])
def test_whether_gradients_were_recorded(requires_grad: bool, expected: bool) -> None:
    x = torch.ones(2, requires_grad=requires_grad)
    assert seen(lambda: torch.ops.exportready_ops.in_kernel(x))["in_kernel"].differentiated is expected
    with torch.no_grad():
        assert not seen(lambda: torch.ops.exportready_ops.in_kernel(x))["in_kernel"].differentiated


def test_observations_are_kept_if_the_run_fails() -> None:
    found: dict[Any, Observed] = {}

    def work() -> None:
        ops.doubled(torch.ones(2))
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        observe(work, found)
    assert [observed.name for observed in found.values()] == ["exportready_ops::doubled"]


def test_is_custom() -> None:
    assert not is_custom(torch.ops.aten.add.Tensor)
    assert not is_custom(print)
    assert is_custom(torch.ops.exportready_ops.doubled.default)
