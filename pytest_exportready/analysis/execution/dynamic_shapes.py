"""Resolve a case's dynamic shapes: which dimensions are dynamic, and within which bounds."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.export import Dim

from pytest_exportready.analysis.execution.call import Call
from pytest_exportready.analysis.execution.pytree import children, flatten, tensors, unflatten
from pytest_exportready.analysis.execution.resizable_dims import resizable_dims
from pytest_exportready.analysis.torch_internals.modules import is_batchnorm
from pytest_exportready.case.export_case import CaseError
from pytest_exportready.case.options import CaseOptions

UNBOUNDED = 2**31
_LARGEST_OF_CUDNN = 65535  # rows of batch normalization in eval mode, to which torch.export limits a batch on a GPU
AUTO = "auto"  # find out which dimensions can be dynamic

_ONE = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


@dataclass(frozen=True)
class Dynamic:
    """One dimension declared dynamic."""

    leaf: int  # position among the flat inputs
    dim: int
    where: str  # such as ``x.shape[0]``
    smallest: int
    largest: int
    named: bool = True  # by a Dim, which ties it to others of that name; otherwise by a hint such as Dim.AUTO


def dynamic_shapes(module: nn.Module, call: Call, options: CaseOptions) -> Any:
    """Return the ``dynamic_shapes`` argument of ``torch.export.export`` for a case, in the form that the user gave.

    Args:
        call: the user's own tensors; a ShapesCollection knows them by identity.

    Raises:
        CaseError: ``dynamic_batch`` is set and no input has a batch dimension.
    """
    if options.dynamic_batch:
        return _batch_shapes(module, call)
    spec = options.dynamic_shapes
    if spec == AUTO:
        return _resizable_shapes(module, call)
    return spec.dynamic_shapes(module, *call) if hasattr(spec, "dynamic_shapes") else spec


def _resizable_shapes(module: nn.Module, call: Call) -> Any:
    dims: dict[int, dict[int, Any]] = {}
    for leaf, dim in (place for group in resizable_dims(module, call) for place in group):
        dims.setdefault(id(flatten(call)[0][leaf]), {})[dim] = Dim.AUTO
    return {name: _mirrored(lambda leaf: dims.get(id(leaf)), value) for name, value in arguments(module, call).items()}


def _batch_shapes(module: nn.Module, call: Call) -> Any:
    sized = [tensor for tensor in tensors(call) if tensor.dim()]
    if not sized:
        fix = "Remove `dynamic_batch=True`, or pass an input whose first dimension is the batch."
        raise CaseError("dynamic_batch=True, but no example input has a batch dimension", fix)
    size, batch = sized[0].shape[0], Dim("batch", min=1, max=_LARGEST_OF_CUDNN if _uses_cudnn_norm(module) else None)

    def shape(leaf: Any) -> Any:
        return {0: batch} if isinstance(leaf, torch.Tensor) and leaf.dim() and leaf.shape[0] == size else None

    return {name: _mirrored(shape, value) for name, value in arguments(module, call).items()}


def _uses_cudnn_norm(module: nn.Module) -> bool:
    norms = filter(is_batchnorm, module.modules())
    return any(tensor.is_cuda for norm in norms for tensor in norm.buffers(recurse=False))


def _mirrored(shape: Any, value: Any) -> Any:
    """Return ``shape(leaf)`` for each leaf, in the containers of ``value``; a list for a registered class."""
    parts, spec = children(value)
    if spec.is_leaf():
        return shape(value)
    mirrored = [_mirrored(shape, part) for part in parts]
    return unflatten(mirrored, spec) if isinstance(value, (dict, list, tuple)) else mirrored


def arguments(module: nn.Module, call: Call) -> dict[str, Any]:
    """Return the inputs by name, in the order of the parameters of ``forward``.

    Inputs caught by ``*args`` and ``**kwargs`` are listed one by one, under the names in the class's own ``forward``,
    so that a transparent wrapper around ``forward`` changes nothing.
    """
    args, kwargs = call
    given = {**dict(zip(_positional(module, len(args)), args, strict=True)), **kwargs}
    known = [name for name in inspect.signature(module.forward).parameters if name in given]
    return {name: given[name] for name in dict.fromkeys([*known, *given])}


def _positional(module: nn.Module, count: int) -> list[str]:
    inner = list(inspect.signature(type(module).forward).parameters.values())[1:]
    names: list[str] = []
    for place, parameter in enumerate(inspect.signature(module.forward).parameters.values()):
        if parameter.kind in _ONE:
            names.append(parameter.name)
        elif parameter.kind is inspect.Parameter.VAR_POSITIONAL:
            behind = [p.name for p in inner[place:] if p.kind in _ONE]
            names += behind or [f"{parameter.name}_{i}" for i in range(count)]
    if len(names) < count:
        raise CaseError(f"{count} positional inputs, but `forward` has {len(names)} positional parameters")
    return names[:count]


def by_name(module: nn.Module, call: Call, spec: Any) -> Any:
    """Return ``spec`` keyed by the names of ``arguments``; entries for ``args`` and ``kwargs`` are spread."""
    if spec is None or not _catches(module, call):
        return spec
    parameters = inspect.signature(module.forward).parameters
    bound = inspect.signature(module.forward).bind(*call[0], **call[1]).arguments
    names = list(arguments(module, call))
    if not isinstance(spec, Mapping):
        spec = dict(zip(bound if len(spec) == len(bound) else names, spec, strict=False))
    spread: dict[str, Any] = {}
    for key, entry in spec.items():
        kind = parameters[key].kind if key in bound and key not in names else None
        if kind is inspect.Parameter.VAR_POSITIONAL and entry is not None:
            caught = [name for name in names if name not in call[1] and name not in bound]
            spread.update(zip(caught, entry, strict=False))
        elif kind is inspect.Parameter.VAR_KEYWORD and entry is not None:
            spread.update(entry)
        elif kind is None:
            spread[key] = entry
    return {**dict.fromkeys(names), **spread}


def name_arguments(module: nn.Module, call: Call) -> None:
    """Give a module whose ``forward`` catches inputs in ``*args`` or ``**kwargs`` a ``forward`` that names them.

    torch matches dynamic shapes with the parameters of ``forward``; torch 2.13 cannot match what ``**kwargs`` caught.
    """
    if not _catches(module, call):
        return
    plain = module.forward

    def forward(*args: Any, **kwargs: Any) -> Any:
        return plain(*args, **kwargs)

    named = [inspect.Parameter(name, _ONE[1]) for name in _positional(module, len(call[0]))]
    named += [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY) for name in call[1]]
    forward.__signature__ = inspect.Signature(named)  # type: ignore[attr-defined]
    module.forward = forward


def _catches(module: nn.Module, call: Call) -> bool:
    signature = inspect.signature(module.forward)
    caught = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return any(signature.parameters[name].kind in caught for name in signature.bind(*call[0], **call[1]).arguments)


def declared(module: nn.Module, call: Call, spec: Any) -> list[Dynamic]:
    """Return every dimension that ``spec``, in the form of torch.export, declares dynamic.

    Raises:
        CaseError: ``spec`` names a dimension that its input does not have.
    """
    named = arguments(module, call)
    shapes = by_name(module, call, spec)
    if not isinstance(shapes, Mapping):
        shapes = dict(zip(named, shapes or (), strict=False))
    found: list[Dynamic] = []
    first = 0
    for name in [*_positional(module, len(call[0])), *call[1]]:
        found += _walk(name, shapes.get(name), named[name], first)
        first += len(flatten(named[name])[0])
    return found


def _walk(where: str, entry: Any, value: Any, first: int) -> Iterator[Dynamic]:
    """Yield the dynamic dimensions of ``value``, whose leaves are numbered from ``first``."""
    if entry is None:
        return
    if isinstance(value, torch.Tensor):
        for dim, wanted in entry.items() if isinstance(entry, Mapping) else enumerate(entry):
            if wanted is not None and not isinstance(wanted, int) and wanted != Dim.STATIC:
                if not -value.dim() <= dim < value.dim():
                    problem = f"dynamic_shapes names dimension {dim} of {where}, which has {value.dim()} dimensions"
                    raise CaseError(problem)
                place = f"{where}.shape[{dim % value.dim()}]"
                named = isinstance(wanted, Dim)
                yield Dynamic(first, dim % value.dim(), place, *_bounds(wanted), named)
        return
    for place, part, item in _children(entry, value):
        yield from _walk(f"{where}{place}", part, item, first)
        first += len(flatten(item)[0])


def _children(entry: Any, value: Any) -> list[tuple[str, Any, Any]]:
    if not isinstance(entry, (Mapping, list, tuple)):
        return []  # a Python number declared dynamic
    if isinstance(value, Mapping) and isinstance(entry, Mapping):
        return [(f"[{key!r}]", entry.get(key), item) for key, item in value.items()]
    entries = list(entry.values()) if isinstance(entry, Mapping) else list(entry)
    return [(f"[{i}]", part, item) for i, (part, item) in enumerate(zip(entries, children(value)[0], strict=False))]


def _bounds(wanted: Any) -> tuple[int, int]:
    low, high = getattr(wanted, "min", None), getattr(wanted, "max", None)
    largest = UNBOUNDED if high is None or str(high) == "int_oo" else min(int(high), UNBOUNDED)
    return max(int(low or 0), 1), largest
