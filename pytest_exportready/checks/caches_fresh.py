"""What forward keeps in an attribute is what it would compute now.

A cache that forward fills when it finds it empty (``if self.table is None: ...``) may hold what an earlier call made of
older weights, of another input or in another mode. ``torch.export`` finds it filled and stores it as a constant: the
program agrees with the module, and neither agrees with a fresh process that loads the same checkpoint. Each
such attribute is emptied for one call on the example inputs: an answer that differs from the warm one shows a stale
cache. Attributes that other methods set too are the user's choice, and a module that is meant to have state says so
with ``allow_mutation=True``.

Bad:  ``if self.table is None: self.table = self.weight.exp().detach()``, filled before the last training step
Good: ``model.table = None`` before the export, or a table that training does not change
"""

from __future__ import annotations

import dis
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from pytest_exportready.analysis.execution.call import run
from pytest_exportready.analysis.execution.compare import Tolerance, compare
from pytest_exportready.analysis.execution.global_state import global_state_kept
from pytest_exportready.analysis.module.plain_tensor_attributes import loose_tensors
from pytest_exportready.analysis.module.snapshot import preserved
from pytest_exportready.analysis.module.wrappers import unwrap
from pytest_exportready.analysis.source.bytecode import (
    attributes_read,
    attributes_written,
    methods,
    reached_from_forward,
)
from pytest_exportready.case.finding import Finding, Rule
from pytest_exportready.checks._check import Check, Subject

RULE = Rule("ER313", "caches_fresh")

_FILLS = frozenset({"append", "setdefault", "update", "extend", "__setitem__"})


def inspect(subject: Subject) -> Iterator[Finding]:
    model = unwrap(subject.model)[0]
    if subject.allow_mutation:
        return
    for name in dict.fromkeys(entry.attribute for entry in loose_tensors(model)):
        prefix, _, attribute = name.rpartition(".")
        owner = model.get_submodule(prefix)
        if attribute not in vars(owner) or not _filled_by_forward(type(owner), attribute, vars(owner)[attribute]):
            continue
        if _stale(model, owner, attribute, subject):
            yield RULE.error(
                name,
                "a cache that forward fills when it is empty holds something else than forward would put there now: "
                "older weights or another input made it.",
                f"model.{name} = {_empty(vars(owner)[attribute])!r} before the export, or do not keep it",
            )


def _filled_by_forward(kind: type, attribute: str, value: Any) -> bool:
    reached = {*reached_from_forward(kind)}
    outside = [code for name, code in methods(kind).items() if code not in reached and name != "__init__"]
    if any(attribute in attributes_written(code) for code in outside):
        return False
    if isinstance(value, (dict, list)):
        return any(attribute in attributes_read(code) and _stores(code) for code in reached)
    return any(attribute in attributes_written(code) for code in reached)


def _stores(code: Any) -> bool:
    return bool(attributes_read(code) & _FILLS) or any(i.opname == "STORE_SUBSCR" for i in dis.get_instructions(code))


def _stale(model: nn.Module, owner: nn.Module, attribute: str, subject: Subject) -> bool:
    call = (subject.args, subject.kwargs)
    answers = []
    try:
        for emptied in (False, True):
            with preserved(model), global_state_kept():
                model.eval()
                if emptied:
                    vars(owner)[attribute] = _empty(vars(owner)[attribute])
                answers += run(model, [call])
    except Exception:
        return False  # forward does not fill it: no cache
    warm, fresh = answers
    return not compare(warm, fresh, Tolerance()).agree


def _empty(value: Any) -> Any:
    return type(value)() if isinstance(value, (dict, list)) else None


class _Cached(nn.Module):
    def __init__(self, changes: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(2))
        self.table: torch.Tensor | None = None
        self(torch.ones(1, 2))
        with torch.no_grad():
            self.weight.add_(changes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.table is None:
            self.table = self.weight.detach().exp()
        return x * self.table


CHECK = Check(
    rule=RULE,
    inspect=inspect,
    good=(lambda: Subject(_Cached(changes=0.0).eval(), (torch.ones(1, 2),)),),
    bad=(lambda: Subject(_Cached(changes=1.0).eval(), (torch.ones(1, 2),)),),
    requires=("devices_consistent",),
)
