"""What a verdict depends on, as one key: if any of it is another, so is the key."""

from __future__ import annotations

import sys
import sysconfig
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.metadata import distributions
from pathlib import Path
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any

import torch
import xxhash
from torch import nn
from torch.export import ExportedProgram

from pytest_exportready.cache.topology import topology
from pytest_exportready.case import CaseOptions, ExportCase
from pytest_exportready.graph.canonical import digest
from pytest_exportready.graph.contents import tensor_digest
from pytest_exportready.graph.fingerprint import graph_fingerprint
from pytest_exportready.graph.weights import weights_fingerprint
from pytest_exportready.torch_internals import plain_attributes


class Unknown(Exception):
    """Part of a case cannot be told from another like it; the message names it."""


def verdict_key(case: ExportCase, options: CaseOptions, program: ExportedProgram, mode: str) -> str:
    """Key of the verdict on ``program``, exported from ``case``.

    Graph, weights, the module's own values that are in neither, inputs, options, every Python file that was loaded
    outside of the standard library and site-packages, every installed distribution with its version, and the machine.
    Raises Unknown for a case with an input, a value or a function that cannot be compared with that of another run.
    """
    try:
        return _key(case, options, program, mode)
    except (RecursionError, ValueError):
        raise Unknown("the module, or an input, holds itself or an empty closure") from None


def _key(case: ExportCase, options: CaseOptions, program: ExportedProgram, mode: str) -> str:
    given = (case.args, dict(case.kwargs), case.more_inputs, case.golden, case.checkpoint)
    told = (case.golden_tolerance, case.target_device, case.stateful_calls, case.allow_mutation, case.trainable)
    return digest(
        graph_fingerprint(program),
        weights_fingerprint(program),
        module_fingerprint(case.model),
        _value(given, "the inputs"),
        (str(told), str(options), mode),
        _value(case.loss, "loss"),
        code_fingerprint(),
        topology().key,
    )


def module_fingerprint(module: nn.Module) -> str:
    """Hash of classes, modes, all tensors and all plain values of ``module`` and what is in it."""
    lines: list[object] = []
    for name, inner in module.named_modules():
        values = [(key, _value(value, f"{name}.{key}")) for key, value in sorted(plain_attributes(inner).items())]
        lines.append((name, f"{type(inner).__module__}.{type(inner).__qualname__}", inner.training, values))
    tensors = [(name, tensor_digest(t)) for name, t in (*module.named_parameters(), *module.named_buffers())]
    return digest(lines, tensors)


def code_fingerprint() -> str:
    """Hash of the code that this process runs."""
    files = [(name, _file(path)) for name, path in sorted(_own_files().items())]
    return digest(_installed(), sys.version, files)


@cache
def _installed() -> list[tuple[str, str]]:
    return sorted((str(each.metadata["Name"]), each.version) for each in distributions())


def _own_files() -> dict[str, str]:
    """Loaded modules that neither Python nor an installed distribution brought."""
    apart = tuple(sysconfig.get_path(kind) for kind in ("stdlib", "purelib", "platlib"))
    files = {name: getattr(module, "__file__", None) for name, module in list(sys.modules.items())}
    return {name: path for name, path in files.items() if path and not path.startswith(apart)}


@cache
def _file(path: str) -> str:
    """Hash of a file as it was when this process first asked, soon after it was loaded."""
    try:
        return xxhash.xxh3_128(Path(path).read_bytes()).hexdigest()
    except OSError:
        return "unreadable"


def _value(value: Any, name: str) -> object:
    """``value`` as something that is equal for equal values in another process."""
    if isinstance(value, torch.Tensor):
        return tensor_digest(value), value.requires_grad, value.stride() if value.layout == torch.strided else ()
    if isinstance(value, float):
        return value.hex()
    if isinstance(value, (bool, int, str, bytes, complex, type(None), torch.dtype, torch.device, torch.layout)):
        return type(value).__name__, repr(value)
    if isinstance(value, (type, BuiltinFunctionType)):
        return f"{value.__module__}.{value.__qualname__}"
    if isinstance(value, FunctionType):
        held = [_value(cell.cell_contents, f"what {name} holds") for cell in value.__closure__ or ()]
        return f"{value.__module__}.{value.__qualname__}", value.__code__.co_firstlineno, held
    if isinstance(value, Mapping):
        return type(value).__name__, [(_value(k, name), _value(v, f"{name}[{k!r}]")) for k, v in value.items()]
    if isinstance(value, (list, tuple)):
        return type(value).__name__, [_value(inner, f"{name}[{i}]") for i, inner in enumerate(value)]
    if isinstance(value, (set, frozenset)):
        return type(value).__name__, sorted(repr(_value(inner, name)) for inner in value)
    if isinstance(value, nn.Module):
        return module_fingerprint(value)
    if isinstance(value, MethodType):
        return _value(value.__func__, name), type(value.__self__).__qualname__
    return _as_pickled(value, name)


def _as_pickled(value: object, name: str) -> object:
    """What ``pickle`` would write of ``value``, which is all that it is made of."""
    try:
        made_of = value.__reduce_ex__(2)
    except Exception as error:
        raise Unknown(f"{name} is a {type(value).__name__}") from error
    if isinstance(made_of, str):
        return made_of
    make, arguments, *rest = made_of
    parts = [list(part) if isinstance(part, Iterator) else part for part in rest]
    return f"{type(value).__module__}.{type(value).__qualname__}", _value(make, name), _value((arguments, parts), name)
