"""Describe the state of one rank in words and hashes: plain data that ranks can exchange and compare."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn
from torch.export import ExportedProgram

from pytest_exportready.analysis.execution.pytree import named_leaves
from pytest_exportready.analysis.module.wrappers import unwrap
from pytest_exportready.analysis.program.canonical_form import digest
from pytest_exportready.analysis.program.tensor_hash import sizes
from pytest_exportready.analysis.ranks.state_hash import fingerprint
from pytest_exportready.analysis.torch_internals.modules import is_fsdp1, is_norm, is_persistent
from pytest_exportready.analysis.torch_internals.tensors import is_dtensor

Aspect = Literal["structure", "parameters", "buffers", "modes", "gradients"]
ASPECTS: tuple[str, ...] = get_args(Aspect)
Facts = dict[str, dict[str, str]]  # by name of a tensor or module, then by field

PARAMETER, BUFFER, PASSING_BUFFER, TENSOR = "parameter", "buffer", "non-persistent buffer", "tensor"
STATISTIC = "running statistic"  # the buffers of a norm
SHARD = "parameter sharded by FSDP"  # each rank holds its own part of it, so that even the shape differs
_ASPECTS_OF = {PARAMETER: {"parameters"}, TENSOR: {"parameters", "buffers"}}  # of all other kinds: buffers

CLASS, KIND, SHAPE, MODE, VALUES, GRADIENT = "class", "kind", "shape", "mode", "values", "gradient"
ORDER, TIE = "order of names", "tie"
_PATH = re.compile(r"\['?(.*?)'?\]")


class RankState:
    """A module (inside its training wrappers), the state of an ExportedProgram, a state dict or a pytree on this rank.

    Args:
        what: The aspects to describe.
        uneven: ``{pattern of a tensor's name: dimension}``; that dimension may have another size on each rank, and
            the values of such a tensor are not compared.
    """

    def __init__(self, subject: Any, what: Iterable[str] = ASPECTS, uneven: Mapping[str, int] | None = None) -> None:
        self.what, self.uneven = frozenset(what), dict(uneven or {})
        self.facts: Facts = {}
        self.tensors: dict[str, Tensor] = {}  # by the names of ``facts``
        self._first_names: dict[int, str] = {}
        if isinstance(subject, nn.Module):
            self._describe_module(unwrap(subject)[0])
        elif isinstance(subject, ExportedProgram):
            self._describe_program(subject)
        else:
            self._describe_tree(subject)
        self._add("structure", "", {ORDER: digest(*self.tensors)})

    def _describe_module(self, model: nn.Module) -> None:
        modules = dict(model.named_modules(remove_duplicate=False))
        shards = {id(p) for module in modules.values() if is_fsdp1(module) for p in module.parameters()}
        for name, module in modules.items():
            self._add("structure", name, {CLASS: f"{type(module).__module__}.{type(module).__qualname__}"})
            self._add("modes", name, {MODE: "training" if module.training else "eval"})
        for name, parameter in model.named_parameters(remove_duplicate=False):
            self._describe(name, parameter, SHARD if id(parameter) in shards else PARAMETER)
        for name, buffer in model.named_buffers(remove_duplicate=False):
            prefix, _, own = name.rpartition(".")
            kept = BUFFER if is_persistent(modules[prefix], own) else PASSING_BUFFER
            self._describe(name, buffer, STATISTIC if is_norm(modules[prefix]) else kept)

    def _describe_program(self, program: ExportedProgram) -> None:
        for name, parameter in program.named_parameters():
            self._describe(name, parameter, PARAMETER)
        for name, buffer in program.named_buffers():
            passing = name in program.graph_signature.non_persistent_buffers
            self._describe(name, buffer, PASSING_BUFFER if passing else BUFFER)
        for name, constant in program.constants.items():
            if isinstance(constant, Tensor) and name not in self.tensors:
                self._describe(name, constant, "constant")

    def _describe_tree(self, tree: Any) -> None:
        for path, leaf in named_leaves(tree):
            name = _PATH.sub(r".\1", path).lstrip(".")
            if isinstance(leaf, Tensor):
                self._describe(name, leaf, TENSOR)
            else:
                plain = isinstance(leaf, (bool, int, float, str, type(None)))
                self._add("structure", name, {"value": repr(leaf)[:80] if plain else type(leaf).__name__})

    def _describe(self, name: str, tensor: Tensor, kind: str) -> None:
        self.tensors[name] = tensor
        first = self._first_names.setdefault(id(tensor), name)
        free = next((dim for pattern, dim in self.uneven.items() if fnmatchcase(name, pattern)), None)
        form = {KIND: kind, TIE: "none" if first == name else first, **_form(tensor)}
        if free is not None:
            form[SHAPE] = _freed(tensor, free)
        if free is not None or kind == SHARD:
            form.pop("stride", None)
        if kind == SHARD:
            del form[SHAPE]
        self._add("structure", name, form)
        if first == name and free is None and kind != SHARD:
            if self.what.intersection(_ASPECTS_OF.get(kind, {"buffers"})):
                self.facts.setdefault(name, {})[VALUES] = fingerprint(tensor)
            if kind == PARAMETER and "gradients" in self.what:
                gradient = tensor.grad if tensor.is_leaf else None
                self._add("gradients", name, {GRADIENT: "none" if gradient is None else fingerprint(gradient)})

    def _add(self, aspect: str, name: str, fields: dict[str, str]) -> None:
        if aspect in self.what:
            self.facts.setdefault(name, {}).update(fields)


def _form(tensor: Tensor) -> dict[str, str]:
    form = {
        SHAPE: _shown(sizes(tensor)),
        "dtype": str(tensor.dtype).removeprefix("torch."),
        "device": tensor.device.type,  # the index differs by rank
        "layout": str(tensor.layout).removeprefix("torch."),
        "requires_grad": str(tensor.requires_grad),
    }
    if is_dtensor(tensor):
        mesh = tensor.device_mesh  # type: ignore[attr-defined]
        form["placements"] = f"{tensor.placements} on {mesh.mesh_dim_names or ''}{tuple(mesh.shape)}"  # type: ignore[attr-defined]
    elif (
        tensor.layout is torch.strided
        and not hasattr(tensor, "__tensor_flatten__")
        and form[SHAPE] != "(uninitialized)"
    ):
        form["stride"] = _shown(
            step if size > 1 else "any" for size, step in zip(tensor.shape, tensor.stride(), strict=True)
        )
    return form


def _shown(numbers: Iterable[int | str]) -> str:
    return f"({', '.join(map(str, numbers))})"


def _freed(tensor: Tensor, dim: int) -> str:
    shape = list(sizes(tensor))
    if -len(shape) <= dim < len(shape):
        shape[dim] = "any"
    return _shown(shape)
