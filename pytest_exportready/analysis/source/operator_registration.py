"""Source code that registers an operator, written from its schema or from a call of a Python function."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

_LIBRARY = "mylib"


def custom_op(name: str, arguments: Mapping[str, Any]) -> str:
    """Return ``@torch.library.custom_op`` for a function that was called with ``arguments``, and a fake kernel."""
    typed = ", ".join(f"{argument}: {_kind(value)}" for argument, value in arguments.items())
    names = ", ".join(arguments)
    like = next((argument for argument, value in arguments.items() if isinstance(value, torch.Tensor)), "")
    return (
        f'@torch.library.custom_op("{_LIBRARY}::{name}", mutates_args=())\n'
        f"def {name}({typed}) -> torch.Tensor: ...  # its code, unchanged\n"
        f"@{name}.register_fake\n"
        f"def _({names}): return {_empty(like)}  # same shape and dtype as the result"
    )


def fake_kernel(operator: Any) -> str:
    """Return ``@torch.library.register_fake`` with the arguments and results of the operator's schema."""
    schema = operator._schema
    like = next((a.name for a in schema.arguments if str(a.type) == "Tensor"), "")
    listed = next((a.name for a in schema.arguments if str(a.type) == "List[Tensor]"), "")
    results = [_result(str(returned.type), like, listed) for returned in schema.returns]
    several = f"({', '.join(results)})" if len(results) > 1 else (results or ["None"])[0]
    names = ", ".join(_parameters(schema))
    return (
        f'@torch.library.register_fake("{schema.name}")\n'
        f"def _({names}): return {several}  # same shapes and dtypes as the operator returns"
    )


def autograd(operator: Any) -> str:
    """Return ``torch.library.register_autograd`` with one gradient for each argument."""
    schema = operator._schema
    arguments = [argument.name for argument in schema.arguments]
    grads = [f"grad_{a.name}" if "Tensor" in str(a.type) else "None" for a in schema.arguments]
    given = ", ".join(f"grad{n or ''}" for n in range(max(len(schema.returns), 1)))
    return (
        f"def setup_context(ctx, inputs, output): ctx.save_for_backward(...)  # of {', '.join(arguments)}\n"
        f"def backward(ctx, {given}): return {', '.join(grads)}\n"
        f'torch.library.register_autograd("{schema.name}", backward, setup_context=setup_context)'
    )


def writing(operator: Any, arguments: list[str]) -> str:
    """Return the declaration of an operator that writes ``arguments``."""
    names = "".join(f'"{name}", ' for name in arguments).rstrip(" " if len(arguments) == 1 else ", ")
    return f'@torch.library.custom_op("{operator._schema.name}", mutates_args=({names}))'


def _parameters(schema: Any) -> list[str]:
    """Return the parameters of a kernel, with a star before those that are keyword-only."""
    names, starred = [], False
    for argument in schema.arguments:
        if argument.kwarg_only and not starred:
            names.append("*")
            starred = True
        names.append(argument.name)
    return names


def _result(kind: str, like: str, listed: str) -> str:
    if kind == "Tensor":
        return _empty(like or (f"{listed}[0]" if listed else ""))
    if kind == "List[Tensor]":
        return f"[torch.empty_like(x) for x in {listed}]" if listed else f"[{_empty(like)}]"
    return "..."


def _empty(like: str) -> str:
    return f"torch.empty_like({like})" if like else "torch.empty(...)"


def _kind(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return "torch.Tensor"
    if isinstance(value, (list, tuple)):
        return f"list[{_kind(value[0])}]" if value else "list[int]"
    for kind, symbolic in ((bool, torch.SymBool), (int, torch.SymInt), (float, torch.SymFloat)):
        if isinstance(value, (kind, symbolic)):
            return kind.__name__
    return "str" if isinstance(value, str) else "torch.Tensor"
