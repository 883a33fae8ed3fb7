"""Find views of parameters that a module stores in plain attributes and that its ``forward`` reads."""

from __future__ import annotations

import dis
from collections.abc import Iterator
from dataclasses import dataclass
from types import CodeType

import torch
from torch import nn

from pytest_exportready.analysis.module.nested_values import inside, user_packages
from pytest_exportready.analysis.module.tensor_values import storage_address
from pytest_exportready.analysis.source.bytecode import (
    attributes_read,
    attributes_written,
    methods,
    reached_from_forward,
)
from pytest_exportready.analysis.torch_internals.hooks import forward_hooks
from pytest_exportready.analysis.torch_internals.modules import plain_attributes

_VIEWS = frozenset({"data", "detach", "t", "T", "mT", "view", "reshape", "transpose", "permute", "flatten", "view_as"})
_COPIES = frozenset({"clone", "copy", "deepcopy", "shape", "size", "numel"})


@dataclass(frozen=True)
class ParameterView:
    """A view of a parameter in a plain attribute."""

    place: str  # qualified name of the view
    weight: str  # qualified name of the parameter
    shares: bool  # whether it still has the memory of the parameter


def parameter_views(model: nn.Module) -> Iterator[ParameterView]:
    """Yield every such view, except parameters in a second place and what forward or a pre-forward hook recomputes."""
    weights = {storage_address(parameter): name for name, parameter in model.named_parameters()}
    weights.pop(0, None)
    for prefix, module, attribute, place, found in _plain_tensors(model):
        if not found.is_leaf or forward_hooks(module) or not _read_only(type(module), attribute):
            continue
        shared = weights.get(storage_address(found), "")
        weight = shared or _taken_from(module, prefix, attribute, found)
        if weight:
            yield ParameterView(f"{prefix}.{attribute}{place}".removeprefix("."), weight, bool(shared))


def _plain_tensors(model: nn.Module) -> Iterator[tuple[str, nn.Module, str, str, torch.Tensor]]:
    """Yield ``(module's name, module, attribute, place inside it, tensor)``, without parameters."""
    packages = user_packages(model)
    for prefix, module in model.named_modules():
        for attribute, value in plain_attributes(module).items():
            for place, found in inside(value, packages):
                if isinstance(found, torch.Tensor) and not isinstance(found, nn.Parameter):
                    yield prefix, module, attribute, place, found


def _read_only(kind: type, attribute: str) -> bool:
    reached = list(reached_from_forward(kind))
    read = any(attribute in attributes_read(code) for code in reached)
    return read and not any(attribute in attributes_written(code) for code in reached)


def _taken_from(module: nn.Module, prefix: str, attribute: str, view: torch.Tensor) -> str:
    """Return the parameter from which the constructor made ``attribute`` by views only; empty if there is none."""
    constructor = methods(type(module)).get("__init__")
    names = _assigned_from(constructor, attribute) if constructor is not None else frozenset()
    if not names & _VIEWS or names & _COPIES:
        return ""
    for name, parameter in module.named_parameters(recurse=False):
        if name in names and parameter.numel() == view.numel():
            return f"{prefix}.{name}".removeprefix(".")
    return ""


def _assigned_from(code: CodeType, attribute: str) -> frozenset[str]:
    """Return the attributes and methods in the expression that ``code`` assigns to ``attribute``."""
    names: set[str] = set()
    for instruction in dis.get_instructions(code):
        if instruction.opname == "STORE_ATTR" and instruction.argval == attribute:
            return frozenset(names)
        if instruction.opname in ("LOAD_ATTR", "LOAD_METHOD"):
            names.add(instruction.argval)
        elif instruction.opname.startswith("STORE_") or instruction.opname == "POP_TOP":
            names.clear()
    return frozenset()
