"""Find lines of ``forward`` that branch on the device: run it where it is, once as if it were on another device.

Operators and outputs of the two runs are compared. No tensor of the other device ever exists, so nothing can abort the
process.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal
from unittest import mock

import torch
from torch import nn

from pytest_exportready.analysis.execution.call import Call
from pytest_exportready.analysis.execution.compare import Tolerance, compare
from pytest_exportready.analysis.execution.detectors.device_spoofing import Line, SpoofDevice
from pytest_exportready.analysis.execution.pytree import distinct, flatten, map_tensors, tensors
from pytest_exportready.analysis.module.snapshot import Snapshot
from pytest_exportready.analysis.torch_internals.tensors import each_operator
from pytest_exportready.case.sanitize import exception_text

_MOST_TRIED = 30  # lines that are tried one by one

Outcome = Literal["outputs", "fails", "operators"]
"""On the other device the outputs differ, forward fails, or other operators give the same outputs."""


@dataclass(frozen=True)
class Branch:
    """A line that reads the device and makes ``forward`` do something different on the other one."""

    file: str
    line: int
    read: str  # such as ``is_cuda``
    outcome: Outcome
    detail: str  # what differs


@dataclass
class _Run:
    """What one run did."""

    operators: list[Any] = field(default_factory=list)  # with their results
    output: Any = None
    error: Exception | None = None
    reads: dict[Line, str] = field(default_factory=dict)  # of the device, by line
    autocasts: list[str] = field(default_factory=list)  # device types of the autocast regions, in order


def branches(module: nn.Module, call: Call, own: torch.device, target: torch.device) -> list[Branch]:
    """Return the lines at which ``module``, in eval mode, takes another branch on ``target`` than on ``own``.

    The module is restored. Empty if two runs on ``own`` differ, too.

    Raises:
        Exception: whatever the module raises on ``own``, where it is.
    """
    trained = Snapshot(module)

    def spoofed(spoofs: Callable[[Line], bool], autocasts: Sequence[str] = ()) -> _Run:
        try:
            return _run(module, call, SpoofDevice(own, target, spoofs), autocasts)
        finally:
            trained.restore()

    here = spoofed(lambda line: False)  # under the same mode, which by itself disables some fast paths of torch
    if here.error is not None:
        raise here.error
    there = spoofed(lambda line: True, here.autocasts)
    whole = _difference(here, there)
    if whole is None or _difference(here, spoofed(lambda line: False)) is not None:
        return []
    found = []
    for line, read in list(there.reads.items())[:_MOST_TRIED]:
        single = _difference(here, spoofed(line.__eq__, here.autocasts))
        if single is not None:
            found.append(Branch(*line, read, *single))
    last, read = list(there.reads.items())[-1] if there.reads else (("", 0), "device")
    return found or [Branch(*last, read, *whole)]


def _run(module: nn.Module, call: Call, spoof: SpoofDevice, autocasts: Sequence[str]) -> _Run:
    """Run ``module``. autocasts: device types of the autocast regions in the run that read the real device."""
    done = _Run(reads=spoof.reads)

    def note(operator: Any, args: Any, kwargs: Any) -> Any:
        made = operator(*args, **kwargs)
        results = [(x.shape, x.dtype) for x in tensors(made)]
        done.operators.append((operator.name(), results))
        return made

    module.eval()
    try:
        args, kwargs = distinct((tuple(call[0]), dict(call[1])))
        with warnings.catch_warnings(), torch.random.fork_rng(devices=[]), torch.no_grad(), ExitStack() as within:
            warnings.simplefilter("ignore")  # the stage eager has reported them
            torch.manual_seed(0)
            for context in (_autocasts(done, spoof, autocasts), spoof.machine(), spoof, each_operator(note)):
                within.enter_context(context)
            output = module(*args, **kwargs)
        done.output = map_tensors(lambda t: t.detach().clone(), output)
    except Exception as error:
        done.error = error
    return done


def _difference(here: _Run, there: _Run) -> tuple[Outcome, str] | None:
    if there.error is not None:
        return "fails", exception_text(there.error)
    compared = compare(list(_values(here.output)), list(_values(there.output)), Tolerance())
    if not compared.agree:
        return "outputs", compared.problem
    if here.operators == there.operators:
        return None
    pairs = zip(here.operators, there.operators, strict=False)
    first = next(((one[0], other[0]) for one, other in pairs if one != other), None)
    one, other = first or (f"{len(here.operators)} operators", f"{len(there.operators)} operators")
    return "operators", f"{one} here, {other} there"


def _values(output: Any, seen: tuple[int, ...] = ()) -> Iterator[Any]:
    """Yield the tensors and numbers of an output, also in objects that torch does not know; devices are left out."""
    for leaf in flatten(output)[0]:
        if isinstance(leaf, torch.Tensor | int | float | complex):
            yield leaf
        elif hasattr(leaf, "__dict__") and not callable(leaf) and id(leaf) not in seen:
            yield from _values(vars(leaf), (*seen, id(leaf)))


@contextmanager
def _autocasts(done: _Run, spoof: SpoofDevice, autocasts: Sequence[str]) -> Iterator[None]:
    """Within the block, an autocast for the device type of the inputs is one for the device where they are."""
    enter = torch.autocast.__init__

    def entered(self: Any, device_type: str, *args: Any, **kwargs: Any) -> None:
        before = autocasts[len(done.autocasts)] if len(autocasts) > len(done.autocasts) else ""
        follows = device_type == spoof.target.type and before == spoof.own.type
        done.autocasts.append(device_type)
        enter(self, before if follows else device_type, *args, **kwargs)

    with mock.patch.object(torch.autocast, "__init__", entered):
        yield
