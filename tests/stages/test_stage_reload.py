"""Stage reload: a fresh process reads the same program from the file, and crashes there are findings."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor, nn

from pytest_exportready import export_ready_check
from pytest_exportready.analysis.processes import loader_client
from pytest_exportready.analysis.processes.child import ProcessDied
from pytest_exportready.analysis.processes.loader import load
from pytest_exportready.analysis.processes.loader_client import LOADER, Loader, LoaderGone
from pytest_exportready.analysis.processes.saved_program import name_of
from pytest_exportready.analysis.processes.warm_up import rehearse
from pytest_exportready.case.readiness import Readiness
from pytest_exportready.stages import reload


@pytest.fixture(autouse=True)
def rehearsed() -> None:
    """The warm-up calls torch.export.save in this process: do it before a test replaces that function."""
    rehearse()


X = torch.linspace(-1.0, 1.0, 12).reshape(4, 3)
LOAD = {"function": name_of(load), "hide_cuda": True, "threads": 1}
"""A request to load, without the files."""


class Linear(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(x)


def check(model: nn.Module | None = None, *args: Any, **knowledge: Any) -> Readiness:
    return export_ready_check((model or Linear()).eval(), args or (X,), stages=["reload"], **knowledge)


def reported(readiness: Readiness) -> list[tuple[str, str]]:
    return [(finding.code, finding.severity) for finding in readiness.findings]


def outcome(readiness: Readiness) -> str:
    return next(stage.outcome for stage in readiness.stages if stage.name == "reload")


def test_bitwise_equal_under_the_same_names() -> None:
    """Both modes; tied weights and non-persistent buffers included."""

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
            self.inner[1].weight = self.inner[0].weight
            self.register_buffer("table", torch.arange(3.0), persistent=False)

        def forward(self, x: Tensor, scale: float = 1.0) -> dict[str, Any]:
            return {"y": self.inner(x) + self.table * scale, "n": 3}

    readiness = check(Net(), X, 2.0, strict="both")
    assert readiness.ready, readiness
    assert reported(readiness) == []
    assert [s.facts["bitwise"] for s in readiness.stages if s.name == "reload"] == [True, True]


def test_a_program_that_needs_an_import(monkeypatch: pytest.MonkeyPatch) -> None:
    """Output class or operator of an importable module: a note for the consumer."""
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    import reload_output

    for model in (reload_output.ReturnsOutput(), reload_output.UsesOperator()):
        readiness = check(model)
        assert readiness.ready, readiness
        assert reported(readiness) == [("ER705", "note")]
        assert "import reload_output" in readiness.findings[0].fix


@pytest.mark.parametrize(("name", "code"), [("exportready_tests.Local", "ER702"), (None, "ER701")])
def test_a_class_that_cannot_be_imported(name: str | None, code: str) -> None:
    """Defined where no import finds it, or registered without a name for the file."""

    @dataclass
    class Local:
        x: Tensor

    Local.__module__ = "nowhere_to_be_found"
    torch.export.register_dataclass(Local, serialized_type_name=name)

    class Net(nn.Module):
        def forward(self, x: Tensor) -> Local:
            return Local(x * 2)

    readiness = check(Net())
    assert reported(readiness) == [(code, "error")]
    assert "register" in readiness.errors[0].fix.lower()


def test_a_crash_while_saving(monkeypatch: pytest.MonkeyPatch) -> None:
    """torch.export.save aborts the process: a finding, and this process continues."""
    monkeypatch.setattr(torch.export, "save", lambda *_: os.abort())
    readiness = check()
    assert reported(readiness) == [("ER701", "error")]
    assert "SIGABRT" in readiness.errors[0].torch_says


def test_a_save_that_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is killed at the limit, and the reason names the place; the model is not at fault."""
    monkeypatch.setattr(torch.export, "save", lambda *_: time.sleep(60))
    monkeypatch.setattr(reload, "SECONDS", 1)
    readiness = check()
    assert (readiness.outcome, outcome(readiness)) == ("infra", "infra")
    assert "torch.export.save took longer than 1 s, in test_stage_reload.py:" in readiness.stages[-2].reason


def test_a_save_that_ends_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Exit code 0 without a result is a failure."""
    monkeypatch.setattr(torch.export, "save", lambda *_: os._exit(0))
    assert reported(check()) == [("ER701", "error")]


def test_a_save_that_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    """An error with the text, without tensor contents; a full disk is an infrastructure error."""

    def refuse(*_: object) -> None:
        raise ValueError(f"cannot save {torch.tensor([1.25])}")

    monkeypatch.setattr(torch.export, "save", refuse)
    readiness = check()
    assert reported(readiness) == [("ER701", "error")]
    assert readiness.errors[0].torch_says == "ValueError: cannot save <tensor>"

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(torch.export, "save", full)
    readiness = check()
    assert (readiness.outcome, outcome(readiness)) == ("infra", "infra")


def test_a_load_that_hangs_or_dies(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Hangs, crashes and exits are errors; the next request is served."""
    (tmp_path / "exportready_hangs.py").write_text("import time; time.sleep(60)")
    (tmp_path / "exportready_leaves.py").write_text("import os; os._exit(0)")
    (tmp_path / "exportready_aborts.py").write_text("import os; os.abort()")
    loader = Loader()
    request = {**LOAD, "reply": str(tmp_path / "reply"), "sys_path": [str(tmp_path)]}
    try:
        for name, message in [("leaves", "without a result"), ("aborts", "SIGABRT"), ("hangs", "longer than")]:
            with pytest.raises(ProcessDied, match=message):
                loader.ask({**request, "imports": [f"exportready_{name}"]}, 2)
        assert "error" in loader.ask({**request, "imports": ["exportready_absent"]}, 60)
    finally:
        loader.stop()


def test_a_loader_killed_between_two_cases() -> None:
    """It is started again, and the case passes."""
    assert check().ready
    process = LOADER._process
    assert process is not None
    process.kill()
    assert check().ready
    assert LOADER._process is not process


def test_a_loader_that_cannot_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """An infrastructure error with its last line of output."""
    monkeypatch.setattr(loader_client, "_START", "raise SystemExit('no torch here')")
    monkeypatch.setattr(reload, "LOADER", Loader())
    readiness = check()
    assert (readiness.outcome, outcome(readiness)) == ("infra", "infra")
    assert "no torch here" in readiness.stages[-2].reason
    gc.collect()  # pipes left open would warn here
    with pytest.raises(LoaderGone):
        reload.LOADER.ask({"reply": ""}, 1)


def test_no_process_is_left(tmp_path: Path) -> None:
    """After a session, its loader and the children of the loader have ended."""
    (tmp_path / "exportready_sleeps.py").write_text(
        "import os, pathlib, time; pathlib.Path('%s').write_text(str(os.getpid())); time.sleep(60)" % (tmp_path / "pid")
    )
    script = f"""
from pytest_exportready.analysis.processes.loader_client import LOADER, ProcessDied
try:
    paths, imports = [{str(tmp_path)!r}], ["exportready_sleeps"]
    LOADER.ask({{**{LOAD!r}, "reply": "", "sys_path": paths, "imports": imports}}, 3)
except ProcessDied:
    LOADER.ensure_started()
    print(LOADER._process.pid)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    for pid in (int(done.stdout), int((tmp_path / "pid").read_text())):
        with pytest.raises(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)


def test_stateful_sequences_with_dicts_in_another_order() -> None:
    """The loaded program gets the calls in order, and each input in its position."""

    class Cached(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("cache", torch.zeros(4, 3))

        def forward(self, d: dict[str, Tensor], x: Tensor, y: Tensor) -> Tensor:
            self.cache.add_(d["a"] * 2 + d["b"] * 3 + x * 5 + y * 7)
            return self.cache * 2

    more = [(({"b": X, "a": X + 1},), {"y": X * 2, "x": X * 3})]
    readiness = export_ready_check(
        Cached().eval(), ({"a": X, "b": X + 2},), example_kwargs={"x": X + 3, "y": X + 4},
        more_inputs=more, stateful_calls=True, allow_mutation=True, stages=["reload"],
    )  # fmt: skip
    assert readiness.ready, readiness


def test_missing_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """A name of the module's state dict that the program does not have is reported."""

    class Net(Linear):
        def state_dict(self, *args: Any, **kwargs: Any) -> Any:
            return {**super().state_dict(*args, **kwargs), "ema.weight": torch.ones(1)}

    readiness = check(Net())
    assert reported(readiness) == [("ER704", "error")]
    assert readiness.errors[0].where == "ema.weight"


def test_a_string_among_the_outputs() -> None:
    """torch.export.load does not read it back; the fix names the string."""

    class Named(Linear):
        def forward(self, x: Tensor) -> Any:
            return {"y": super().forward(x), "version": "v1"}

    readiness = check(Named().eval())
    if not readiness.ready:  # fixed in a later torch
        assert [finding.code for finding in readiness.errors] == ["ER702"]
        assert "version" in readiness.errors[0].fix


class Pair(NamedTuple):
    first: Tensor
    second: Tensor


def test_a_namedtuple_among_the_outputs() -> None:
    """torch.export.save does not write it; the fix says what to return instead."""

    class Twice(Linear):
        def forward(self, x: Tensor) -> Any:
            return Pair(super().forward(x), x * 2)

    (finding,) = check(Twice().eval()).errors
    assert finding.code == "ER701"
    assert "dict" in finding.fix
