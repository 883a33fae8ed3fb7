"""Stage eager: the trained module runs, repeats itself, is stateless and gives the recorded output."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from pytest_exportready import export_ready_check
from pytest_exportready.case.finding import Finding

X = torch.linspace(-1.0, 1.0, 12).reshape(4, 3)


class Net(nn.Module):
    calls = 0

    def __init__(self, function: Callable[[Any, Tensor], Any]) -> None:
        super().__init__()
        self.register_buffer("seen", torch.zeros(()))
        self.function = function

    def forward(self, x: Tensor) -> Any:
        return self.function(self, x)


def found(function: Callable[[Any, Tensor], Any], **knowledge: Any) -> list[Finding]:
    return list(export_ready_check(Net(function).eval(), (X,), stages=["eager"], **knowledge).errors)


def counts(net: Any, x: Tensor) -> Tensor:
    net.calls += 1
    return x * net.calls


def tracks(net: Any, x: Tensor) -> Tensor:
    net.seen += 1
    return x * net.seen


def reassigns(net: Any, x: Tensor) -> Tensor:
    net.seen = net.seen + 1
    return x * net.seen


@pytest.mark.parametrize(("function", "where"), [(counts, "calls"), (tracks, "seen"), (reassigns, "seen")])
def test_state_is_named(function: Any, where: str) -> None:
    """A Python counter, a buffer that is written or reassigned in eval mode."""
    (finding,) = found(function)
    assert (finding.code, finding.where) == ("ER112", where)
    assert found(function, allow_mutation=True) == []


def test_randomness_is_not_state() -> None:
    """Noise and dropout that is always on."""
    for function in (lambda net, x: x + torch.randn(3), lambda net, x: nn.functional.dropout(x, 0.5, True)):
        assert [finding.code for finding in found(function)] == ["ER111"]


def test_state_that_no_output_depends_on() -> None:
    """A call counter for statistics."""

    def harmless(net: Any, x: Tensor) -> Tensor:
        net.calls += 1
        return x * 2

    assert found(harmless) == []


def test_it_does_not_run() -> None:
    """The error names the line of user code, and later stages are skipped."""

    def breaks(net: Any, x: Tensor) -> Tensor:
        return x @ x

    readiness = export_ready_check(Net(breaks).eval(), (X,))
    (finding,) = readiness.errors
    assert (finding.code, finding.file, finding.line) == (
        "ER110",
        __file__,
        breaks.__code__.co_firstlineno + 1,
    )
    assert [s.outcome for s in readiness.stages if s.name in ("export", "parity", "reload")] == ["skipped"] * 3


def test_nan() -> None:
    """Equal NaNs do not pass."""
    assert [finding.code for finding in found(lambda net, x: x.log())] == ["ER114"]
    assert found(lambda net, x: x.masked_fill(x > 0, float("-inf"))) == []


def test_golden() -> None:
    """The output recorded at the end of training, with its own tolerance."""
    assert found(lambda net, x: x, golden=X.clone()) == []
    assert found(lambda net, x: x, golden=X + 1e-5) == []
    assert [finding.code for finding in found(lambda net, x: x, golden=2 * X)] == ["ER113"]
    assert [finding.code for finding in found(lambda net, x: x, golden=X + 1e-5, golden_tolerance=1e-7)] == ["ER113"]


def test_outputs_of_a_class_that_torch_does_not_know() -> None:
    """Compared by their attributes, and not mistaken for randomness."""

    class Plain:
        def __init__(self, x: Tensor) -> None:
            self.x = x

    @dataclass
    class Data:
        x: Tensor

    for kind in (Plain, Data):
        assert found(lambda net, x, kind=kind: kind(x * 2)) == []
        assert [f.code for f in found(lambda net, x, kind=kind: kind(x + torch.randn(3)))] == ["ER111"]


def test_printing_fifty_mebibytes(capfd: pytest.CaptureFixture[str]) -> None:
    """The output of a forward is not captured."""

    def noisy(net: Any, x: Tensor) -> Tensor:
        print("x" * (50 * 2**20 // 3))
        return x * 2

    assert export_ready_check(Net(noisy).eval(), (X,), stages=["eager"]).ready
    assert len(capfd.readouterr().out) >= 2 * (50 * 2**20 // 3)


class Schedule:
    def __init__(self) -> None:
        self.step = 0


def _after_a_thousand(net: Any, x: Tensor) -> Tensor:
    net.calls += 1
    return x * 2 if net.calls > 1000 else x


def _in_a_dict(net: Any, x: Tensor) -> Tensor:
    net.counts["step"] += 1
    return x * min(net.counts["step"] // 50, 1)


def _in_an_object(net: Any, x: Tensor) -> Tensor:
    net.schedule.step += 1
    return x * 2 if net.schedule.step > 9 else x


def _logs(net: Any, x: Tensor) -> Tensor:
    net.calls += 1
    if net.calls % 100 == 0:
        net.counts["logged"] = net.calls
    return x * 2


def _round_robin(net: Any, x: Tensor) -> Tensor:
    net.calls = (net.calls + 1) % 3
    net.seen_last = [0, 0, 0][net.calls]
    return x * 2


@pytest.mark.parametrize(
    ("function", "where"),
    [
        (_after_a_thousand, ["calls"]),
        (_in_a_dict, ["counts.step"]),
        (_in_an_object, ["schedule.step"]),
        (_logs, []),
        (_round_robin, []),
    ],
)
def test_a_counter_that_shows_only_later(function: Any, where: list[str]) -> None:
    """Two equal calls agree, the thousandth does not; a counter for the log is not reported."""
    net = Net(function).eval()
    net.counts, net.schedule = {"step": 0}, Schedule()
    errors = export_ready_check(net, (X,), stages=["eager"]).errors
    assert [(f.code, f.where) for f in errors] == [("ER112", name) for name in where]
    assert (net.calls, net.counts, net.schedule.step) == (0, {"step": 0}, 0)


def test_a_module_narrower_than_its_checkpoint_is_suspected() -> None:
    """``load_state_dict`` casts silently."""

    class Shift(nn.Module):
        def __init__(self, dtype: torch.dtype) -> None:
            super().__init__()
            self.by = nn.Parameter(torch.full((3,), 1 / 3, dtype=dtype))

        def forward(self, x: Tensor) -> Tensor:
            return x + self.by

    shipped = Shift(torch.float32)
    readiness = export_ready_check(
        Shift(torch.bfloat16).eval(), (X,), stages=["eager"], golden=shipped(X).detach(), golden_tolerance=1e-4,
        checkpoint=shipped.state_dict(),
    )  # fmt: skip
    (finding,) = (finding for finding in readiness.errors if finding.code == "ER113")
    assert finding.where == "by (torch.bfloat16, torch.float32 in the checkpoint)"


def test_golden_dict_in_another_order() -> None:
    """Outputs in a dict are paired by key; a golden of another form, such as a list, by position."""

    def gives(net: Any, x: Tensor) -> dict[str, Tensor]:
        return {"b": x * 2, "a": x.sum()}

    assert found(gives, golden={"a": X.sum(), "b": X * 2}) == []
    assert found(gives, golden=[X * 2, X.sum()]) == []
    assert [f.code for f in found(gives, golden={"a": X.sum(), "b": X * 3})] == ["ER113"]


def remembers(net: Any, x: Tensor) -> Tensor:
    if "mean" not in vars(net):
        net.mean = x.mean(0)
    return x - net.mean


def remembers_by_size(net: Any, x: Tensor) -> Tensor:
    tables = vars(net).setdefault("tables", {})
    return x * tables.setdefault(x.shape[1], torch.arange(3.0))


def test_a_cache_that_serves_another_input_is_named() -> None:
    (finding,) = found(remembers)
    assert (finding.code, finding.where) == ("ER112", "mean")
    assert found(remembers_by_size) == []
    assert found(remembers, allow_mutation=True) == []


def draws(net: Any, x: Tensor) -> Tensor:
    return x + torch.randn_like(x)


def test_randomness_is_named_with_its_line() -> None:
    (finding,) = found(draws)
    assert (finding.code, finding.file, finding.line) == ("ER111", __file__, draws.__code__.co_firstlineno + 1)


class Counting(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        return x * self.calls


def test_state_is_named_with_the_line_that_writes_it() -> None:
    (finding,) = export_ready_check(nn.Sequential(Counting()).eval(), (X,), stages=["eager"]).errors
    assert (finding.code, finding.where) == ("ER112", "0.calls")
    assert (finding.file, finding.line) == (__file__, Counting.forward.__code__.co_firstlineno + 1)


def test_a_kernel_that_is_not_deterministic() -> None:
    """A warning of its own, if deterministic algorithms make it repeat; otherwise `forward` is at fault."""
    calls = itertools.count(1)

    class Adds(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            wobble = 0.0 if torch.are_deterministic_algorithms_enabled() else 1e-3 * next(calls)
            return x * 2 + wobble

    readiness = export_ready_check(Adds().eval(), (torch.ones(2, 3),), stages=["eager"])
    assert [(f.code, f.severity) for f in readiness.findings if f.stage == "eager"] == [("ER115", "warning")]
    assert not torch.are_deterministic_algorithms_enabled()
