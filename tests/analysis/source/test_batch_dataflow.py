"""batch_names: which Python expressions are numbers that stem from the batch."""

from __future__ import annotations

import ast

import pytest

from pytest_exportready.analysis.source.batch_dataflow import BatchNames


def names(source: str) -> tuple[BatchNames, ast.FunctionDef]:
    function = ast.parse(f"def forward(self, x):\n    {source}").body[0]
    assert isinstance(function, ast.FunctionDef)
    return BatchNames(function, 0), function


@pytest.mark.parametrize(
    "source",
    [
        "return x * x.shape[0]",
        "return x / len(x)",
        "n = x.size(0); return x * (n * 0.1)",
        "n, t = x.shape; m = 1 / n; return x * m",
        "s = x.shape; return x * s[0]",
        "return x * [1.0, 2.0][x.shape[0]]",
        "self.n = x.shape[0]; return x * self.n",
        "return torch.mul(x, max(x.shape[0], 1))",
        "x *= x.numel(); return x",
        "return x.view(x.shape[0], -1) * float(x.shape[0])",
    ],
)
def test_computed_with(source: str) -> None:
    found, function = names(source)
    assert found.computes(function, "mul", 0.7) or found.computes(function, "div", 0.7)


@pytest.mark.parametrize(
    "source",
    [
        "return x * x.shape[-1]",
        "return x.view(x.shape[0] * 2, -1) * 0.7",
        "b, t = x.shape; return x.reshape(b * t) * self.scale",
        "return x * 0.7 + torch.zeros(x.shape[0], 1)",
        "t = x.shape[1:]; return x * t[0]",
        "return x[: x.shape[0]] * self.scale",
        "return torch.pad(x, x.shape[0]) * self.scale",
    ],
)
def test_not_computed_with(source: str) -> None:
    """Sizes given as sizes, other dimensions, numbers that stand there themselves."""
    found, function = names(source)
    assert not found.computes(function, "mul", 0.7)


@pytest.mark.parametrize(
    ("source", "decides"),
    [
        ("return x if x.shape[0] > 3 else -x", True),
        ("return [x[i] for i in range(len(x))]", True),
        ("while x.size(0) < 3: pass", True),
        ("assert x.shape[0] > 1", False),
        ("return x if x.shape[1] > 3 else -x", False),
        ("return x if self.training else -x", False),
    ],
)
def test_branches(source: str, decides: bool) -> None:
    assert bool(names(source)[0].branch()) is decides


def test_a_check_that_raises_is_no_branch() -> None:
    assert not names("if x.shape[0] != 4: raise ValueError")[0].branch()
