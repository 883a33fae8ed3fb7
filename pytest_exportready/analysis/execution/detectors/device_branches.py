"""Where forward does another thing on another device: it is run again where it is, told that it is elsewhere.

Operators and answers of the two runs are compared. No tensor of the other device ever exists, so nothing can abort the
process.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal
from unittest import mock

import torch
from torch import nn

from pytest_exportready.analysis.execution.call import Call
from pytest_exportready.analysis.execution.compare import Tolerance, compare
from pytest_exportready.analysis.execution.detectors.device_spoofing import Believed, Place, Pretending
from pytest_exportready.analysis.execution.pytree import distinct, flatten, map_tensors
from pytest_exportready.analysis.module.snapshot import Preserved
from pytest_exportready.analysis.torch_internals.tensors import each_operator
from pytest_exportready.case.sanitize import exception_text

_MOST_TRIED = 30  # lines that are tried one by one


@dataclass(frozen=True)
class Branch:
    """file, line: where forward asks for the device. asked: how, such as ``is_cuda``.

    outcome: on the other device the ``answers`` are others, it ``fails`` here, or other ``operators`` give the same.
    detail: what differs.
    """

    file: str
    line: int
    asked: str
    outcome: Literal["answers", "fails", "operators"]
    detail: str


@dataclass
class _Run:
    """What one run did: its operators with their results, its answer or error, and where it asked what."""

    operators: list[Any] = field(default_factory=list)
    answer: Any = None
    error: Exception | None = None
    asked: dict[Place, str] = field(default_factory=dict)
    autocasts: list[str] = field(default_factory=list)


def branches(module: nn.Module, call: Call, own: torch.device, target: torch.device) -> list[Branch]:
    """The lines at which ``module``, in eval mode, takes another way on ``target`` than on ``own``, where it is.

    Leaves the module as it was. Raises what the module raises on ``own``. Empty where two runs on ``own`` differ too.
    """
    trained = Preserved(module)

    def told(believed: Believed, autocasts: Sequence[str] = ()) -> _Run:
        try:
            return _run(module, call, Pretending(own, target, believed), autocasts)
        finally:
            trained.restore()

    here = told(lambda place: False)  # under the same mode: it alone keeps torch from some fast paths
    if here.error is not None:
        raise here.error
    there = told(lambda place: True, here.autocasts)
    whole = _difference(here, there)
    if whole is None or _difference(here, told(lambda place: False)) is not None:
        return []
    found = []
    for place, asked in list(there.asked.items())[:_MOST_TRIED]:
        single = _difference(here, told(place.__eq__, here.autocasts))
        if single is not None:
            found.append(Branch(*place, asked, *single))
    last, asked = list(there.asked.items())[-1] if there.asked else (("", 0), "device")
    return found or [Branch(*last, asked, *whole)]


def _run(module: nn.Module, call: Call, told: Pretending, autocasts: Sequence[str]) -> _Run:
    """autocasts: device types of the autocast regions of a run that got the true device, in order."""
    done = _Run(asked=told.asked)

    def note(operator: Any, args: Any, kwargs: Any) -> Any:
        made = operator(*args, **kwargs)
        results = [(x.shape, x.dtype) for x in flatten(made)[0] if isinstance(x, torch.Tensor)]
        done.operators.append((operator.name(), results))
        return made

    module.eval()
    try:
        args, kwargs = distinct((tuple(call[0]), dict(call[1])))
        with warnings.catch_warnings(), torch.random.fork_rng(devices=[]), torch.no_grad(), ExitStack() as within:
            warnings.simplefilter("ignore")  # the stage eager has told them
            torch.manual_seed(0)
            for context in (_autocasts(done, told, autocasts), told.machine(), told, each_operator(note)):
                within.enter_context(context)
            answer = module(*args, **kwargs)
        done.answer = map_tensors(lambda t: t.detach().clone(), answer)
    except Exception as error:
        done.error = error
    return done


def _difference(here: _Run, there: _Run) -> tuple[Literal["answers", "fails", "operators"], str] | None:
    if there.error is not None:
        return "fails", exception_text(there.error)
    compared = compare(list(_values(here.answer)), list(_values(there.answer)), Tolerance())
    if not compared.agree:
        return "answers", compared.problem
    if here.operators == there.operators:
        return None
    pairs = zip(here.operators, there.operators, strict=False)
    first = next((pair for pair in pairs if pair[0] != pair[1]), None)
    names = [name for name, _ in first] if first else [str(len(run.operators)) for run in (here, there)]
    return "operators", f"{names[0]} here, {names[1]} there" if first else f"{' operators here, '.join(names)} there"


def _values(answer: Any, seen: tuple[int, ...] = ()) -> Iterator[Any]:
    """Tensors and numbers of an answer, those in objects of classes that torch does not know too; no devices."""
    for leaf in flatten(answer)[0]:
        if isinstance(leaf, torch.Tensor | int | float | complex):
            yield leaf
        elif hasattr(leaf, "__dict__") and not callable(leaf) and id(leaf) not in seen:
            yield from _values(vars(leaf), (*seen, id(leaf)))


@contextmanager
def _autocasts(done: _Run, told: Pretending, autocasts: Sequence[str]) -> Iterator[None]:
    """Within the block an autocast of the device type of the inputs is one of the device where they are."""
    enter = torch.autocast.__init__

    def entered(self: Any, device_type: str, *args: Any, **kwargs: Any) -> None:
        before = autocasts[len(done.autocasts)] if len(autocasts) > len(done.autocasts) else ""
        follows = device_type == told.target.type and before == told.own.type
        done.autocasts.append(device_type)
        enter(self, before if follows else device_type, *args, **kwargs)

    with mock.patch.object(torch.autocast, "__init__", entered):
        yield
