"""failure: the place named is in the user's own source."""

from __future__ import annotations

import inspect
from pathlib import Path
from types import CodeType

import pytest
import torch
from torch import nn

from pytest_exportready.analysis.source import user_frames as module
from pytest_exportready.analysis.source.user_frames import (
    chain,
    module_at,
    source_files,
    stack_place,
    stack_places,
    user_frames,
    user_place,
)  # fmt: skip


def raise_here() -> None:
    raise ValueError("here")


LINE = inspect.getsourcelines(raise_here)[1] + 1


def caught(function: object) -> Exception:
    try:
        function()  # type: ignore[operator]
    except Exception as error:
        return error
    raise AssertionError("nothing was raised")


def test_innermost_frame_of_the_user() -> None:
    """Not torch's frames below it."""
    assert user_place(caught(raise_here)) == (__file__, LINE)
    error = caught(lambda: nn.Linear(2, 2)(torch.randn(3, 3)))
    assert user_place(error)[0] == __file__


def test_the_cause_counts_more_than_what_was_made_of_it() -> None:
    """The innermost exception of the chain names the line; cycles do not hang."""

    def wrap() -> None:
        try:
            raise_here()
        except ValueError as error:
            raise RuntimeError("outer") from error

    error = caught(wrap)
    assert [type(link) for link in chain(error)] == [RuntimeError, ValueError]
    assert user_place(error) == (__file__, LINE)
    error.__cause__.__cause__ = error  # type: ignore[union-attr]
    assert len(chain(error)) == 2


def frame_in(file: str) -> Exception:
    namespace: dict[str, object] = {}
    exec(compile("def f():\n    raise ValueError", file, "exec"), namespace)
    return caught(namespace["f"])


SITE = Path(torch.__file__).parent.parent


@pytest.mark.parametrize("file", [SITE / "torchvision" / "x.py", SITE / "torch_geometric.py", "/home/me/model.py"])
def test_neighbours_of_torch_are_users(file: object) -> None:
    """A name that begins with torch is not torch."""
    assert user_place(frame_in(str(file))) == (str(file), 2)


@pytest.mark.parametrize(
    "file",
    [
        SITE / "torch" / "x.py",
        SITE / "sympy" / "x.py",
        Path(module.__file__).parent / "x.py",
        Path("/any/exportready_fixtures/scenarios/plain.py"),
        Path(inspect.__file__).parent / "json" / "x.py",
        "<string>",
    ],
)
def test_who_is_not_the_user(file: object) -> None:
    """torch, its tools, Python and we: the frame above is named instead."""
    assert user_place(frame_in(str(file)))[0] == __file__


def test_a_trace_quoted_in_the_message() -> None:
    """Symbolic errors are raised far from their cause, and quote it."""
    quoted = RuntimeError(
        f'failed\n  File "{SITE}/torch/y.py", line 3, in g\n  File "/home/me/m.py", line 7, in forward\n'
    )
    assert user_place(quoted) == ("/home/me/m.py", 7)
    assert stack_place(str(quoted)) == ("/home/me/m.py", 7)
    assert stack_places(str(quoted)) == [("/home/me/m.py", 7)]
    assert stack_place(None) == ("", 0)
    assert user_place(RuntimeError("nothing")) == ("", 0)


class Inner(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x if x.sum() > 0 else -x


@pytest.mark.parametrize("strict", [False, True])
def test_the_module_at_fault(strict: bool) -> None:
    """Its qualified name: from the running frames, in strict mode from the only forward that holds the line."""
    model = nn.Sequential(nn.Linear(3, 3), nn.Sequential(Inner()))
    error = caught(lambda: torch.export.export(model, (torch.randn(3),), strict=strict))
    assert module_at(error, model) == "1.0"
    assert user_place(error) == (__file__, Inner.forward.__code__.co_firstlineno + 1)
    assert user_frames(error)[-1] == user_place(error)
    assert any(file.endswith("container.py") for file in source_files(error)) or strict


def test_no_module_is_guessed() -> None:
    """Two modules of one class share the line that strict export tells; an error from elsewhere has none."""
    model = nn.Sequential(Inner(), Inner())
    error = caught(lambda: torch.export.export(model, (torch.randn(3),), strict=True))
    assert module_at(error, model) is None
    assert module_at(caught(raise_here), model) is None


def test_a_real_export_failure() -> None:
    """The line of forward that branches on a value."""

    class Branches(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if x.sum() > 0:
                return x
            return -x

    code: CodeType = Branches.forward.__code__
    error = caught(lambda: torch.export.export(Branches(), (torch.randn(3),)))
    assert user_place(error) == (__file__, code.co_firstlineno + 1)
