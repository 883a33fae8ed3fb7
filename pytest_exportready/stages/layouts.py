"""Inputs in other layouts than the example's give the same numbers, or are refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from pytest_exportready.analysis.execution.compare import compare
from pytest_exportready.analysis.execution.pytree import distinct, flatten, map_tensors
from pytest_exportready.analysis.execution.trial import Observation, Trial
from pytest_exportready.analysis.module.snapshot import preserved
from pytest_exportready.case import facts
from pytest_exportready.case.finding import Rule
from pytest_exportready.stages._stage import SkipStage, Stage

AGREES = Rule(
    "ER606",
    "agrees_in_other_layouts",
    "A program may be handed its inputs in another memory layout than the example had: channels_last images, "
    "transposed and sliced tensors. It must give the same or refuse them. as_strided with numbers, and a branch on "
    "is_contiguous() or stride(), are recorded as they were for the example.",
)


def run(trial: Trial) -> Iterator[Observation]:
    assert trial.program is not None
    if trial.case.stateful_calls:
        raise SkipStage("the module has state: its calls are compared as one sequence")
    call = (tuple(trial.case.args), dict(trial.case.kwargs))
    program = trial.program.module()
    compared: list[str] = []
    for name, laid_out in LAYOUTS.items():
        strides = [leaf.stride() for leaf in _tensors(call)]
        if [leaf.stride() for leaf in _tensors(map_tensors(laid_out, call))] == strides:
            continue
        try:
            expected = _answer(trial.reference.module, laid_out, call)
            actual = _answer(program, laid_out, call)
        except Exception:
            continue  # refused, by the module or by the program
        compared.append(name)
        result = compare(expected, actual, trial.tolerance)
        if not result.agree:
            yield AGREES.error(
                "",
                f"with {name} inputs the program ({trial.mode}) gives other numbers than the trained module, "
                f"{result.where}: {result.problem}",
                "begin forward with x = x.contiguous(), and do not ask for stride() or is_contiguous() in it",
            )
    yield {facts.LAYOUTS: compared}


def channels_last(tensor: Tensor) -> Tensor:
    """A batch of images with its channels last; one that has them so, contiguous."""
    if tensor.dim() != 4:
        return tensor
    other = torch.channels_last if tensor.is_contiguous() else torch.contiguous_format
    return tensor.contiguous(memory_format=other)


def transposed(tensor: Tensor) -> Tensor:
    """The same values, with the last two dimensions the other way round in memory."""
    return tensor.transpose(-1, -2).contiguous().transpose(-1, -2) if tensor.dim() > 1 else tensor


def sliced(tensor: Tensor) -> Tensor:
    """The same values, as every other one of a larger tensor."""
    return torch.stack([tensor, tensor], -1)[..., 0] if tensor.dim() else tensor


LAYOUTS: dict[str, Callable[[Tensor], Tensor]] = {
    "channels_last": channels_last,
    "transposed": transposed,
    "sliced": sliced,
}


def _tensors(call: Any) -> list[Tensor]:
    return [leaf for leaf in flatten(call)[0] if isinstance(leaf, Tensor) and leaf.layout == torch.strided]


def _answer(module: nn.Module, laid_out: Callable[[Tensor], Tensor], call: Any) -> Any:
    """A copy of a sliced tensor is whole again: what is laid out is handed over as it is."""
    args, kwargs = map_tensors(lambda t: laid_out(t) if t.layout == torch.strided else t, distinct(call))
    with preserved(module), torch.no_grad():
        if not isinstance(module, torch.fx.GraphModule):
            module.eval()
        return distinct(module(*args, **kwargs))


STAGE = Stage(run, rules=(AGREES,), after=("parity",))
