"""What is handed out was run and fails alike; what cannot be written down says why; contents are never printed."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
from os import environ
from pathlib import Path
from typing import Any

import pytest
import torch
from failing import FAILING, Branching
from torch import Tensor, nn
from userland.models import MAKERS

from pytest_exportready import ExportCase
from pytest_exportready.case.options import CaseOptions
from pytest_exportready.case.readiness import Readiness
from pytest_exportready.judge.judge import judge


def judged(model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None, **options: Any) -> Readiness:
    case = ExportCase(model.eval(), args, kwargs or {})
    return judge(case, CaseOptions(stages=("export",), **options), name="case")


@pytest.mark.parametrize("name", FAILING)
def test_the_script_was_run_and_fails_alike(name: str) -> None:
    model, args, kwargs = FAILING[name]
    readiness = judged(model, args, kwargs)
    assert readiness.failed_stage == "export"
    assert readiness.reproducer, readiness.no_reproducer
    assert "failing" not in readiness.reproducer
    assert "pytest_exportready" not in readiness.reproducer


@pytest.mark.parametrize("habit", MAKERS)
def test_what_users_write_is_written_out(habit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("userland.gates.TOKEN", "hf_abcdefgh")
    monkeypatch.setenv("HF_TOKEN", "hf_abcdefgh")
    readiness = judged(MAKERS[habit](), (torch.ones(3, 4),))
    assert readiness.failed_stage == "export"
    assert readiness.reproducer, readiness.no_reproducer
    for private in ("alice", "hunter2", "hf_abcdefgh", str(Path.home()), str(Path(__file__).parent)):
        assert private not in readiness.reproducer


def test_a_path_in_what_the_export_said_is_cut(tmp_path: Path) -> None:
    class Reads(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            raise RuntimeError("no such file: /home/alice/private/weights.bin, asked at https://user:pw@host/a/b")

    readiness = judged(Reads(), (torch.ones(3, 4),))
    assert "alice" not in readiness.reproducer.partition("class ")[0]


def test_it_needs_nothing_but_torch(tmp_path: Path) -> None:
    readiness = judged(Branching(4), (torch.ones(3, 4),), dynamic_batch=True)
    (tmp_path / "reproduce.py").write_text(readiness.reproducer)
    command = [sys.executable, "-I", "reproduce.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "GuardOnDataDependentSymNode" in done.stderr
    assert "if self.gate(y):" in readiness.reproducer
    assert "Dim" in readiness.reproducer


def test_strict_is_strict() -> None:
    readiness = judged(Branching(4), (torch.ones(3, 4),), modes=("strict",))
    assert "strict=True" in readiness.reproducer


def test_a_healthy_export_has_none() -> None:
    assert judged(nn.Linear(4, 4), (torch.ones(3, 4),)).reproducer == ""


def test_contents_are_never_written() -> None:
    model = Branching(4)
    with torch.no_grad():
        model.inner.weight.fill_(0.7351)
    assert "0.7351" not in judged(model, (torch.full((3, 4), 0.7351),)).reproducer


class Odd:
    __slots__ = ("x",)


class Holds(Branching):
    def __init__(self, value: Any) -> None:
        super().__init__(4)
        self.value = value


class Shows(Holds):
    def gate(self, x: Tensor) -> bool:
        return super().gate(x) or self.value is None


class Raises(Branching):
    def __init__(self) -> None:
        super().__init__(4)

    def __getattr__(self, name: str) -> Any:
        if name == "__wrapped__":
            raise RuntimeError("no")
        return super().__getattr__(name)


class Ends(Branching):
    """What is read of it to write it down ends the session, when it is let."""

    def __init__(self) -> None:
        super().__init__(4)
        self.width = 4

    def __getattribute__(self, name: str) -> Any:
        if name == "__dict__" and sys._getframe(1).f_globals["__name__"].endswith("reproduce.skeleton"):
            raise SystemExit(3)
        return super().__getattribute__(name)


def hooked() -> nn.Module:
    model = Branching(4)
    model.inner.register_forward_hook(type("Hook", (), {"__call__": lambda self, module, args, output: output})())
    return model


def same_name() -> nn.Module:
    class Branching(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x if bool(x.sum() > 0) else -x

    return nn.Sequential(Branching(), globals()["Branching"](4))


@pytest.mark.parametrize(
    ("model", "why"),
    [
        pytest.param(lambda: Shows(threading.Lock()), r"model\.value: a _thread\.lock cannot be writ", id="object"),
        pytest.param(lambda: Shows(environ), r"model\.value: a os\._Environ cannot be written", id="environment"),
        pytest.param(lambda: Shows(eval("lambda x: x")), r"model\.value: a lambda .* has no source", id="evaluated"),
        pytest.param(lambda: Holds(open), "", id="builtin is fine"),
        pytest.param(Ends, "SystemExit: 3", id="ends the process"),
        pytest.param(hooked, r"model\.inner has a hook: Hook was made at run time", id="hooks"),
        pytest.param(same_name, "two different things are called Branching", id="names"),
        pytest.param(
            lambda: type("Made", (Branching,), {})(4), "Made was made at run time and has no source", id="no source"
        ),
        pytest.param(lambda: Shows(torch.ones(2, 2).to_sparse()), r"model\.value: a Tensor of layout", id="sparse"),
    ],
)
def test_what_cannot_be_written_says_why(model: Any, why: str) -> None:
    readiness = judged(model(), (torch.ones(3, 4),))
    assert bool(readiness.reproducer) != bool(readiness.no_reproducer)
    assert bool(readiness.no_reproducer) == bool(why)
    assert re.search(why, readiness.no_reproducer), readiness.no_reproducer


def test_weights_that_decide_are_told_from_those_that_do_not() -> None:
    """The branch is on a weight: with ones it goes the other way, exports, and nobody is handed that file."""

    class Weighed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("limit", torch.tensor(-5.0))
            self.inner = Branching(4)

        def forward(self, x: Tensor) -> Tensor:
            return self.inner(x) if float(self._limit) < 0 else x

    model = Weighed()
    model._limit = -5.0  # type: ignore[assignment]
    readiness = judged(model, (torch.ones(3, 4),))
    assert readiness.reproducer, readiness.no_reproducer
    model._limit = model.limit.numpy()  # type: ignore[assignment]
    assert "the script raises nothing instead of GuardOn" in judged(model, (torch.ones(3, 4),)).no_reproducer
