"""The adapter on modules that it was not written on: it gives what the module gives, or refuses by line."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from independent import INDEPENDENT, Written
from independent_set_aside import SET_ASIDE

from pytest_exportready import NotBatchDynamic, make_batch_dynamic
from pytest_exportready.analysis.execution.pytree import flatten

REFUSED = {
    # The rows influence each other, or depend on their place or on how many they are.
    "divided_by_batch",
    "scaled_by_root_of_batch",
    "centred_over_the_batch",
    "other_way_for_large_batches",
    "rolled_over_the_batch",
    "summed_down_the_batch",
    "ramp_along_the_batch",
    "row_number_added",
    "compared_with_each_other",
    "squeezed_where_alone",
    "pairs_of_rows",
    "loss_over_the_batch",
    # They do not, and it cannot be done or is not proved.
    "row_after_row",
    "counts_its_calls",
    "anchors_as_many_as_rows",
    "convolved_with_filters_of_its_own",
    "padded_to_a_multiple",
    "stacked_by_a_loop",
}


@pytest.mark.filterwarnings("ignore:The tensor attributes")
@pytest.mark.parametrize("written", [*INDEPENDENT, *SET_ASIDE], ids=lambda written: written.name)
def test_right_or_refused(written: Written) -> None:
    torch.manual_seed(1)
    module = written.module()
    program = torch.export.export(written.module(), written.inputs(written.at))
    if written.name in REFUSED:
        with pytest.raises(NotBatchDynamic) as refused:
            make_batch_dynamic(program, written.batch_dim)
        assert refused.value.node
        assert (refused.value.file, refused.value.line > 0) == (written.forward.__code__.co_filename, True)
        return
    adapted = make_batch_dynamic(program, written.batch_dim).module()
    for batch in (1, 2, 7, 33):
        inputs = written.inputs(batch)
        torch.testing.assert_close(_answer(adapted, inputs), _answer(module, inputs), rtol=1e-4, atol=1e-5)


def _answer(module: torch.nn.Module, inputs: tuple[Any, ...]) -> list[Any]:
    with torch.no_grad():
        leaves: list[Any] = flatten(module(*copy.deepcopy(inputs)))[0]
    return leaves
