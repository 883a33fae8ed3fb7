"""Every operator returns tensors of the dtype, shape and device that the exported program records.

Why it matters:
    torch.export does not run operators: a fake kernel (`register_fake`) declares the dtype and shape of the
    result, and everything after is built on that. With a wrong fake kernel the program fails on its own
    example inputs, or has wrong casts and a wrong memory plan once it is compiled. Strict export records
    autocast regions without their effect. Programs with custom operators or autocast regions are therefore
    run once, operator by operator.

Example:
    @torch.library.custom_op("example_er140::halve", mutates_args=())
    def halve(x: torch.Tensor) -> torch.Tensor:
        return (x / 2).half()

    @halve.register_fake
    def _(x):
        return torch.empty_like(x)

    class Net(nn.Module):
        def forward(self, x):
            return halve(x).float()

    export_ready_check(Net(), (torch.ones(3),))

Instead:
    @torch.library.custom_op("example_er140::halve_half", mutates_args=())
    def halve(x: torch.Tensor) -> torch.Tensor:
        return (x / 2).half()

    @halve.register_fake
    def _(x):
        return torch.empty_like(x, dtype=torch.float16)

    class Net(nn.Module):
        def forward(self, x):
            return halve(x).float()

    export_ready_check(Net(), (torch.ones(3),))

Severity:
    error: a custom operator.
    warning: an operator of torch.

Not reported:
    Dynamic dimensions.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import torch
from torch import nn
from torch.export import ExportedProgram

from pytest_exportready.analysis.execution.program_runner import RunningProgram
from pytest_exportready.analysis.program.nodes import calls, is_users_operator, operator_name, place, source
from pytest_exportready.case.finding import Finding, Rule, Severity
from pytest_exportready.case.wording import counted
from pytest_exportready.checks._check import Check, Subject, nothing

RULE = Rule("ER140", "fake_kernels_match")


def inspect_program(program: ExportedProgram, subject: Subject) -> Iterator[Finding]:
    operators = {operator_name(node): node for node in calls(program)}
    alone = not any(name.startswith("_c10d_functional::") for name in operators)  # no rank waits for another
    if not alone or not any(_is_suspect(node) for node in operators.values()):
        return
    found: list[tuple[torch.fx.Node, str]] = []

    def see(node: torch.fx.Node, result: Any) -> None:
        if not found and node.op == "call_function" and (difference := _difference(node.meta.get("val"), result)):
            found.append((node, difference))

    with suppress(Exception):  # stage parity reports that it does not run; here counts what came before
        RunningProgram(program).watched(subject.call, see)
    for node, difference in found:
        file, line = source(node)
        severity: Severity = "error" if is_users_operator(node) else "warning"
        message = f"`{operator_name(node)}` returned {difference}."
        yield RULE.report(severity, place(node), message, _fix(node), file=file, line=line)


def _is_suspect(node: torch.fx.Node) -> bool:
    """Return whether it is a custom operator, or an autocast region, which strict export records without its effect."""
    return is_users_operator(node) or operator_name(node) == "wrap_with_autocast"


def _difference(recorded: Any, result: Any) -> str:
    """Return the first difference as ``<actual>, but <recorded>``; empty if there is none."""
    if isinstance(recorded, (list, tuple)) and isinstance(result, (list, tuple)):
        if len(recorded) != len(result):
            return f"{counted(len(result), 'result')}, but the program records {len(recorded)}"
        pairs = zip(recorded, result, strict=True)
        return next((difference for pair in pairs if (difference := _difference(*pair))), "")
    if not (isinstance(recorded, torch.Tensor) and isinstance(result, torch.Tensor)):
        return ""
    if recorded.dtype != result.dtype:
        return f"{result.dtype}, but the program records {recorded.dtype}"
    if recorded.device.type != result.device.type:
        return f"a tensor on {result.device}, but the program records one on {recorded.device}"
    known = [size if type(size) is int else None for size in recorded.shape]
    given = list(result.shape)
    if len(known) != len(given) or any(k not in (None, g) for k, g in zip(known, given, strict=True)):
        expected = ", ".join("?" if size is None else str(size) for size in known)
        return f"shape {given}, but the program records [{expected}]"
    return ""


def _fix(node: torch.fx.Node) -> str:
    name = operator_name(node)
    if is_users_operator(node):
        return (
            f'Let the kernel of `torch.library.register_fake("{name}")` return this shape, dtype and device, and '
            f"test it with `torch.library.opcheck(torch.ops.{node.target}, args)`."
        )
    return "Export with `strict=False`, or convert the result to its dtype in the autocast region."


def _doubled(x: torch.Tensor) -> torch.Tensor:
    return (x * 2).half()


def _operator(name: str, declared: torch.dtype) -> Any:
    operator: Any = torch.library.custom_op(f"exportready_examples::{name}", _doubled, mutates_args=())
    operator.register_fake(lambda x: torch.empty_like(x, dtype=declared))
    return operator


class _Doubles(nn.Module):
    def __init__(self, operator: Any) -> None:
        super().__init__()
        self.operator = operator

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.operator(x).float()  # type: ignore[no-any-return]


CHECK = Check(
    rule=RULE,
    inspect=nothing,
    inspect_program=inspect_program,
    good=(
        lambda: Subject(_Doubles(_operator("right", torch.float16)).eval(), (torch.ones(3),)),
        lambda: Subject(nn.LSTM(2, 3).eval(), (torch.ones(1, 2, 2),)),
    ),
    bad=(lambda: Subject(_Doubles(_operator("wrong", torch.float32)).eval(), (torch.ones(3),)),),
)
