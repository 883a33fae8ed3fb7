"""Where forward does another thing on another device: it is run again where it is, told that it is elsewhere.

The tensors stay; what Python asks (``x.device``, ``x.is_cuda``, ``x.get_device()``, ``torch.cuda.is_available()``) is
answered as on the other device, and what it makes there is made here. Operators and answers of the two runs are
compared. No tensor of the other device ever exists, so nothing can abort the process.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Literal
from unittest import mock

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from pytest_exportready.failure import is_users
from pytest_exportready.module.preserve import Preserved
from pytest_exportready.proof.pytree import distinct, flatten, map_tensors
from pytest_exportready.proof.tolerance import Tolerance, compare
from pytest_exportready.proof.truth import Call
from pytest_exportready.text import exception_text
from pytest_exportready.torch_internals import each_operator

Place = tuple[str, int]
Believed = Callable[[Place], bool]
_MOST_TRIED = 30  # lines that are tried one by one
_MACHINE: dict[str, Any] = {"is_available": True, "device_count": 1, "current_device": 0, "is_bf16_supported": True,
                            "get_device_capability": (8, 0)}  # fmt: skip


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
            return _run(module, call, _Lies(own, target, believed, autocasts))
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


def _run(module: nn.Module, call: Call, lies: _Lies) -> _Run:
    done = _Run(asked=lies.asked)

    def note(operator: Any, args: Any, kwargs: Any) -> Any:
        made = operator(*args, **kwargs)
        results = [(x.shape, x.dtype) for x in flatten(made)[0] if isinstance(x, torch.Tensor)]
        done.operators.append((operator.name(), results))
        return made

    module.eval()
    try:
        args, kwargs = distinct((tuple(call[0]), dict(call[1])))
        with warnings.catch_warnings(), torch.random.fork_rng(devices=[]), torch.no_grad(), ExitStack() as told:
            warnings.simplefilter("ignore")  # the stage eager has told them
            torch.manual_seed(0)
            for context in (_autocasts(done, lies), lies.machine(), lies):
                told.enter_context(context)
            told.enter_context(each_operator(note))
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


class _Lies(TorchFunctionMode):
    """Says to lines that are ``believed`` to ask for it that tensors of ``own`` are on ``target``, and makes on ``own``
    what is to be made there. autocasts: device types of the autocast regions of a run without lies, in order.
    """

    def __init__(self, own: torch.device, target: torch.device, believed: Believed, autocasts: Sequence[str]) -> None:
        super().__init__()
        self.own, self.believed, self.autocasts = own, believed, autocasts
        self.target = torch.device(target.type, target.index or 0) if target.type != "cpu" else target
        self.asked: dict[Place, str] = {}

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = getattr(function, "__name__", "")
        if function is torch.device:
            return function(*args, **kwargs or {})
        if name == self.target.type and args and isinstance(args[0], torch.Tensor):
            return args[0]  # x.cuda()
        own_args, own_kwargs = self._made_here(name, args, kwargs or {})
        real = function(*own_args, **own_kwargs)
        if name == "__get__":
            name = getattr(getattr(function, "__self__", None), "__name__", "")
        told = self._told(name, real)
        return real if told is None or not self._believes(name) else told

    def _told(self, name: str, real: Any) -> Any:
        """What is answered on ``target`` to a question about the device; None for any other call, or of a tensor that
        is not on ``own``.
        """
        if name == "device" and real == self.own:
            return self.target
        if name == "get_device" and real == (-1 if self.own.index is None else self.own.index):
            return -1 if self.target.index is None else self.target.index
        if name in (f"is_{self.own.type}", f"is_{self.target.type}") and self.own.type != self.target.type:
            return not real
        return None

    def _believes(self, name: str) -> bool:
        place = _asking()
        self.asked.setdefault(place, name)
        return self.believed(place)

    def _made_here(self, name: str, args: Any, kwargs: Any) -> Any:
        def here(value: Any, says_device: bool) -> Any:
            number = isinstance(value, int) and not isinstance(value, bool)
            if isinstance(value, torch.device) or (says_device and isinstance(value, str)):
                return self.own if torch.device(value).type == self.target.type else value
            return self.own if says_device and number and self.target.type == "cuda" else value

        own_args = tuple(here(value, name == "to" and at == 1) for at, value in enumerate(args))
        return own_args, {key: here(value, key == "device") for key, value in kwargs.items()}

    @contextmanager
    def machine(self) -> Iterator[None]:
        """``torch.cuda`` as on a machine with one such device, for whoever outside torch asks."""
        with ExitStack() as patched:
            for name, answer in _MACHINE.items() if self.target.type == "cuda" else ():
                patched.enter_context(mock.patch.object(torch.cuda, name, self._answering(name, answer)))
            yield

    def _answering(self, name: str, answer: Any) -> Callable[..., Any]:
        real = getattr(torch.cuda, name)

        def told(*args: Any, **kwargs: Any) -> Any:
            users = _users(sys._getframe(1).f_code.co_filename)
            return answer if users and self._believes(f"torch.cuda.{name}()") else real(*args, **kwargs)

        return told


def _asking() -> Place:
    """File and line of the innermost frame of the user's."""
    frame = sys._getframe(1)
    while frame is not None and not _users(frame.f_code.co_filename):
        frame = frame.f_back  # type: ignore[assignment]
    return (frame.f_code.co_filename, frame.f_lineno) if frame is not None else ("", 0)


_users = cache(is_users)


@contextmanager
def _autocasts(done: _Run, lies: _Lies) -> Iterator[None]:
    """Within the block an autocast of the device type of the inputs is one of the device where they are."""
    enter = torch.autocast.__init__

    def entered(self: Any, device_type: str, *args: Any, **kwargs: Any) -> None:
        before = lies.autocasts[len(done.autocasts)] if len(lies.autocasts) > len(done.autocasts) else ""
        follows = device_type == lies.target.type and before == lies.own.type
        done.autocasts.append(device_type)
        enter(self, before if follows else device_type, *args, **kwargs)

    with mock.patch.object(torch.autocast, "__init__", entered):
        yield
