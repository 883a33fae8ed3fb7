"""Autocast inside forward is for the device on which the program will run.

``with torch.autocast("cpu", torch.bfloat16)`` in ``forward`` is recorded with its device type and dtype, and moving the
program to another device does not change it there: a region for ``cpu`` does nothing on a GPU, so that what was proved
in bfloat16 runs in float32, and the reverse. An error where the case names a ``target_device`` of another type and the
code says the type itself, a warning where it follows the input (``x.device.type``: export on the target). A region
that fits is mentioned only: parity has proved it. Regions that switch autocast off are fine anywhere.

Bad:  ``with torch.autocast("cpu", torch.bfloat16):`` in ``forward``, ``target_device="cuda"``
Good: autocast around the call of the program, on the device where it runs
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import nn
from torch.export import ExportedProgram

from pytest_exportready.analysis.execution.pytree import flatten
from pytest_exportready.analysis.module.wrappers import unwrap
from pytest_exportready.analysis.program.autocast import enabled_regions
from pytest_exportready.analysis.source.bytecode import attributes_read, reached_from_forward
from pytest_exportready.case.finding import Finding, Rule
from pytest_exportready.checks._check import Check, Subject, nothing

RULE = Rule("ER141", "autocast_regions_fit")


def inspect_program(program: ExportedProgram, subject: Subject) -> Iterator[Finding]:
    used = {tensor.device.type for tensor in _tensors(program, subject)}
    target = torch.device(subject.target_device).type if subject.target_device else ""
    modules = dict(unwrap(subject.model)[0].named_modules())
    for region in dict.fromkeys(enabled_regions(program)):
        dtype = str(region.dtype).removeprefix("torch.")
        what = f'a region of autocast("{region.device_type}", {dtype}) is part of the program'
        place: dict[str, Any] = {"file": region.file, "line": region.line}
        where = region.modules[-1]
        fix = f'leave it out of forward, and enter torch.autocast("{target or region.device_type}") around the call'
        if target and region.device_type != target:
            fixed = any(_says(modules[name], region.device_type) for name in region.modules if name in modules)
            tell = RULE.error if fixed else RULE.warning
            yield tell(where, f"{what}, which does nothing on {target}: numbers there are other ones.", fix, **place)
        elif region.device_type not in used:
            kinds = ", ".join(sorted(used))
            yield RULE.warning(where, f"{what}, which does nothing on {kinds}, where it was exported.", fix, **place)
        else:
            yield RULE.note(where, f"{what}: it computes so whatever autocast is around it.", **place)


def _tensors(program: ExportedProgram, subject: Subject) -> Iterator[torch.Tensor]:
    yield from program.state_dict.values()
    yield from (leaf for leaf in flatten((subject.args, subject.kwargs))[0] if isinstance(leaf, torch.Tensor))


def _says(module: nn.Module, device_type: str) -> bool:
    """Whether ``forward`` names the device type itself, or is decorated, which cannot look at the input."""
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
