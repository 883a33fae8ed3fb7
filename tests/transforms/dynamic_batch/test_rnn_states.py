"""A recurrent operator runs only with states for the rows of its input: it does not look, and reads past their end."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from pytest_exportready.transforms.dynamic_batch.rnn_states import states_fit

ROWS = 7  # the stand-in batch


@pytest.mark.filterwarnings("ignore:The tensor attributes")
@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize(("states", "fit"), [((2, ROWS, 3), True), ((2, 2, 3), False), ((ROWS, ROWS, 3), False)])
def test_states_fit(kind: type[nn.RNNBase], batch_first: bool, states: tuple[int, ...], fit: bool) -> None:
    program = torch.export.export(kind(4, 3, num_layers=2, batch_first=batch_first).eval(), (torch.ones(2, 2, 4),))
    node = next(node for node in program.graph.nodes if node.args and isinstance(node.args[-1], bool))
    rows = torch.ones((ROWS, 5, 4) if batch_first else (5, ROWS, 4))
    given = [torch.ones(states)] * 2 if kind is nn.LSTM else torch.ones(states)
    assert states_fit(node, (rows, given, *node.args[2:]), node.kwargs, ROWS) is fit
    alone = torch.ones(2, 2, 4)
    assert states_fit(node, (alone, given, *node.args[2:]), node.kwargs, ROWS) is (states == (2, 2, 3))


def test_other_operators_have_no_states() -> None:
    program = torch.export.export(nn.Linear(4, 3), (torch.ones(2, 4),))
    node = next(node for node in program.graph.nodes if node.op == "call_function")
    assert states_fit(node, node.args, node.kwargs, ROWS)
