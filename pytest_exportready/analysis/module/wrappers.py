"""Find and remove the wrappers that training puts around a module."""

from __future__ import annotations

from torch import nn
from torch.nn.parallel import DataParallel, DistributedDataParallel

from pytest_exportready.analysis.torch_internals.modules import checkpointed_source, compiled_source


def wrapped_module(module: nn.Module) -> nn.Module | None:
    """Return the module inside a training wrapper; None for any other module.

    Training wrappers are DistributedDataParallel, DataParallel, the module that ``torch.compile`` returns and that of
    ``checkpoint_wrapper``. AveragedModel is not: its averaged weights are what ships.
    """
    if isinstance(module, (DistributedDataParallel, DataParallel)):
        inner: nn.Module = module.module
        return inner
    return compiled_source(module) or checkpointed_source(module)


def unwrap(model: nn.Module) -> tuple[nn.Module, list[str]]:
    """Return the module inside all outer training wrappers, and their class names, outermost first."""
    wrappers = []
    while (inner := wrapped_module(model)) is not None:
        wrappers.append(type(model).__name__)
        model = inner
    return model, wrappers


def inner_wrappers(model: nn.Module) -> list[tuple[str, nn.Module]]:
    """Return ``(qualified name, wrapper)`` of training wrappers inside the model, all places, parents first."""
    named = model.named_modules(remove_duplicate=False)
    return [(name, module) for name, module in named if name and wrapped_module(module) is not None]


def inner_attribute(wrapper: nn.Module) -> str:
    """Return the attribute of ``wrapper`` that is the wrapped module."""
    if compiled_source(wrapper) is not None:
        return "_orig_mod"
    return "_checkpoint_wrapped_module" if checkpointed_source(wrapper) is not None else "module"
