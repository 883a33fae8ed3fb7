"""Autocast regions inside `forward` are for the device type on which the program will run.

Why it matters:
    torch.export records the device type and the dtype of the region; moving the program does not change them.
    A region for `cpu` has no effect on a GPU: what was compared in bfloat16 runs there in float32.

Example:
    class Net(nn.Module):
        def forward(self, x):
            with torch.autocast("cpu", torch.bfloat16):
                return x @ x.T

    export_ready_check(Net(), (torch.randn(4, 4),), target_device="cuda")

Instead:
    class Net(nn.Module):
        def forward(self, x):
            return x @ x.T

    export_ready_check(Net(), (torch.randn(4, 4),), target_device="cuda")

Severity:
    error: `target_device` has another type, and the code names the type itself.
    warning: the type follows the input (`x.device.type`), or no tensor of the model or the inputs is on it.
    note: the region fits; the outputs are compared with it.

Not reported:
    Regions that disable autocast.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import nn
from torch.export import ExportedProgram

from pytest_exportready.analysis.execution.pytree import flatten
from pytest_exportready.analysis.program.autocast import enabled_regions
from pytest_exportready.analysis.source.bytecode import attributes_read, reached_from_forward
from pytest_exportready.case.finding import Finding, Rule
from pytest_exportready.checks._check import Check, Subject, nothing

RULE = Rule("ER141", "autocast_regions_fit")


def inspect_program(program: ExportedProgram, subject: Subject) -> Iterator[Finding]:
    used = {tensor.device.type for tensor in _tensors(program, subject)}
    target = torch.device(subject.target_device).type if subject.target_device else ""
    modules = dict(subject.module.named_modules())
    for region in dict.fromkeys(enabled_regions(program)):
        dtype = str(region.dtype).removeprefix("torch.")
        what = f'`torch.autocast("{region.device_type}", {dtype})` in `forward`'
        place: dict[str, Any] = {"file": region.file, "line": region.line}
        where = region.modules[-1]
        fix = f'Remove the region, and enter `torch.autocast("{target or region.device_type}")` around the call.'
        if target and region.device_type != target:
            fixed = any(_names_device(modules[name], region.device_type) for name in region.modules if name in modules)
            message = f"{what} has no effect on {target}. Results there will differ."
            yield RULE.report("error" if fixed else "warning", where, message, fix, **place)
        elif region.device_type not in used:
            kinds = ", ".join(sorted(used))
            yield RULE.warning(where, f"{what} has no effect on {kinds}, where it was exported.", fix, **place)
        else:
            yield RULE.note(where, f"{what} is part of the program, whatever autocast is around the call.", **place)


def _tensors(program: ExportedProgram, subject: Subject) -> Iterator[torch.Tensor]:
    yield from program.state_dict.values()
    yield from (leaf for leaf in flatten(subject.call)[0] if isinstance(leaf, torch.Tensor))


def _names_device(module: nn.Module, device_type: str) -> bool:
    """Return whether ``forward`` names the device type itself, or is decorated, which cannot look at the input."""
    decorated = hasattr(module.forward, "__wrapped__") and not type(module).__module__.startswith("torch.")
    return decorated or any(device_type in attributes_read(code) for code in reached_from_forward(type(module)))


class _Mixed(nn.Module):
    def __init__(self, enabled: bool = True) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.enabled = enabled

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", torch.bfloat16, self.enabled):
            return self.linear(x).float()  # type: ignore[no-any-return]


def _net(target: str | None, enabled: bool = True) -> Subject:
    return Subject(_Mixed(enabled).eval(), (torch.ones(2, 4),), target_device=target)


CHECK = Check(
    rule=RULE,
    inspect=nothing,
    inspect_program=inspect_program,
    good=(lambda: _net(None), lambda: _net("cpu"), lambda: _net("cuda", enabled=False)),
    bad=(lambda: _net("cuda"),),
)
