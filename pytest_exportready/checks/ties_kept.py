"""Weights that the model declares as tied are one tensor.

Why it matters:
    A loader that skips the second name (`strict=False`), `to_empty()` or an assignment breaks a tie silently:
    the output layer of a language model is then random. Ties are read from `_tied_weights_keys`
    (transformers, if `config.tie_word_embeddings` is set) and from class attributes whose name contains
    `tied`: pairs of parameter names.

Example:
    class LanguageModel(nn.Module):
        tied = (("head.weight", "embed.weight"),)

        def __init__(self):
            super().__init__()
            self.embed, self.head = nn.Embedding(4, 2), nn.Linear(2, 4, bias=False)

        def forward(self, ids):
            return self.head(self.embed(ids))

    export_ready_check(LanguageModel().eval(), (torch.tensor([1]),))

Instead:
    class LanguageModel(nn.Module):
        tied = (("head.weight", "embed.weight"),)

        def __init__(self):
            super().__init__()
            self.embed, self.head = nn.Embedding(4, 2), nn.Linear(2, 4, bias=False)
            self.head.weight = self.embed.weight

        def forward(self, ids):
            return self.head(self.embed(ids))

    export_ready_check(LanguageModel().eval(), (torch.tensor([1]),))

Severity:
    error: the two are separate tensors with different values.
    note: the two are separate tensors with equal values.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import torch
from torch import nn

from pytest_exportready.analysis.module.snapshot import equal_bits
from pytest_exportready.analysis.module.tensor_values import readable
from pytest_exportready.case.finding import Finding, Rule
from pytest_exportready.checks._check import Check, Subject

RULE = Rule("ER315", "ties_kept")


def inspect(subject: Subject) -> Iterator[Finding]:
    model = subject.module
    for prefix, module in model.named_modules():
        for one, other in _declared(module):
            a, b = _parameter(module, one), _parameter(module, other)
            if a is None or b is None or a is b or not (readable(a) and readable(b)) or a.data_ptr() == b.data_ptr():
                continue
            where = f"{prefix}.{one}".removeprefix(".")
            missing = subject.checkpoint is not None and where not in subject.checkpoint
            suffix = " The checkpoint does not contain it." if missing else ""
            message = f"`{one}` is declared as tied to `{other}`, but is a separate tensor with"
            owner = f"model.get_submodule({prefix!r})" if prefix else "model"
            if equal_bits(a.detach(), b.detach()):
                yield RULE.note(where, f"{message} equal values.{suffix}")
            else:
                fix = f"Assign `{owner}.{one} = {owner}.{other}`."
                yield RULE.error(where, f"{message} other values.{suffix}", fix)


def _declared(module: nn.Module) -> Iterator[tuple[str, str]]:
    """Yield the pairs of parameter names that the class of ``module`` declares as tied."""
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
    """Return the pairs of the older form of transformers: names only, all tied to the input embeddings."""
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
