"""A tensor that `forward` caches in an attribute is the one that it would compute now.

Why it matters:
    A cache (`if self.table is None: ...`) may have been filled with older weights, another input or in
    another mode. torch.export stores it as a constant: the program agrees with the eager module, and neither
    agrees with a new process that loads the same checkpoint. Each cache is emptied for one call, and the
    outputs are compared.

Example:
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight, self.table = nn.Parameter(torch.ones(2)), None

        def forward(self, x):
            if self.table is None:
                self.table = self.weight.detach().exp()
            return x * self.table

    model = Net()
    model(torch.ones(1, 2))
    nn.init.zeros_(model.weight)
    export_ready_check(model.eval(), (torch.ones(1, 2),))

Instead:
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(2))

        def forward(self, x):
            return x * self.weight.exp()

    export_ready_check(Net().eval(), (torch.ones(1, 2),))

Severity:
    error: the output differs after the cache is emptied.

Not reported:
    Attributes that other methods assign too, and modules with `allow_mutation=True`.
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
from pytest_exportready.analysis.module.plain_tensor_attributes import plain_tensor_attributes
from pytest_exportready.analysis.module.snapshot import preserved
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
    model = subject.module
    if subject.allow_mutation:
        return
    for name in dict.fromkeys(entry.attribute for entry in plain_tensor_attributes(model)):
        prefix, _, attribute = name.rpartition(".")
        owner = model.get_submodule(prefix)
        if attribute not in vars(owner) or not _filled_by_forward(type(owner), attribute, vars(owner)[attribute]):
            continue
        if _stale(model, owner, attribute, subject):
            yield RULE.error(
                name,
                f"The cache `{attribute}` differs from what `forward` would compute now. "
                "It was filled with older weights, another input or in another mode.",
                f"Set `model.{name} = {_empty(vars(owner)[attribute])!r}` before exporting, or do not cache it.",
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
    call = subject.call
    outputs = []
    try:
        for emptied in (False, True):
            with preserved(model), global_state_kept():
                model.eval()
                if emptied:
                    vars(owner)[attribute] = _empty(vars(owner)[attribute])
                outputs += run(model, [call])
    except Exception:
        return False  # forward does not fill it, so it is not a cache
    warm, fresh = outputs
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
