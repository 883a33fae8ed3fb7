"""Stage interface: mutated inputs, overwritten outputs, keyword order, constant outputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from pytest_exportready import export_ready_check
from pytest_exportready.case.finding import Finding


class Net(nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)
        self.register_buffer("kept", torch.zeros(4, 3))
        self.work = {"space": torch.zeros(4, 3)}
        self.function = function

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(self, *args, **kwargs)


def x() -> Tensor:
    return torch.randn(4, 3)


def found(function: Callable[..., Any], *args: Any, **knowledge: Any) -> list[Finding]:
    torch.manual_seed(0)
    model = Net(function).eval()
    before = model.kept.clone()
    readiness = export_ready_check(model, args or (x(),), stages=["interface"], **knowledge)
    assert {stage.outcome for stage in readiness.stages if stage.name == "interface"} <= {"passed", "failed"}
    assert torch.equal(model.kept, before)
    return [finding for finding in readiness.findings if finding.code in ("ER151", "ER152", "ER153", "ER154")]


def serious(function: Callable[..., Any], *args: Any, **knowledge: Any) -> list[Finding]:
    return [finding for finding in found(function, *args, **knowledge) if finding.severity != "note"]


def centred(net: Any, x: Tensor, *rest: Tensor) -> Tensor:
    x.sub_(x.mean())
    return net.linear(rest[0] if rest else x) + x


def test_a_mutated_input() -> None:
    """A warning if the program mutates it, too; a note if it is declared."""
    (finding,) = serious(centred)
    assert (finding.code, finding.severity, finding.where) == ("ER151", "warning", "args[0]")
    assert "clone()" in finding.fix
    (declared,) = found(centred, allow_mutation=True)
    assert declared.severity == "note"


def test_an_input_that_only_the_module_mutates() -> None:

    def written(net: Any, x: Tensor) -> Tensor:
        y: Tensor = net.linear(x)
        if not torch.compiler.is_exporting():
            x.zero_()
        return y

    (finding,) = serious(written)
    assert (finding.code, finding.severity, finding.where) == ("ER151", "error", "args[0]")
    assert "the program modifies it differently" in finding.message


def test_inputs_in_the_same_memory_matter_if_one_is_mutated() -> None:
    both = x()
    (finding,) = serious(centred, both, both[:])
    assert (finding.severity, finding.where) == ("error", "args[0] and args[1]")
    assert [f.severity for f in serious(centred, x(), x())] == ["warning"]
    assert serious(lambda net, a, b: net.linear(a) + b, both, both[:]) == []


def test_a_dict_that_is_changed() -> None:
    def takes(net: Any, batch: dict[str, Tensor]) -> Tensor:
        y: Tensor = net.linear(batch["x"]) - batch.pop("y", 0)
        return y

    def copies(net: Any, batch: dict[str, Tensor]) -> Tensor:
        return takes(net, dict(batch))

    (finding,) = serious(takes, {"x": x(), "y": x()})
    assert (finding.code, finding.severity, finding.where) == ("ER151", "warning", "args[0]")
    assert serious(copies, {"x": x(), "y": x()}) == []


def workspace(net: Any, x: Tensor) -> Any:
    net.kept.copy_(net.linear(x))
    return {"y": net.kept[:, :2]}


def test_an_output_that_the_next_call_overwrites() -> None:
    """The finding names the memory; it is a note if the module is declared to have state."""
    (finding,) = serious(workspace)
    assert (finding.code, finding.severity, finding.where) == ("ER152", "error", "kept")
    assert "output['y']" in finding.message
    for declared in ({"allow_mutation": True}, {"stateful_calls": True, "allow_mutation": True}):
        assert serious(workspace, **declared) == []


def test_a_workspace_in_a_dict_is_named() -> None:
    def hidden(net: Any, x: Tensor) -> Tensor:
        y: Tensor = torch.add(net.linear(x).detach(), 1, out=net.work["space"])
        return y

    (finding,) = serious(hidden)
    assert (finding.code, finding.where) == ("ER152", "work['space']")


def test_outputs_that_are_not_overwritten() -> None:
    """Views of inputs and weights are notes; copies of a workspace are not reported."""

    def views(net: Any, x: Tensor) -> Any:
        return {"y": net.linear(x), "x": x[:, :2], "weight": net.linear.weight}

    def copies(net: Any, x: Tensor) -> Tensor:
        net.kept.copy_(net.linear(x))
        y: Tensor = net.kept.clone()
        return y

    messages = [finding.message for finding in found(views) if finding.code == "ER152"]
    assert messages == ["An output shares memory: output['x'] with args[0], output['weight'] with linear.weight."]
    assert serious(views) == []
    assert [finding for finding in found(copies) if finding.code == "ER152"] == []


def named(net: Any, user: Tensor, item: Tensor) -> Tensor:
    y: Tensor = net.linear(user) - item
    return y


def in_order(net: Any, **features: Tensor) -> Tensor:
    first, second = features.values()
    return named(net, first, second)


def test_names_in_another_order() -> None:
    """Read by name, the output is the same. Read by position, the program keeps the order of the example."""
    kwargs = {"user": x(), "item": x()}
    torch.manual_seed(0)
    assert serious(lambda net, x, **kwargs: named(net, **kwargs) + x, x(), example_kwargs=kwargs) == []
    (finding,) = serious(lambda net, x, **kwargs: in_order(net, **kwargs) + x, x(), example_kwargs=kwargs)
    assert (finding.code, finding.severity) == ("ER153", "warning")


def test_a_program_that_exchanges_inputs(monkeypatch: pytest.MonkeyPatch) -> None:
    """No known torch does it: a program that ignores the names is substituted."""
    from pytest_exportready.analysis.execution.program_runner import RunningProgram

    honest = RunningProgram.outputs

    def forgetful(self: Any, calls: Any, *rest: Any) -> Any:
        return honest(
            self, [(args, dict(zip(("user", "item"), kwargs.values(), strict=True))) for args, kwargs in calls]
        )

    monkeypatch.setattr(RunningProgram, "outputs", forgetful)
    kwargs = {"user": x(), "item": x()}
    (finding,) = serious(lambda net, x, **kwargs: named(net, **kwargs) + x, x(), example_kwargs=kwargs)
    assert (finding.code, finding.severity) == ("ER153", "error")


def test_constant_outputs_are_notes() -> None:
    """Anchors and Python numbers, but not a cache that forward has written."""

    def constant(net: Any, x: Tensor) -> Any:
        return net.linear(x), net.kept * 2, x.shape[0]

    def cached(net: Any, x: Tensor) -> Any:
        net.kept[:, :2] = net.linear(x)[:, :2]
        return net.linear(x), net.kept + 1

    notes = [finding for finding in found(constant) if finding.code == "ER154"]
    assert [(finding.severity, finding.where) for finding in notes] == [("note", "output[1]"), ("note", "output[2]")]
    assert [finding for finding in found(cached) if finding.code == "ER154"] == []
