"""Inputs in other memory layouts than that of the example give the same outputs, or are refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from pytest_exportready.analysis.execution.compare import compare
from pytest_exportready.analysis.execution.pytree import distinct, map_tensors, tensors
from pytest_exportready.analysis.execution.trial import Observation, Trial
from pytest_exportready.analysis.module.snapshot import preserved
from pytest_exportready.case import facts
from pytest_exportready.case.finding import Rule
from pytest_exportready.stages._stage import SkipStage, Stage

AGREES = Rule(
    "ER606",
    "agrees_in_other_layouts",
    """The program gives the same outputs for inputs in other memory layouts, or refuses them.

    Tried are channels_last, transposed and sliced inputs with the values of the example.

    Why it matters:
        `as_strided` with numbers, and branches on `is_contiguous()` or `stride()`, are recorded for the
        layout of the example.

    Example:
        class Net(nn.Module):
            def forward(self, x):
                return x * 2 if x.is_contiguous() else x * 3

        export_ready_check(Net().eval(), (torch.randn(2, 3, 4, 4),))

    Instead:
        class Net(nn.Module):
            def forward(self, x):
                return x.contiguous() * 2

        export_ready_check(Net().eval(), (torch.randn(2, 3, 4, 4),))

    Severity:
        error: an output differs.

    Not reported:
        Layouts that the eager module or the program refuses. A module with state.
    """,
)


def run(trial: Trial) -> Iterator[Observation]:
    assert trial.program is not None
    if trial.case.stateful_calls:
        raise SkipStage("the calls of a module with state are compared as one sequence")
    call, program = trial.call, trial.program.module()
    compared: list[str] = []
    for name, layout in LAYOUTS.items():
        if _strides(map_tensors(layout, call)) == _strides(call):
            continue
        try:
            expected = _output(trial.reference.module, layout, call)
            actual = _output(program, layout, call)
        except Exception:
            continue  # refused by the module or the program
        compared.append(name)
        result = compare(expected, actual, trial.tolerance)
        if not result.agree:
            yield AGREES.error(
                result.where,
                f"The program differs from the eager module on {name} inputs{trial.in_mode}: {result.problem}.",
                "Begin `forward` with `x = x.contiguous()`, and do not call `stride()` or `is_contiguous()` in it.",
            )
    yield {facts.LAYOUTS: compared}


def channels_last(tensor: Tensor) -> Tensor:
    """Return a batch of images in channels_last; in contiguous format if it is in channels_last already."""
    if tensor.dim() != 4:
        return tensor
    other = torch.channels_last if tensor.is_contiguous() else torch.contiguous_format
    return tensor.contiguous(memory_format=other)


def transposed(tensor: Tensor) -> Tensor:
    """Return the same values with the last two dimensions exchanged in memory."""
    return tensor.transpose(-1, -2).contiguous().transpose(-1, -2) if tensor.dim() > 1 else tensor


def sliced(tensor: Tensor) -> Tensor:
    """Return the same values as every second element of a larger tensor."""
    return torch.stack([tensor, tensor], -1)[..., 0] if tensor.dim() else tensor


LAYOUTS: dict[str, Callable[[Tensor], Tensor]] = {
    "channels_last": channels_last,
    "transposed": transposed,
    "sliced": sliced,
}


def _strides(call: Any) -> list[tuple[int, ...]]:
    return [tensor.stride() for tensor in tensors(call) if tensor.layout == torch.strided]


def _output(module: nn.Module, layout: Callable[[Tensor], Tensor], call: Any) -> Any:
    """Run ``module``. The inputs are laid out after they are copied, as copies of sliced tensors are contiguous."""
    args, kwargs = map_tensors(lambda t: layout(t) if t.layout == torch.strided else t, distinct(call))
    with preserved(module), torch.no_grad():
        if not isinstance(module, torch.fx.GraphModule):
            module.eval()
        return distinct(module(*args, **kwargs))


STAGE = Stage(run, rules=(AGREES,), after=("parity",))
