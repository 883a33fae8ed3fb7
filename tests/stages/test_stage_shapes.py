"""Stage shapes: a dimension that is not as dynamic as declared is found."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import sympy
import torch
from torch import Tensor, nn
from torch.export import Dim

from pytest_exportready import export_ready_check
from pytest_exportready.analysis.execution.dynamic_shapes import Dynamic
from pytest_exportready.analysis.execution.program_runner import RunningProgram
from pytest_exportready.analysis.execution.trial import Trial
from pytest_exportready.case.export_case import ExportCase
from pytest_exportready.case.readiness import Readiness
from pytest_exportready.stages.shapes import _outside

STAGES = ["shapes"]


class Net(nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.function = function

    def forward(self, x: Tensor, y: Tensor | None = None) -> Any:
        x = self.linear(x)
        return self.function(x) if y is None else self.function(x, y)


def check(function: Callable[..., Any], *inputs: Tensor, **options: Any) -> Readiness:
    torch.manual_seed(0)
    return export_ready_check(Net(function).eval(), inputs or (torch.randn(4, 4),), stages=STAGES, **options)


def codes(readiness: Readiness) -> list[str]:
    return [finding.code for finding in readiness.errors]


def sizes(readiness: Readiness) -> list[str]:
    (stage,) = [stage for stage in readiness.stages if stage.name == "shapes"]
    assert stage.outcome == "passed", readiness
    return list(stage.facts["sizes"])


def unrolled(x: Tensor) -> Tensor:
    return torch.stack([x[i] * i for i in range(x.shape[0])])


SPECIALIZED = {
    "int": lambda x: x * int(x.shape[0]),
    "list index": lambda x: x * [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0][x.shape[0]],
    "unrolled loop": unrolled,
    "size branch": lambda x: x * 2 if x.shape[0] <= 8 else x * 3,
    "size branch far away": lambda x: x * 2 if x.shape[0] <= 100 else x * 3,
    "even sizes": lambda x: x * 2 if x.shape[0] % 2 == 0 else x * 3,
}


@pytest.mark.parametrize("name", SPECIALIZED)
@pytest.mark.parametrize("strict", [False, True])
def test_silent_specialization_by_auto(name: str, strict: bool) -> None:
    """torch.export succeeds with Dim.AUTO, and the program is for some sizes only; the dimension is named."""
    readiness = check(SPECIALIZED[name], dynamic_shapes=({0: Dim.AUTO},), strict=strict)
    if name == "int" and readiness.ready:
        assert len(sizes(readiness)) > 2  # newer versions of torch keep the symbol
        return
    assert codes(readiness) == ["ER601"]
    assert readiness.errors[0].where == "x.shape[0]"


def test_example_of_size_one() -> None:
    """Size 1 becomes a constant: silently with Dim.AUTO, refused with a named Dim."""
    one = torch.randn(1, 4)
    automatic = check(lambda x: x * 2, one, dynamic_shapes=({0: Dim.AUTO},))
    assert codes(automatic) == ["ER601"]
    assert "constant 1" in automatic.errors[0].message
    named = check(lambda x: x * 2, one, dynamic_batch=True)
    assert codes(named) == ["ER403"]
    assert named.errors[0].where == "x.shape[0]"


def test_sizes_that_only_the_program_ties() -> None:
    """Two dimensions with Dim.AUTO that tracing made equal, although the module accepts different sizes."""

    def ties(x: Tensor, y: Tensor) -> Tensor:
        return x.sum(0) + y.sum(0) if x.shape[0] == y.shape[0] else x.sum(0)

    inputs = torch.randn(4, 4), torch.randn(4, 4)
    assert codes(check(ties, *inputs, dynamic_shapes=({0: Dim.AUTO}, {0: Dim.AUTO}))) == ["ER601"]


def scaled(x: Tensor) -> Tensor:
    return x * torch.full((), x.shape[0]) * math.sqrt(4)


HEALTHY = {
    "plain": lambda x: x * 2,
    "mean": lambda x: x - x.mean(0, keepdim=True),
    "reshape": lambda x: x.reshape(x.shape[0], 2, 2).flatten(1),
    "symbolic factor": lambda x: x * x.shape[0],
    "tensor of the size": scaled,
    "arange": lambda x: x + torch.arange(x.shape[0])[:, None],
    "group norm": lambda x: nn.functional.group_norm(x[:, :, None], 2).squeeze(-1),
    "guard always true": lambda x: x * 2 if x.shape[0] > 0 else x,
}


@pytest.mark.parametrize("name", HEALTHY)
def test_no_false_alarm(name: str) -> None:
    """Correct dynamic models pass at size 1 and at larger sizes, in both modes."""
    readiness = check(HEALTHY[name], dynamic_batch=True, strict="both")
    assert readiness.ready, readiness
    assert "x.shape[0]=1" in sizes_of(readiness, "strict")
    assert "x.shape[0]=9" in sizes_of(readiness, "non-strict")


def sizes_of(readiness: Readiness, mode: str) -> list[str]:
    (stage,) = [stage for stage in readiness.stages if stage.name == "shapes" and stage.mode == mode]
    return list(stage.facts["sizes"])


def test_two_inputs_tied_by_the_module() -> None:
    """Dim.AUTO for the batch of both inputs: the eager module refuses different sizes, too."""
    inputs = torch.randn(4, 4), torch.randn(4, 4)
    assert check(lambda x, y: x + y, *inputs, dynamic_shapes=({0: Dim.AUTO}, {0: Dim.AUTO})).ready


def test_declared_bounds() -> None:
    """Only declared sizes are tried, up to the bound."""
    tried = sizes(check(SPECIALIZED["size branch"], dynamic_shapes=({0: Dim("b", min=2, max=8)},)))
    assert tried == [f"x.shape[0]={size}" for size in (2, 3, 7, 8)]


@pytest.mark.parametrize(("low", "high"), [(2, 8), (3, 64), (4, 5)])
def test_sizes_outside_are_refused(low: int, high: int) -> None:
    readiness = check(lambda x: x * 2, dynamic_shapes=({0: Dim("b", min=low, max=high)},))
    assert readiness.ready, readiness
    assert not [finding for finding in readiness.findings if finding.code == "ER605"]


def test_a_program_that_runs_outside_its_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RunningProgram, "outputs", lambda self, calls: [torch.zeros(1) for _ in calls])
    program, call = Trial.__new__(Trial), ((torch.randn(4, 4),), {})
    program.case, program.__dict__["running"] = (
        ExportCase(nn.Linear(4, 4), *call),
        RunningProgram.__new__(RunningProgram),
    )
    symbol = sympy.Symbol("s", integer=True)
    found = list(_outside(program, [Dynamic(0, 0, "x.shape[0]", 3, 8)], {(0, 0): symbol}))
    assert [(finding.code, finding.where) for finding in found] == [("ER605", "x.shape[0]")] * 2


def test_derived_dimensions_follow() -> None:
    """2 * d and d are resized together."""
    d = Dim("d", max=32)
    shapes = {"x": {0: d}, "y": {0: 2 * d}}
    readiness = check(lambda x, y: x + y.mean(), torch.randn(4, 4), torch.randn(8, 4), dynamic_shapes=shapes)
    assert "x.shape[0]=9" in sizes(readiness)


def test_several_dimensions() -> None:
    """Each alone, and all together."""
    shapes = ({0: Dim("batch"), 1: Dim("length")},)
    tried = sizes(check(lambda x: x.sum(1), torch.randn(3, 5, 4), dynamic_shapes=shapes))
    assert {"x.shape[0]=1", "x.shape[1]=1", "x.shape[1]=11"} <= set(tried)


def test_the_same_tensor_twice() -> None:
    """One object for two inputs: both are resized."""
    x = torch.randn(4, 4)
    assert "x.shape[0]=7" in sizes(check(lambda x, y: x + y, x, x, dynamic_batch=True))


def test_a_python_number_of_the_example() -> None:
    """A number that is computed outside the trace is right at the size of the example only."""
    frozen: list[int] = []

    def once(x: Tensor) -> Tensor:
        if torch.compiler.is_exporting():
            return x * frozen[0]
        frozen[:] = [x.shape[0]]
        return x * x.shape[0]

    readiness = check(once, dynamic_batch=True)
    assert codes(readiness) == ["ER602"]
    assert readiness.errors[0].where == "x.shape[0]"


def test_nothing_declared() -> None:
    stage = check(lambda x: x).stages[-1]
    assert (stage.name, stage.outcome, stage.reason) == (
        "shapes",
        "skipped",
        "no dimension is declared dynamic",
    )


def test_a_module_with_one_size_only() -> None:
    """A warning, as nothing was compared."""

    def one_size(x: Tensor) -> Tensor:
        if torch.compiler.is_exporting() or x.shape[0] == 4:
            return x * 2
        raise ValueError(x.shape)

    readiness = check(one_size, dynamic_batch=True)
    assert ("ER602", "warning") in [(finding.code, finding.severity) for finding in readiness.findings]


def test_an_inner_size_of_one_is_a_warning() -> None:
    """Pooled to one row: torch treats that size separately; reported once."""

    class Pools(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return nn.functional.max_pool2d(x, 2)

    image, rows = torch.randn(2, 3, 8, 8), Dim.DYNAMIC
    readiness = export_ready_check(Pools().eval(), (image,), dynamic_shapes=({2: rows},), stages=STAGES)
    assert readiness.ready, readiness
    found = [(finding.code, finding.severity, finding.where) for finding in readiness.findings]
    assert found in ([("ER601", "warning", "x.shape[2]")], [])
    assert "x.shape[2]=17" in sizes(readiness)
