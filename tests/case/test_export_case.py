"""case: what a user declares is understood, or refused with the argument's name and what is accepted."""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import pytest
import torch
from torch import nn

from pytest_exportready.case.export_case import CaseError, ExportCase, as_case
from pytest_exportready.case.marker import export_ready
from pytest_exportready.case.options import ACCEPTED, CaseOptions, case_options
from pytest_exportready.judge.prepare import prepare_for_export

NET, X = nn.Linear(2, 2), torch.ones(1, 2)
PREPARED = prepare_for_export(NET)
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # torch.jit is deprecated
    SCRIPTED, TRACED = torch.jit.script(NET), torch.jit.trace(torch.relu, (X,))


class Traits(NamedTuple):
    opt_in: str = ""
    always: bool = False


STAGES = {
    "export": Traits(),
    "parity": Traits(),
    "decompose": Traits(opt_in="lower"),
    "onnx": Traits(opt_in="lower"),
    "aotinductor": Traits(opt_in="lower"),
    "budget": Traits(opt_in="budget", always=True),
}


def options(**arguments: Any) -> CaseOptions:
    return case_options(arguments, scenarios=["plain", "as_is"], stages=STAGES, codes=["ER302", "ER503"])


@pytest.mark.parametrize(
    "returned", [(NET, (X,)), [NET, [X]], (NET, (X,), {}), ExportCase(NET, (X,)), ExportCase(NET, [X])]
)
def test_forms_of_a_case(returned: object) -> None:
    """A pair, a triple or an ExportCase; the inputs become a tuple."""
    case = as_case(returned)
    assert case.model is NET
    assert case.args == (X,)
    assert case.kwargs == {}


REFUSED = [
    (None, "returned None"),
    (NET, "returned a Linear"),
    ((NET,), "a tuple of 1"),
    ((NET, (X,), {}, 4), "a tuple of 4"),
    (("net", (X,)), "The model is a str"),
    ((nn.Linear, (X,)), "Return an instance, `Linear(...)`"),
    ((torch.relu, (X,)), "def forward(self, x): return relu(x)"),
    ((SCRIPTED, (X,)), "Return the Python module that was passed to `torch.jit.script`"),
    ((TRACED, (X,)), "function before `torch.jit`"),
    ((torch.compile(torch.relu, backend="eager"), (X,)), "function before `torch.compile`"),
    ((NET.forward, (X,)), "Return the module itself instead of its `forward`"),
    ((torch.export.export(NET, (X,)), (X,)), "Return the module that it was exported from"),
    ((NET.state_dict(), (X,)), "model.load_state_dict(state)"),
    ((X, (X,)), "Return the module first"),
    ((NET, X), "Write `(x,)`"),
    ((NET, {"x": X}), "a dict, not a tuple"),
    ((NET, (), [X]), "keyword inputs are a list of 1"),
    (ExportCase(NET, (X,), more_inputs=[(X,)]), "more_inputs[0]"),
    (ExportCase(NET, (X,), more_inputs=[((X,), {}), ((X,), X)]), "more_inputs[1]"),
    (ExportCase(NET, (X,), more_inputs=X), "more_inputs"),
    (ExportCase(NET, (X,), more_inputs=[(X, {})]), "more_inputs[0]"),
    (ExportCase(NET, (X,), kwargs={3: X}), "names"),
    (ExportCase(NET, (X,), checkpoint="weights.pt"), "`checkpoint` is a str, not a dict"),
    (ExportCase(NET, (X,), training_state=None), "`training_state` is None, not a dict"),
    (PREPARED, "no inputs. Fix: Return `prepared.module, (x,)`."),
    ((PREPARED, (X,)), "Return `prepare_for_export(model).module`"),
    (ExportCase(PREPARED, (X,)), "Return `prepare_for_export(model).module`"),
    (ExportCase(NET, (X,), target_device="gpu"), "target_device='gpu'"),
    (ExportCase(NET, (X,), target_device=["cuda"]), "target_device=['cuda']"),
]


@pytest.mark.parametrize(("returned", "message"), REFUSED, ids=[message for _, message in REFUSED])
def test_what_is_not_a_case(returned: object, message: str) -> None:
    """The message says what was returned, without the contents of tensors."""
    with pytest.raises(CaseError) as caught:
        as_case(returned)
    assert message in str(caught.value)
    assert "tensor(" not in str(caught.value)


def test_what_is_wrong_and_how_to_fix_it_are_two_fields() -> None:
    with pytest.raises(CaseError) as caught:
        as_case((NET, X))
    assert (caught.value.problem, caught.value.fix) == (
        "The example inputs are one tensor, not a tuple of inputs",
        "Write `(x,)` instead of `x`.",
    )
    assert str(caught.value) == f"{caught.value.problem}. Fix: {caught.value.fix}"


def test_defaults() -> None:
    """A bare marker."""
    assert options() == CaseOptions()
    assert options(**dict.fromkeys(ACCEPTED)) == CaseOptions()


@pytest.mark.parametrize(
    ("strict", "modes"),
    [
        (None, ("non-strict",)),
        (False, ("non-strict",)),
        (True, ("strict",)),
        ("non-strict", ("non-strict",)),
        ("strict", ("strict",)),
        ("both", ("non-strict", "strict")),
    ],
)
def test_strict(strict: object, modes: tuple[str, ...]) -> None:
    """By name or as a bool."""
    assert options(strict=strict).modes == modes


def test_everything_at_once() -> None:
    """Names as a string or a list, doubles once, tolerances as numbers."""
    given = options(
        dynamic_shapes=({0: 1},), scenarios="plain", tolerance={"rtol": 1}, stages=["export", "export"],
        ignore=["ER302"], reason="why", xfail_stage="export",
    )  # fmt: skip
    assert given == CaseOptions(
        dynamic_shapes=({0: 1},), scenarios=("plain",), rtol=1.0, atol=0.0, stages=("export",),
        ignore=("ER302",), reason="why", xfail_stage="export",
    )  # fmt: skip


def test_what_is_lowered_and_measured_is_among_the_stages() -> None:
    """Where stages are chosen, those that lower or a budget ask for come with them."""
    given = options(stages=["export"], lower="onnx", budget={"nodes": 5, "mib": 2.5})
    assert given.stages == ("export", "onnx", "reload")
    assert given.lower == ("onnx",)
    assert given.budget == {"mib": 2.5, "nodes": 5}
    assert options(stages=["parity"], budget={"nodes": 5}).stages == ("parity", "export")
    assert options(lower=["onnx"], budget={"mib": 1}).stages == ()
    assert options(xfail_stage="budget", budget={"mib": 1}, stages=["parity"], reason="x").xfail_stage == "budget"


WRONG = [
    ({"dynamic_bach": True}, "no argument `dynamic_bach`. Fix: Write `dynamic_batch`; accepted are"),
    ({"tolerances": 1}, "no argument `tolerances`. Fix: Write `tolerance`;"),
    ({"dynamic_batch": True, "dynamic_shapes": ({0: 1},)}, "contradict"),
    ({"dynamic_batch": "yes"}, "True and False"),
    ({"dynamic_batch": torch.ones(2)}, "True and False"),
    ({"strict": "sometimes"}, "'both'"),
    ({"strict": 1}, "'both'"),
    ({"strict": "True"}, "'both'"),
    ({"tolerance": 1e-3}, "a dict of rtol and atol"),
    ({"tolerance": {}}, "a dict of rtol and atol"),
    ({"tolerance": {"tol": 1}}, "a dict of rtol and atol"),
    ({"tolerance": {"rtol": -1}}, "finite number"),
    ({"tolerance": {"atol": float("nan")}}, "finite number"),
    ({"tolerance": {"atol": True}}, "finite number"),
    ({"stages": ["exprot"]}, "`stages` has the unknown name 'exprot'. Fix: Write `export`;"),
    ({"stages": []}, "is empty"),
    ({"stages": 3}, "a list of names"),
    ({"scenarios": ["dpd"]}, "Use one of as_is, plain"),
    ({"ignore": ["ER999"], "reason": "x"}, "unknown name 'ER999'"),
    ({"ignore": ["ER302"]}, "need a reason"),
    ({"ignore": ["ER302"], "reason": "  "}, "need a reason"),
    ({"reason": "x"}, "without ignore or xfail_stage"),
    ({"reason": 3, "ignore": ["ER302"]}, "accepted is a str"),
    ({"xfail_stage": "export"}, "need a reason"),
    ({"xfail_stage": ["export", "parity"], "reason": "x"}, "one stage only"),
    ({"xfail_stage": "parity", "stages": ["export"], "reason": "x"}, "would never run"),
    ({"lower": ["onxx"]}, "`lower` has the unknown name 'onxx'. Fix: Write `onnx`;"),
    ({"lower": []}, "is empty"),
    ({"lower": True}, "a list of names"),
    ({"stages": ["onnx"]}, 'would never run. Fix: Add `lower=["onnx"]`.'),
    ({"stages": ["onnx"], "lower": ["decompose"]}, 'would never run. Fix: Add `lower=["onnx"]`.'),
    ({"xfail_stage": "aotinductor", "reason": "x"}, 'would never run. Fix: Add `lower=["aotinductor"]`.'),
    ({"xfail_stage": "budget", "reason": "x"}, "would never run. Fix: Add a `budget`."),
    ({"budget": 3}, "a dict of seconds, mib, nodes, gpu_mib"),
    ({"budget": {}}, "a dict of seconds, mib, nodes, gpu_mib"),
    ({"budget": {"second": 3}}, "Fix: Write `seconds`;"),
    ({"budget": {3: 3}}, "`budget` has the unknown key 3. Fix: Use one of seconds, mib, nodes, gpu_mib."),
    ({"budget": {"mib": -1}}, "finite number > 0"),
    ({"budget": {"nodes": True}}, "finite number > 0"),
    ({"budget": {"seconds": float("nan")}}, "finite number > 0"),
    ({"budget": {"seconds": "3"}}, "finite number > 0"),
]


@pytest.mark.parametrize(("arguments", "message"), WRONG, ids=[f"{n}-{text}" for n, (_, text) in enumerate(WRONG)])
def test_wrong_arguments(arguments: dict[str, Any], message: str) -> None:
    """Unknown, malformed and contradictory ones: the argument is named, and what is accepted."""
    with pytest.raises(CaseError) as caught:
        options(**arguments)
    assert message in str(caught.value)


def test_what_a_real_training_left() -> None:
    """Then further steps would invalidate it."""
    assert not ExportCase(NET, (X,)).carries_training
    for known in ({"golden": X}, {"checkpoint": {}}, {"training_state": {"step": 3}}):
        assert ExportCase(NET, (X,), **known).carries_training


def test_the_marker() -> None:
    """With and without arguments, on functions and methods: the function itself stays."""

    @export_ready
    def bare() -> None: ...

    @export_ready(dynamic_batch=True)
    def full() -> None: ...

    assert [mark.name for mark in bare.pytestmark] == ["export_ready"]  # type: ignore[attr-defined]
    assert full.pytestmark[0].kwargs == {"dynamic_batch": True}  # type: ignore[attr-defined]
