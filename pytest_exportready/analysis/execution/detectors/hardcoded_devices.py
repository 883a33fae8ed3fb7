"""Find tensors that ``forward`` creates on a fixed device, whatever device the model and its inputs are on.

The module and its inputs are copied to the meta device: a tensor from another device that meets them there would meet
them on every device but its own. No other device is needed for this.
"""

from __future__ import annotations

import copy
import traceback
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from pytest_exportready.analysis.execution.detectors.device_spoofing import SpoofDevice
from pytest_exportready.analysis.execution.pytree import map_tensors, tensors
from pytest_exportready.analysis.module.copying import refuse_ties_to_original
from pytest_exportready.analysis.module.unregistered_tensors import unregistered_tensors
from pytest_exportready.analysis.source.user_frames import stack_place
from pytest_exportready.analysis.torch_internals.tensors import each_operator

# Operators that accept an operand from another device: copies, and indexing by tensors on the CPU.
_COPIES = ("aten::_to_copy", "aten::copy", "aten::lift_fresh")
_MOST_READS = 200  # of values by forward: `while (x > 0).any()` would not end
_INDEXING = ("aten::index", "aten::index_put", "aten::_index_put_impl")


@dataclass(frozen=True)
class HardcodedTensor:
    """A tensor on a fixed device, and the line of user code that created it."""

    operator: str  # that created it, such as ``arange``
    device: torch.device
    file: str
    line: int


def home(model: nn.Module) -> torch.device:
    """Return the device of a module: that of its first parameter, else of its first buffer, else the CPU."""
    first = next(model.parameters(), next(model.buffers(), None))
    return first.device if first is not None else torch.device("cpu")


def is_at(own: torch.device, target: torch.device) -> bool:
    """Return whether ``own`` is ``target``; a target without an index is any device of its type."""
    return target.type == own.type and target.index in (None, own.index or 0)


def hardcoded_tensors(
    model: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any], target: torch.device
) -> list[HardcodedTensor]:
    """Return the tensors that ``forward`` creates on a fixed device, in order, each line once.

    A tensor counts if it meets the model's tensors in an operator that needs one device. 0-dimensional tensors and
    indices may be on the CPU, and tensors that the module holds are not examined. Forward sees the meta device as
    ``target``, so that ``"cuda" if x.is_cuda else "cpu"`` is not reported. Values that forward reads are 1; if it
    cannot run with these, the part of it before that is judged.

    Raises:
        Exception: whatever copying the model raises.
    """
    refuse_ties_to_original(model)
    found, whole = _probe(model, args, kwargs, SpoofDevice(torch.device("meta"), target, lambda line: True))
    if not whole:  # its branch for the target may need the target
        found, _ = _probe(model, args, kwargs, SpoofDevice(torch.device("meta"), target, lambda line: False))
    return found


def _probe(
    model: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any], spoof: SpoofDevice
) -> tuple[list[HardcodedTensor], bool]:
    """Return the tensors, and whether ``forward`` ran to its end."""
    memo: dict[int, Any] = {id(t): _on_meta(t) for t in [*model.parameters(), *model.buffers()]}
    copied = copy.deepcopy(model, memo).eval()
    watch = _Watch([tensor for _, tensor in unregistered_tensors(copied)])
    own_args, own_kwargs = map_tensors(_on_meta, (tuple(args), dict(kwargs)))
    whole = False
    # The run without values may end early; whether forward runs with values is judged by the stages.
    with torch.no_grad(), spoof.machine(), spoof, _Recurrent(watch), each_operator(watch.run), suppress(Exception):
        copied(*own_args, **own_kwargs)
        whole = True
    return list(dict.fromkeys(watch.found)), whole


class _Recurrent(TorchFunctionMode):
    """torch.lstm, torch.gru and torch.rnn_* compare devices themselves, before any operator runs."""

    def __init__(self, watch: _Watch) -> None:
        super().__init__()
        self.watch = watch

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        call = args, kwargs or {}
        if getattr(function, "__name__", "") in ("lstm", "gru", "rnn_tanh", "rnn_relu"):
            call = self.watch.together(call)
        return function(*call[0], **call[1])


class _Watch:
    """Runs each operator with fixed tensors moved to the device of its other operands, and keeps their origin."""

    def __init__(self, known: list[torch.Tensor]) -> None:
        self.found: list[HardcodedTensor] = []
        self._known = known
        self._origins: dict[int, tuple[torch.Tensor, HardcodedTensor]] = {}
        self._reads = 0

    def run(self, operator: Any, args: Any, kwargs: Any) -> Any:
        operands = tensors((args, kwargs))
        away = [tensor for tensor in operands if not tensor.is_meta]
        name = operator.name().partition(".")[0]
        if len(away) < len(operands) and not _crosses(name.removesuffix("_"), operands):
            args, kwargs = self.together((args, kwargs))
        elif name == "aten::_to_copy" and operands[0].is_meta and _goes_away(kwargs):
            return self._label(torch.zeros(operands[0].shape, dtype=kwargs.get("dtype") or operands[0].dtype), name, [])
        return self._label(self._made(operator, args, kwargs), name, away)

    def _made(self, operator: Any, args: Any, kwargs: Any) -> Any:
        """Return the result of ``operator``; one that needs values (``nonzero``, ``item``) sees ones."""
        try:
            return operator(*args, **kwargs)
        except (NotImplementedError, RuntimeError):
            self._reads += 1
            if self._reads > _MOST_READS:
                raise
            call = map_tensors(lambda t: torch.ones(t.shape, dtype=t.dtype) if t.is_meta else t, (args, kwargs))
            return map_tensors(_on_meta, operator(*call[0], **call[1]))

    def together(self, call: Any) -> Any:
        """Note the arguments of ``call`` that are on another device, and return all of them on one device."""
        away = [t for t in tensors(call) if not t.is_meta and t.dim()]
        self.found += [hardcoded for tensor in away if (hardcoded := self._origin(tensor))]
        return map_tensors(lambda t: _on_meta(t) if t.dim() else t, call)

    def _origin(self, tensor: torch.Tensor) -> HardcodedTensor | None:
        if id(tensor) in self._origins:
            return self._origins[id(tensor)][1]
        known = any(tensor is other or tensor.data_ptr() == other.data_ptr() for other in self._known)
        return None if known else _here("a tensor made outside forward", tensor.device)

    def _label(self, made: Any, name: str, sources: list[torch.Tensor]) -> Any:
        """Keep the origin of the tensors in ``made`` that are not on the meta device."""
        for tensor in tensors(made):
            if not tensor.is_meta:
                origins = [self._origins[id(t)][1] for t in sources if id(t) in self._origins]
                if origins or not sources or name == "aten::lift_fresh":
                    hardcoded = origins[0] if origins else _here(name.removeprefix("aten::"), tensor.device)
                    self._origins[id(tensor)] = (tensor, hardcoded)
                else:
                    self._known.append(tensor)
        return made


def _here(operator: str, device: torch.device) -> HardcodedTensor:
    file, line = stack_place("".join(traceback.format_stack()))
    return HardcodedTensor({"lift_fresh": "tensor", "_to_copy": "to"}.get(operator, operator), device, file, line)


def _crosses(name: str, operands: list[torch.Tensor]) -> bool:
    return name in _COPIES or (name in _INDEXING and operands[0].is_meta)


def _goes_away(kwargs: Mapping[str, Any]) -> bool:
    device = kwargs.get("device")
    return device is not None and torch.device(device).type != "meta"


def _on_meta(tensor: torch.Tensor) -> torch.Tensor:
    away = tensor.detach().to("meta")
    return nn.Parameter(away, tensor.requires_grad) if isinstance(tensor, nn.Parameter) else away
