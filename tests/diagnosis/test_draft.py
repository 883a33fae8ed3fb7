"""_draft: further places of one kind, found quietly, with nothing left behind."""

from __future__ import annotations

import gc
import logging
import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim

from pytest_exportready.diagnosis import _affordable

X = torch.ones(4, 3)


class Twice(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        if x.sum() > 100:
            x = x + 1
        if x.max() > 100:
            x = x * 2
        return x


class Fixed(nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return x.reshape(4, 3) + y.sum()


def test_the_other_places_are_named(diagnosed: Callable[..., Any]) -> None:
    first = Twice.forward.__code__.co_firstlineno
    finding = diagnosed(Twice().eval(), X)
    assert finding.line == first + 1
    assert f"The same problem is at {Path(__file__).name}:{first + 3}" in finding.message


def test_the_line_that_makes_a_size_a_constant(diagnosed: Callable[..., Any]) -> None:
    """Non-strict export tells none."""
    finding = diagnosed(Fixed().eval(), X, X[:3], dynamic_shapes={"x": {0: Dim("batch")}, "y": {0: Dim("other")}})
    assert (finding.code, finding.where) == ("ER403", "x.shape[0]")
    assert (finding.file, finding.line) == (__file__, Fixed.forward.__code__.co_firstlineno + 1)


@pytest.mark.parametrize("limit", ["PARAMETERS", "OPERATORS", "SECONDS"])
def test_a_model_that_takes_long_is_left_alone(
    limit: str, diagnosed: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A trace cannot be stopped: how long it would take is found out before."""
    assert "The same problem is at" in diagnosed(Twice().eval(), X).message
    monkeypatch.setattr(_affordable, limit, -1)
    assert "The same problem is at" not in diagnosed(Twice().eval(), X).message


def test_it_is_quiet_and_leaves_nothing(
    diagnosed: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """No log, no open file, no file, no environment, no random numbers drawn."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    state = torch.get_rng_state()
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        assert "The same problem is at" in diagnosed(Twice().eval(), X).message
        gc.collect()
    assert [str(w.message) for w in told if issubclass(w.category, ResourceWarning)] == []
    assert torch.equal(state, torch.get_rng_state())
    assert "TORCH_DTRACE" not in os.environ
    assert logging.root.manager.disable == logging.NOTSET
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
    assert "draft_export" not in capfd.readouterr().err.replace("`draft_export()`", "")
