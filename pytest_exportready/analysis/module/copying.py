"""Copy a module so that the copy computes the same, or say why that is not possible."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from functools import partial
from types import BuiltinMethodType, CodeType, FunctionType, MethodType
from typing import Any

import torch
from torch import nn

from pytest_exportready.analysis.module.plain_tensor_attributes import recomputed_tensors
from pytest_exportready.analysis.module.tensor_values import readable
from pytest_exportready.analysis.torch_internals.hooks import backward_hooks, forward_hooks
from pytest_exportready.analysis.torch_internals.modules import plain_attributes
from pytest_exportready.case.explained import ExplainedError
from pytest_exportready.case.sanitize import exception_text
from pytest_exportready.case.wording import counted, few


class CannotCopy(ExplainedError, RuntimeError):
    """A module has no faithful copy; the problem names the attribute that prevents it."""

    def __init__(self, where: str, why: str, fix: str = "Call `prepare_for_export(model, inplace=True)`.") -> None:
        super().__init__(f"{where or 'The model'} cannot be copied: {why}", fix)


def faithful_copy(model: nn.Module) -> tuple[nn.Module, list[str]]:
    """Return a deep copy of ``model``, and a sentence for each error of ``deepcopy`` that was corrected.

    Raises:
        CannotCopy: An attribute cannot be copied, or the copy would still call into ``model``: a patched ``forward`` or
            a hook whose closure has the original modules.
    """
    refuse_ties_to_original(model)
    try:
        memo = {id(tensor): tensor.detach().clone() for tensor in recomputed_tensors(model)}
        copied = copy.deepcopy(model, memo)
    except Exception as error:
        where, cause = _uncopyable(model) or ("", error)
        raise CannotCopy(where, exception_text(cause)) from error
    originals, copies = _by_name(model), _by_name(copied)
    if originals.keys() != copies.keys() or any(type(m) is not type(copies[n]) for n, m in _plain(originals)):
        raise CannotCopy("", "its copy has other submodules")
    if any(copies[name] is module for name, module in originals.items()):
        raise CannotCopy("", "its __deepcopy__ returns the same modules")
    return copied, [*_correct_modes(originals, copies), *_correct_values(model, copied)]


def copy_on_host(model: nn.Module) -> nn.Module:
    """Return a copy of ``model`` with its parameters and buffers on the CPU; no memory of another device is used.

    Raises:
        CannotCopy: The copy would still call into ``model``.
        Exception: An attribute cannot be copied.
    """
    refuse_ties_to_original(model)
    memo: dict[int, Any] = {id(buffer): buffer.detach().cpu() for buffer in model.buffers()}
    for parameter in model.parameters():
        memo[id(parameter)] = nn.Parameter(parameter.detach().cpu(), parameter.requires_grad)
    return copy.deepcopy(model, memo)


def _by_name(model: nn.Module) -> dict[str, nn.Module]:
    return dict(model.named_modules(remove_duplicate=False))


def _plain(modules: dict[str, nn.Module]) -> Iterator[tuple[str, nn.Module]]:
    """Yield the modules that keep their class: traced and scripted ones get another class with each copy."""
    generated = (torch.fx.GraphModule, torch.jit.ScriptModule)
    return ((name, m) for name, m in modules.items() if not isinstance(m, generated))


def _correct_modes(originals: dict[str, nn.Module], copies: dict[str, nn.Module]) -> list[str]:
    wrong = [name for name, module in originals.items() if copies[name].training != module.training]
    for name in wrong:
        # Through train(), which classes override: torchvision's feature extractor swaps its graph there.
        copies[name].train(originals[name].training)
    for name, module in originals.items():
        copies[name].training = module.training
    return [f"Restored the mode of {counted(len(wrong), 'module')} after deepcopy: {few(wrong)}."] if wrong else []


def _correct_values(model: nn.Module, other: nn.Module) -> list[str]:
    state, copied = _state(model), _state(other)
    if state.keys() != copied.keys():
        raise CannotCopy(few(state.keys() ^ copied.keys()), "its copy has other parameters or buffers")
    wrong = [name for name, tensor in state.items() if not _same(tensor, copied[name])]
    with torch.no_grad():
        for name in wrong:
            if state[name].shape != copied[name].shape or state[name].dtype != copied[name].dtype:
                raise CannotCopy(name, "its copy has another shape or dtype")
            copied[name].copy_(state[name])
    return [f"Copied the values of {few(wrong)} again after deepcopy."] if wrong else []


def _state(model: nn.Module) -> dict[str, torch.Tensor]:
    return {**dict(model.named_parameters()), **dict(model.named_buffers())}


def _same(tensor: torch.Tensor, other: torch.Tensor) -> bool:
    if not (readable(tensor) and readable(other)) or tensor.layout is not torch.strided:
        return True
    a, b = tensor.detach(), other.detach()
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    return bool(torch.equal(a, b)) or bool(((a == b) | ((a != a) & (b != b))).all())


def _uncopyable(model: nn.Module) -> tuple[str, Exception] | None:
    """Return the first attribute that ``deepcopy`` cannot copy on its own, and its exception."""
    for prefix, module in model.named_modules():
        direct = {**dict(module.named_parameters(recurse=False)), **dict(module.named_buffers(recurse=False))}
        for name, value in {**direct, **plain_attributes(module)}.items():
            try:
                copy.deepcopy(value)
            except Exception as error:
                return f"{prefix}.{name}".removeprefix("."), error
    return None


def refuse_ties_to_original(model: nn.Module) -> None:
    """Raise CannotCopy if a copy of ``model`` would still call its modules."""
    tree = {id(module) for module in model.modules()}
    for prefix, module in model.named_modules():
        for name, value in plain_attributes(module).items():
            if _tied(value, tree):
                where = f"{prefix}.{name}".removeprefix(".")
                raise CannotCopy(where, "it is a function that calls the original module, and so would the copy")
        for hook in [*forward_hooks(module), *backward_hooks(module)]:
            if _tied(hook, tree):
                raise CannotCopy(prefix, "one of its hooks is a function that refers to the original module")


def _tied(value: object, tree: set[int]) -> bool:
    """Return whether a deep copy of ``value`` calls a module of ``tree``: it copies methods, not functions."""
    seen: set[int] = set()
    todo: list[tuple[object, bool]] = [(value, False)]
    while todo:
        item, shared = todo.pop()
        if id(item) in tree:
            if shared:
                return True
            continue
        if id(item) in seen:
            continue
        seen.add(id(item))
        if isinstance(item, (MethodType, BuiltinMethodType)):
            todo += [(item.__self__, shared), (getattr(item, "__func__", None), True)]
        elif isinstance(item, FunctionType) and not str(item.__module__).startswith("torch."):
            todo += [(inner, True) for inner in _captured(item)]
        elif isinstance(item, partial):
            todo += [(inner, shared) for inner in (item.func, *item.args, *item.keywords.values())]
        elif isinstance(item, (list, tuple)):
            todo += [(inner, shared) for inner in item]
        elif isinstance(item, dict):
            todo += [(inner, shared) for inner in item.values()]
        elif shared and isinstance(item, nn.Module):
            continue
        elif callable(item) and not isinstance(item, type) and hasattr(item, "__dict__"):
            todo += [(inner, shared) for inner in vars(item).values()]
    return False


def _captured(function: FunctionType) -> Iterator[Any]:
    """Yield what a function reaches in addition to its arguments: closure, defaults, attributes, and globals."""
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:  # a cell not filled yet
            continue
    yield from function.__defaults__ or ()
    yield from (function.__kwdefaults__ or {}).values()
    yield from vars(function).values()
    yield from (function.__globals__[name] for name in _names(function.__code__) if name in function.__globals__)


def _names(code: CodeType) -> set[str]:
    inner = [_names(constant) for constant in code.co_consts if isinstance(constant, CodeType)]
    return set(code.co_names).union(*inner)
