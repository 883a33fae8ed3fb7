from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

from pytest_exportready.checks._check import Subject
from pytest_exportready.checks.ties_kept import inspect


class Model(nn.Module):
    def __init__(self, tied: bool, says_tied: bool = True) -> None:
        super().__init__()
        self.emb, self.lm_head = nn.Embedding(4, 2), nn.Linear(2, 4, bias=False)
        self.config = SimpleNamespace(tie_word_embeddings=says_tied)
        if tied:
            self.lm_head.weight = self.emb.weight


class ByNames(Model):
    """transformers until 4"""

    _tied_weights_keys = ("lm_head.weight",)

    def get_input_embeddings(self) -> nn.Module:
        return self.emb

    def get_output_embeddings(self) -> nn.Module:
        return self.lm_head


class ByPairs(Model):
    """transformers from 5"""

    _tied_weights_keys = {"lm_head.weight": "emb.weight"}  # noqa: RUF012


class OfItsOwn(Model):
    TIED = [("lm_head.weight", "emb.weight")]  # noqa: RUF012


class OtherTable(Model):
    tied_to_disk = "yes"
    tied = [("no.such", "emb.weight"), ("emb.weight",), 3]  # noqa: RUF012

    def untied(self) -> None: ...


def judge(model: nn.Module) -> list[tuple[str, str]]:
    return [(f.severity, f.where) for f in inspect(Subject(model))]


@pytest.mark.parametrize("kind", [ByNames, ByPairs, OfItsOwn])
def test_a_declared_tie_is_kept_or_named(kind: Any) -> None:
    assert judge(kind(tied=True)) == []
    assert judge(nn.Sequential(kind(tied=False))) == [("error", "0.lm_head.weight")]


@pytest.mark.parametrize("kind", [ByNames, ByPairs])
def test_the_configuration_may_say_that_nothing_is_tied(kind: Any) -> None:
    assert judge(kind(tied=False, says_tied=False)) == []


def test_equal_values_are_a_note() -> None:
    model = ByPairs(tied=False)
    model.lm_head.weight = nn.Parameter(model.emb.weight.detach().clone())
    assert judge(model) == [("note", "lm_head.weight")]


def test_other_tables_are_not_ties() -> None:
    assert judge(OtherTable(tied=False)) == []


def test_the_fix_is_a_line_to_write() -> None:
    assert [f.fix for f in inspect(Subject(ByPairs(tied=False)))] == [
        "Assign `model.lm_head.weight = model.emb.weight`."
    ]
    (nested,) = inspect(Subject(nn.Sequential(ByPairs(tied=False))))
    assert "`model.get_submodule('0').lm_head.weight = model.get_submodule('0').emb.weight`" in nested.fix


def test_values_are_not_printed() -> None:
    model = ByPairs(tied=False)
    with torch.no_grad():
        model.emb.weight.fill_(1234.0)
    assert "1234" not in str(next(inspect(Subject(model))))
