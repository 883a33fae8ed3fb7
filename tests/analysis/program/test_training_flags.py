"""An operator that does what belongs to training is told by the names of its arguments, whoever registered it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pytest_exportready.analysis.program.nodes import calls, is_users_operator, place
from pytest_exportready.analysis.program.training_flags import training_flag

LIBRARY = torch.library.Library("training_flags", "DEF")
SCHEMAS = (
    "attention(Tensor x, float dropout_p, bool training) -> Tensor",
    "flash(Tensor x, float dropout_p) -> Tensor",
    "center(Tensor x, bool is_training) -> Tensor",
    "batch_stats(Tensor x, Tensor? running_mean, bool training) -> Tensor",
    "draw(Tensor x, float p) -> Tensor",
)
for schema in SCHEMAS:
    LIBRARY.define(schema)
    LIBRARY.impl(schema.partition("(")[0], lambda x, *rest: x * 2, "CompositeExplicitAutograd")
OPS = torch.ops.training_flags


class Inner(nn.Module):
    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x)


def flags(function: Callable[[Tensor], Tensor]) -> list[str]:
    program = torch.export.export(nn.Sequential(Inner(function)).eval(), (torch.ones(2, 3, 4),))
    return [flag for node in calls(program) if (flag := training_flag(node))]


TRAINING = {
    "flag of the user's": (lambda x: OPS.center(x, True), "is_training"),
    "flag and probability": (lambda x: OPS.attention(x, 0.1, True), "training"),
    "probability alone": (lambda x: OPS.flash(x, 0.1), "dropout_p"),
    "statistics of the user's": (lambda x: OPS.batch_stats(x, x, True), "training"),
    "native_dropout": (lambda x: torch.native_dropout(x, 0.1, True)[0], "train"),
    "native_batch_norm": (
        lambda x: torch.native_batch_norm(x, None, None, torch.zeros(3), torch.ones(3), True, 0.1, 1e-5)[0],
        "training",
    ),
    "feature_alpha_dropout": (lambda x: F.feature_alpha_dropout(x, 0.1, True), "train"),
    "sdpa": (lambda x: F.scaled_dot_product_attention(x, x, x, dropout_p=0.2), "dropout_p"),
    "lstm": (
        lambda x: torch.lstm(
            x,
            [torch.zeros(2, 3, 2)] * 2,
            [torch.ones(8, 4), torch.ones(8, 2), torch.ones(8, 2), torch.ones(8, 2)],
            False,
            2,
            0.3,
            True,
            False,
            False,
        )[0],
        "train",
    ),
}
NOT_TRAINING = {
    "flag of the user's off": lambda x: OPS.center(x, False),
    "probability with the flag off": lambda x: OPS.attention(x, 0.1, False),
    "flag on, probability 0": lambda x: OPS.attention(x, 0.0, True),
    "probability 0": lambda x: OPS.flash(x, 0.0),
    "the batch's own statistics": lambda x: OPS.batch_stats(x, None, True),
    "p is no dropout": lambda x: OPS.draw(x, 0.5),
    "vector norm of order p": lambda x: torch.norm(x, 0.5),
    "functional batch_norm without statistics": lambda x: F.batch_norm(x, None, None, training=True),
}


@pytest.mark.parametrize(("function", "flag"), TRAINING.values(), ids=TRAINING)
def test_training(function: Callable[[Tensor], Tensor], flag: str) -> None:
    assert flags(function) == [flag]


@pytest.mark.parametrize("function", NOT_TRAINING.values(), ids=NOT_TRAINING)
def test_not_training(function: Callable[[Tensor], Tensor]) -> None:
    assert flags(function) == []


def test_the_users_operator_is_part_of_the_place() -> None:
    program = torch.export.export(nn.Sequential(Inner(lambda x: OPS.flash(x, 0.1) + 1)).eval(), (torch.ones(2),))
    assert [(is_users_operator(node), place(node)) for node in calls(program)] == [
        (True, "0 (training_flags::flash)"),
        (False, "0"),
    ]
