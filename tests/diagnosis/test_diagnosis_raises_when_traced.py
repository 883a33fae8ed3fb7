"""What forward raises only under the trace is told with its own line, library code included; torch's errors are not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from pytest_exportready import export_ready_check

X = torch.ones(2, 3)


class Masked(nn.Module):
    def forward(self, x: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
        if torch.compiler.is_exporting():
            x = x * mask[:, None]  # NONE LINE
        return x + 1


class Refuses(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if torch.compiler.is_exporting():
            raise ValueError("not for export")  # RAISE LINE
        return x + 1


class Shapes(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if torch.compiler.is_exporting():
            return x @ torch.ones(5, 5)
        return x + 1


def line_of(comment: str) -> int:
    lines = Path(__file__).read_text().splitlines()
    return next(number for number, text in enumerate(lines, 1) if text.endswith(f"# {comment}"))


@pytest.mark.parametrize(("kind", "comment"), [(Masked, "NONE LINE"), (Refuses, "RAISE LINE")])
def test_it_is_told_with_its_line(kind: type[nn.Module], comment: str) -> None:
    (finding,) = export_ready_check(kind().eval(), (X,), stages=["export"]).errors
    assert (finding.code, finding.line) == ("ER430", line_of(comment))
    assert finding.message.startswith("`forward` raises while it is traced")


def test_an_error_of_torch_is_not_forwards() -> None:
    (finding,) = export_ready_check(Shapes().eval(), (X,), stages=["export"]).errors
    assert finding.code != "ER430"


def test_what_eager_raises_is_the_eager_stages() -> None:
    class Broken(nn.Module):
        def forward(self, x: Any) -> Any:
            raise KeyError("always")

    assert {f.code for f in export_ready_check(Broken().eval(), (X,)).errors} == {"ER110"}
