"""Which modules compute something else in training mode than in eval mode."""

from __future__ import annotations

import dis
from collections.abc import Iterator
from functools import cache
from types import CodeType, FunctionType

from torch import nn

from pytest_exportready.torch_internals import forward_hooks, is_dropout, is_norm
from pytest_exportready.wrappers import wrapped_module

# Setting the mode, building and printing a module do not make its output depend on the mode.
_NOT_COMPUTING = {"train", "eval", "extra_repr"}

# Their mode only picks a fast path: the dropouts inside are modules of their own.
_FAST_PATH = (nn.TransformerEncoder, nn.TransformerEncoderLayer, nn.TransformerDecoderLayer)


def mode_sensitive(module: nn.Module) -> bool:
    """True when this very module's output or state depends on its ``training`` flag.

    Torch's own classes are judged by their settings (a dropout of probability 0 does nothing), every other
    class by whether the code of its methods, or of a forward hook on it, reads an attribute called
    ``training``.
    """
    if wrapped_module(module) is not None:
        return False
    if any(_reads_training(code) for code in _instance_code(module)):
        return True
    return class_reads_training(type(module)) and not _settings_make_it_harmless(module)


@cache
def class_reads_training(kind: type) -> bool:
    """Whether a method of ``kind``, or of a base of it below ``nn.Module``, reads an attribute
    ``training``.
    """
    bases = kind.__mro__[: kind.__mro__.index(nn.Module)]
    return any(_reads_training(code) for base in bases for code in _methods(base))


def _settings_make_it_harmless(module: nn.Module) -> bool:
    if not type(module).forward.__module__.startswith("torch."):
        return False
    if is_dropout(module):
        return bool(module.p == 0)
    if is_norm(module):
        return module.running_mean is None and module.running_var is None
    if isinstance(module, nn.RNNBase):
        return bool(module.dropout == 0 or module.num_layers == 1)
    if isinstance(module, nn.MultiheadAttention):
        return bool(module.dropout == 0)
    if isinstance(module, nn.RReLU):
        return bool(module.lower == module.upper)
    return type(module) in _FAST_PATH


def _methods(kind: type) -> Iterator[CodeType]:
    for name, member in vars(kind).items():
        dunder = name.startswith("__") and name != "__call__"
        function = member.fget if isinstance(member, property) else getattr(member, "__func__", member)
        if isinstance(function, FunctionType) and not dunder and name not in _NOT_COMPUTING:
            yield function.__code__


def _instance_code(module: nn.Module) -> Iterator[CodeType]:
    """Code that runs for this instance only: a patched ``forward``, forward hooks."""
    for hook in [vars(module).get("forward"), *forward_hooks(module)]:
        function = getattr(hook, "__func__", hook)
        if not isinstance(function, FunctionType):
            function = (
                getattr(type(hook).__call__, "__func__", type(hook).__call__) if callable(hook) else None
            )
        if isinstance(function, FunctionType):
            yield function.__code__


@cache
def _reads_training(code: CodeType) -> bool:
    names_it = "training" in code.co_names or "training" in code.co_consts
    if names_it and any(
        i.argval == "training" and ("LOAD_ATTR" in i.opname or i.opname == "LOAD_CONST")
        for i in dis.get_instructions(code)
    ):
        return True
    return any(_reads_training(inner) for inner in code.co_consts if isinstance(inner, CodeType))
