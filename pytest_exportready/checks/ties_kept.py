"""Weights that the model declares as tied are one tensor.

A loader that skips the second name (``strict=False``), ``to_empty()`` or an assignment breaks a tie in silence: the
output layer of a language model is then random. transformers declares ties in ``_tied_weights_keys``, in force while
``config.tie_word_embeddings`` says so; a class may have a table of its own whose name contains ``tied``: pairs of
parameter names. Two tensors with equal values still compute the same and are only mentioned.

Bad:  ``model.lm_head.weight = nn.Parameter(torch.empty_like(model.embed.weight))``
Good: ``model.tie_weights()`` after loading, or ``model.lm_head.weight = model.embed.weight``
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import torch
from torch import nn

from pytest_exportready.analysis.module.snapshot import equal_bits
from pytest_exportready.analysis.module.tensor_values import readable
from pytest_exportready.analysis.module.wrappers import unwrap
from pytest_exportready.case.finding import Finding, Rule
from pytest_exportready.checks._check import Check, Subject

RULE = Rule("ER315", "ties_kept")


def inspect(subject: Subject) -> Iterator[Finding]:
    model = unwrap(subject.model)[0]
    for prefix, module in model.named_modules():
        for one, other in _declared(module):
            a, b = _parameter(module, one), _parameter(module, other)
            if a is None or b is None or a is b or not (readable(a) and readable(b)) or a.data_ptr() == b.data_ptr():
                continue
            where = f"{prefix}.{one}".removeprefix(".")
            missing = subject.checkpoint is not None and where not in subject.checkpoint
            what = f"declared as tied to {other}, but a tensor of its own"
            what += " (the checkpoint has no such name)" if missing else ""
            owner = f"model.get_submodule({prefix!r})" if prefix else "model"
            if equal_bits(a.detach(), b.detach()):
                yield RULE.note(where, f"{what}, with equal values so far.")
            else:
                yield RULE.error(where, f"{what}, with other values.", f"{owner}.{one} = {owner}.{other}")


def _declared(module: nn.Module) -> Iterator[tuple[str, str]]:
    """Pairs of parameter names that the class of ``module`` says are one."""
    kind: type = type(module)
    for name in _tables(kind):
        table = getattr(kind, name)
        if name != "_tied_weights_keys":
            yield from _pairs(table)
        elif getattr(getattr(module, "config", None), "tie_word_embeddings", False):
            yield from _pairs(table) or _with_input_embeddings(module, table)


@cache
def _tables(kind: type) -> list[str]:
    return [name for name in dir(kind) if "tied" in name.lower()]


def _pairs(table: Any) -> list[tuple[str, str]]:
    rows = list(table.items()) if isinstance(table, Mapping) else table
    if not isinstance(rows, (list, tuple)):
        return []
    return [
        (row[0], row[1])
        for row in rows
        if isinstance(row, (list, tuple)) and len(row) == 2 and all(isinstance(name, str) for name in row)
    ]


def _with_input_embeddings(module: nn.Module, names: Any) -> list[tuple[str, str]]:
    """transformers' older form: names only, all tied to the weight of the input embeddings."""
    inputs = getattr(module, "get_input_embeddings", lambda: None)()
    outputs = getattr(module, "get_output_embeddings", lambda: None)()
    known = {id(parameter): name for name, parameter in module.named_parameters()}
    source, goal = (known.get(id(getattr(layer, "weight", None))) for layer in (inputs, outputs))
    return [(goal, source)] if source and goal and goal in (names or ()) else []


def _parameter(module: nn.Module, name: str) -> nn.Parameter | None:
    try:
        return module.get_parameter(name)
    except AttributeError:
        return None


class _Tied(nn.Module):
    tied = (("head.weight", "emb.weight"),)

    def __init__(self, tie: bool) -> None:
        super().__init__()
        self.emb = nn.Embedding(4, 2)
        self.head = nn.Linear(2, 4, bias=False)
        if tie:
            self.head.weight = self.emb.weight

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.head(self.emb(ids))  # type: ignore[no-any-return]


CHECK = Check(
    rule=RULE,
    inspect=inspect,
    good=(lambda: Subject(_Tied(tie=True).eval(), (torch.tensor([1]),)),),
    bad=(lambda: Subject(_Tied(tie=False).eval(), (torch.tensor([1]),)),),
)
