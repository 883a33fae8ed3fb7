"""Find modules that compute something else in training mode than in eval mode."""

from __future__ import annotations

from collections.abc import Iterator
from types import CodeType, FunctionType

from torch import nn

from pytest_exportready.analysis.module.wrappers import wrapped_module
from pytest_exportready.analysis.source.bytecode import attributes_read, methods
from pytest_exportready.analysis.torch_internals.hooks import forward_hooks
from pytest_exportready.analysis.torch_internals.modules import is_dropout, is_norm

# Setting the mode, building and printing a module do not make its output depend on the mode.
_NOT_COMPUTING = {"train", "eval", "extra_repr"}

# Their mode only selects a fast path: the dropouts inside are modules of their own.
_FAST_PATH = (nn.TransformerEncoder, nn.TransformerEncoderLayer, nn.TransformerDecoderLayer)


def mode_sensitive(module: nn.Module) -> bool:
    """Return whether the output or state of this module itself depends on its ``training`` flag.

    Classes of torch are judged by their settings (a dropout of probability 0 does nothing), all others by whether their
    methods, or a forward hook, read an attribute called ``training``.
    """
    if wrapped_module(module) is not None:
        return False
    if any("training" in attributes_read(code) for code in _instance_code(module)):
        return True
    return _class_reads_training(type(module)) and not _settings_make_it_harmless(module)


def _class_reads_training(kind: type) -> bool:
    if kind not in _READS_TRAINING:
        computing = (
            code
            for name, code in methods(kind).items()
            if name not in _NOT_COMPUTING and (name == "__call__" or not name.startswith("__"))
        )
        _READS_TRAINING[kind] = any("training" in attributes_read(code) for code in computing)
    return _READS_TRAINING[kind]


_READS_TRAINING: dict[type, bool] = {}


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


def _instance_code(module: nn.Module) -> Iterator[CodeType]:
    """Yield code that runs for this instance only: a patched ``forward``, forward hooks."""
    for hook in [vars(module).get("forward"), *forward_hooks(module)]:
        function = getattr(hook, "__func__", hook)
        if callable(hook) and not isinstance(function, FunctionType):
            function = type(hook).__call__
        if isinstance(function, FunctionType):
            yield function.__code__
