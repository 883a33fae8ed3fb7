"""What a verdict depends on, as one key: if any of it is another, so is the key."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any

import torch
from torch import nn
from torch.export import ExportedProgram

from pytest_exportready.cache.code import code_fingerprint
from pytest_exportready.cache.topology import topology
from pytest_exportready.case import ExportCase
from pytest_exportready.case_options import CaseOptions
from pytest_exportready.graph.canonical import digest
from pytest_exportready.graph.contents import tensor_digest
from pytest_exportready.graph.fingerprint import graph_fingerprint
from pytest_exportready.graph.weights import weights_fingerprint
from pytest_exportready.stage import Unremembered
from pytest_exportready.torch_internals import plain_attributes


def verdict_key(case: ExportCase, options: CaseOptions, program: ExportedProgram, mode: str) -> str:
    """Key of the verdict on ``program``, exported from ``case``.

    Graph, weights, the module's own values that are in neither, inputs, options, the code that all of these can reach,
    torch's settings and the machine. Raises Unremembered for a case with an input, a value or a function that cannot be
    compared with another run's.
    """
    spelled = _Spelling()
    given = (case.args, dict(case.kwargs), case.more_inputs, case.golden, case.checkpoint)
    told = (case.golden_tolerance, case.target_device, case.stateful_calls, case.allow_mutation, case.trainable)
    try:
        parts = (spelled.module(case.model), spelled.value(given, "the inputs"), spelled.value(case.loss, "loss"))
    except (RecursionError, ValueError):
        raise Unremembered("the module, or an input, holds itself or an empty closure") from None
    return digest(
        graph_fingerprint(program),
        weights_fingerprint(program),
        parts,
        (str(told), str(options), mode),
        (str(torch.get_default_dtype()), torch.get_float32_matmul_precision()),
        code_fingerprint(spelled.modules),
        topology().key,
    )


class _Spelling:
    """Values as strings and tuples that are equal for equal values in another process; ``modules``: where the classes
    and functions among them are defined.
    """

    def __init__(self) -> None:
        self.modules: set[str] = set()

    def module(self, module: nn.Module) -> object:
        """Classes, modes, all tensors and all plain values of ``module`` and what is in it."""
        lines: list[object] = []
        for name, inner in module.named_modules():
            self.modules.update(kind.__module__ for kind in type(inner).__mro__)
            values = plain_attributes(inner)
            spelled = [(key, self.value(value, f"{name}.{key}")) for key, value in sorted(values.items())]
            lines.append((name, self.value(type(inner), name), inner.training, spelled))
        tensors = [(name, tensor_digest(t)) for name, t in (*module.named_parameters(), *module.named_buffers())]
        return lines, tensors

    def value(self, value: Any, name: str) -> object:
        """Raises Unremembered for what cannot be spelled."""
        if isinstance(value, torch.Tensor):
            strides = value.stride() if value.layout == torch.strided else ()
            return tensor_digest(value), value.requires_grad, strides
        if isinstance(value, float):
            return value.hex()
        if isinstance(value, (bool, int, str, bytes, complex, type(None), torch.dtype, torch.device, torch.layout)):
            return type(value).__name__, repr(value)
        if isinstance(value, (type, BuiltinFunctionType)):
            self.modules.add(str(value.__module__))
            return f"{value.__module__}.{value.__qualname__}"
        if isinstance(value, FunctionType):
            self.modules.add(value.__module__)
            held = [self.value(cell.cell_contents, f"what {name} holds") for cell in value.__closure__ or ()]
            return f"{value.__module__}.{value.__qualname__}", value.__code__.co_firstlineno, held
        if isinstance(value, MethodType):
            return self.value(value.__func__, name), type(value.__self__).__qualname__
        if isinstance(value, Mapping):
            items = [(self.value(k, name), self.value(v, f"{name}[{k!r}]")) for k, v in value.items()]
            return type(value).__name__, items
        if isinstance(value, (list, tuple)):
            return type(value).__name__, [self.value(inner, f"{name}[{i}]") for i, inner in enumerate(value)]
        if isinstance(value, (set, frozenset)):
            return type(value).__name__, sorted(repr(self.value(inner, name)) for inner in value)
        if isinstance(value, nn.Module):
            return self.module(value)
        return self._as_pickled(value, name)

    def _as_pickled(self, value: object, name: str) -> object:
        """What ``pickle`` would write of ``value``, which is all that it is made of."""
        try:
            made_of = value.__reduce_ex__(2)
        except Exception as error:
            raise Unremembered(f"{name} is a {type(value).__name__}") from error
        if isinstance(made_of, str):
            return made_of
        make, arguments, *rest = made_of
        parts = [list(part) if isinstance(part, Iterator) else part for part in rest]
        return self.value(type(value), name), self.value(make, name), self.value((arguments, parts), name)
