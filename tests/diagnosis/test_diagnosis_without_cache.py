"""A cache among the outputs: the argument that was tried, and a wrapper that exports."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from pytest_exportready import export_ready_check


class EncoderDecoderCache:
    def get_seq_length(self) -> int:
        return 1


class Seq2Seq(nn.Module):
    """As in T5: the decoder has its own copy of the configuration, so that only the argument reaches it."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)
        self.config, self.of_decoder = SimpleNamespace(use_cache=True), SimpleNamespace(use_cache=True)

    def forward(self, ids: Tensor, decoder_ids: Tensor, use_cache: bool | None = None) -> dict[str, Any]:
        use_cache = self.of_decoder.use_cache if use_cache is None else use_cache
        output = {"empty": None, "logits": self.linear(ids) + decoder_ids}
        return {**output, "past": EncoderDecoderCache()} if use_cache else output


class Stubborn(Seq2Seq):
    """Takes no such argument."""

    def forward(self, ids: Tensor, decoder_ids: Tensor) -> dict[str, Any]:  # type: ignore[override]
        return super().forward(ids, decoder_ids)


@pytest.mark.parametrize(("model", "argument"), [(Seq2Seq(), True), (Stubborn(), False)], ids=["takes it", "does not"])
def test_the_wrapper_in_the_fix_is_ready(model: nn.Module, argument: bool) -> None:
    """As it is written; and use_cache=False is given where the model takes it and it was seen to help."""
    torch.manual_seed(0)
    args, kwargs = (torch.randn(2, 3),), {"decoder_ids": torch.randn(2, 3)}
    (finding,) = export_ready_check(model.eval(), args, example_kwargs=kwargs, stages=["export"]).errors
    assert finding.code == "ER426"
    advice, _, code = finding.fix.partition("Or wrap the model:\n")
    assert ("example_kwargs" in advice) is argument
    assert ("use_cache=False)" in code) is argument
    names: dict[str, Any] = {"torch": torch}
    exec(code, names)
    wrapped = names["ForExport"](model).eval()
    assert export_ready_check(wrapped, args, example_kwargs=kwargs, stages=["parity"]).ready
    if argument:
        assert export_ready_check(model, args, example_kwargs={**kwargs, "use_cache": False}, stages=["parity"]).ready


def test_a_wrapper_too_long_for_a_message_is_described() -> None:
    """Never half a class."""
    names = [f"a_rather_long_name_of_an_input_number_{n}" for n in range(12)]

    class Wide(Seq2Seq):
        def forward(self, use_cache: bool | None = None, **inputs: Tensor) -> dict[str, Any]:  # type: ignore[override]
            first, second, *_ = inputs.values()
            return super().forward(first, second, use_cache)

    kwargs = {name: torch.randn(2, 3) for name in names}
    (finding,) = export_ready_check(Wide().eval(), (), example_kwargs=kwargs, stages=["export"]).errors
    assert "class ForExport" not in finding.fix
    assert finding.fix.endswith("wrap the model and return the tensors that you need.")
