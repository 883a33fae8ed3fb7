"""The `torch.autograd.Function` classes that `forward` uses are written so that their backward can be traced.

Why it matters:
    To train an exported program, such a function must become an operator whose backward is traced.
    `.data`, `.detach()` of saved tensors, NumPy, tensors in attributes of `ctx`, and inputs that are modified
    without `ctx.mark_dirty` make that backward wrong or impossible.

Example:
    class Square(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.x = x
            return x * x

        @staticmethod
        def backward(ctx, grad):
            return 2 * ctx.x * grad

    class Net(nn.Module):
        def forward(self, x):
            return Square.apply(x)

    assert_autograd_functions_keep_rules(Net())

Instead:
    class Square(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            return 2 * x * grad

    class Net(nn.Module):
        def forward(self, x):
            return Square.apply(x)

    assert_autograd_functions_keep_rules(Net())

Severity:
    warning: the program will be trained (`trainable=True`).
    note: otherwise; a program for inference has no backward.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import torch
from torch import Tensor, nn

from pytest_exportready.analysis.source.autograd_functions import autograd_functions
from pytest_exportready.analysis.source.autograd_rules import violations
from pytest_exportready.case.finding import Finding, Rule
from pytest_exportready.case.wording import few
from pytest_exportready.checks._check import Check, Subject

RULE = Rule("ER160", "autograd_functions_keep_rules")


def inspect(subject: Subject) -> Iterator[Finding]:
    for function, module in autograd_functions(subject.model).items():
        found = violations(function)
        if found:
            file, line, _ = found[0]
            yield RULE.report(
                "warning" if subject.trainable else "note",
                f"{function.__name__} in {module}" if module else function.__name__,
                f"The backward cannot be traced correctly: {few(f'{words} (line {at})' for _, at, words in found)}.",
                "Use `ctx.save_for_backward(x)` and `(x,) = ctx.saved_tensors`, torch operators only, and "
                "`ctx.mark_dirty(x)` for an input that is modified.",
                file=file,
                line=line,
            )


class _Kept(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.x = x
        return x * x

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        result: Tensor = 2 * ctx.x.data * grad
        return result


class _Saved(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, power: float) -> Tensor:
        ctx.power = power
        ctx.save_for_backward(x)
        return x**power

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        (x,) = ctx.saved_tensors
        return ctx.power * x ** (ctx.power - 1) * grad, None


class _Keeping(nn.Module):
    def forward(self, x: Tensor) -> Any:
        return cast(Any, _Kept).apply(x)


class _Saving(nn.Module):
    def forward(self, x: Tensor) -> Any:
        return cast(Any, _Saved).apply(x, 2.0)


CHECK = Check(
    rule=RULE,
    inspect=inspect,
    good=(
        lambda: Subject(_Saving(), trainable=True),
        lambda: Subject(nn.Linear(2, 2), trainable=True),
        lambda: Subject(_Keeping()),
    ),
    bad=(lambda: Subject(_Keeping(), trainable=True), lambda: Subject(nn.Sequential(_Keeping()), trainable=True)),
)
