"""Every operator returns what the program says it returns.

``torch.export`` never runs an operator: a fake kernel (``register_fake``) tells it dtype and shape of the result, and
everything after is built on that. A fake kernel that tells something else (float32 where the operator returns
float16, the shape of its input where it pads) gives a program that fails at its own example, or one whose memory plan
and casts are wrong once it is compiled. A program with operators that are not torch's, or with autocast regions (strict
export records those without their effect), is run once on the example inputs, operator by operator, and the first
result whose dtype, shape or device differs from the record is told: an error for an operator of the user's, a warning
for one of torch's, about which parity decides. Dimensions that are symbols are not compared.

Bad:  ``return torch.empty_like(x)`` in ``register_fake`` of an operator that returns ``(x * 2).half()``
Good: ``return torch.empty_like(x, dtype=torch.float16)``
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
from pytest_exportready.case.finding import Finding, Rule
from pytest_exportready.case.wording import counted
from pytest_exportready.checks._check import Check, Subject, nothing

RULE = Rule("ER140", "fake_kernels_match")


def inspect_program(program: ExportedProgram, subject: Subject) -> Iterator[Finding]:
    operators = {operator_name(node): node for node in calls(program)}
    alone = not any(name.startswith("_c10d_functional::") for name in operators)  # no rank waits for another
    if not alone or not any(_can_lie(node) for node in operators.values()):
        return
    lies: list[tuple[torch.fx.Node, str]] = []

    def see(node: torch.fx.Node, result: Any) -> None:
        if not lies and node.op == "call_function" and (lie := _difference(node.meta.get("val"), result)):
            lies.append((node, lie))

    with suppress(Exception):  # stage parity tells that it does not run; here counts what came before
        RunningProgram(program).watched((subject.args, subject.kwargs), see)
    for node, lie in lies:
        file, line = source(node)
        tell = RULE.error if is_users_operator(node) else RULE.warning
        yield tell(place(node), f"{operator_name(node)} returns {lie}.", _fix(node), file=file, line=line)


def _can_lie(node: torch.fx.Node) -> bool:
    """An operator of somebody else's, or an autocast region, which strict export records without its effect."""
    return is_users_operator(node) or operator_name(node) == "wrap_with_autocast"


def _difference(recorded: Any, result: Any) -> str:
    """What differs first; empty when nothing does."""
    if isinstance(recorded, (list, tuple)) and isinstance(result, (list, tuple)):
        if len(recorded) != len(result):
            return f"{counted(len(result), 'result')}, {len(recorded)} in the program"
        return next((lie for pair in zip(recorded, result, strict=True) if (lie := _difference(*pair))), "")
    if not (isinstance(recorded, torch.Tensor) and isinstance(result, torch.Tensor)):
        return ""
    if recorded.dtype != result.dtype:
        return f"{result.dtype}, {recorded.dtype} in the program"
    if recorded.device.type != result.device.type:
        return f"a tensor on {result.device}, on {recorded.device} in the program"
    known = [size if type(size) is int else None for size in recorded.shape]
    given = list(result.shape)
    if len(known) != len(given) or any(k not in (None, g) for k, g in zip(known, given, strict=True)):
        return f"shape {given}, {['?' if size is None else size for size in known]} in the program"
    return ""


def _fix(node: torch.fx.Node) -> str:
    name = operator_name(node)
    if is_users_operator(node):
        return (
            f'torch.library.register_fake("{name}") with a kernel that returns this shape, dtype and device; '
            f"torch.library.opcheck(torch.ops.{node.target}, args) shows it"
        )
    return "export with strict=False (strict export records autocast regions so), or give the result its dtype there"


def _doubled(x: torch.Tensor) -> torch.Tensor:
    return (x * 2).half()


def _operator(name: str, told: torch.dtype) -> Any:
    operator: Any = torch.library.custom_op(f"exportready_examples::{name}", _doubled, mutates_args=())
    operator.register_fake(lambda x: torch.empty_like(x, dtype=told))
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
        lambda: Subject(_Doubles(_operator("told", torch.float16)).eval(), (torch.ones(3),)),
        lambda: Subject(nn.LSTM(2, 3).eval(), (torch.ones(1, 2, 2),)),
    ),
    bad=(lambda: Subject(_Doubles(_operator("untold", torch.float32)).eval(), (torch.ones(3),)),),
)
