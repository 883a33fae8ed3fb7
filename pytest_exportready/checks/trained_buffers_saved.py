"""A buffer that training changes is in the state dict.

Why it matters:
    `register_buffer(..., persistent=False)` keeps a buffer out of the state dict. That is right for what
    `__init__` can compute again (a mask, rotary frequencies). If training writes it, the checkpoint lacks it,
    and a new model that loads the checkpoint has the initial values. One forward in training mode shows which
    buffers are written.

Example:
    class Scaled(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("scale", torch.ones(2), persistent=False)

        def forward(self, x):
            if self.training:
                self.scale = 0.9 * self.scale + 0.1 * x.abs().amax(0)
            return x / self.scale

    export_ready_check(Scaled().eval(), (torch.full((1, 2), 3.0),))

Instead:
    class Scaled(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("scale", torch.ones(2))

        def forward(self, x):
            if self.training:
                self.scale = 0.9 * self.scale + 0.1 * x.abs().amax(0)
            return x / self.scale

    export_ready_check(Scaled().eval(), (torch.full((1, 2), 3.0),))

Severity:
    error: `forward` writes a non-persistent buffer in training mode, and not in eval mode.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import nn

from pytest_exportready.analysis.execution.call import run
from pytest_exportready.analysis.execution.global_state import global_state_kept
from pytest_exportready.analysis.module.snapshot import equal_bits, preserved
from pytest_exportready.analysis.module.tensor_values import readable
from pytest_exportready.analysis.source.bytecode import attributes_read, attributes_written, reached_from_forward
from pytest_exportready.analysis.torch_internals.modules import is_persistent
from pytest_exportready.case.finding import Finding, Rule
from pytest_exportready.case.wording import counted, few
from pytest_exportready.checks._check import Check, Subject

RULE = Rule("ER314", "trained_buffers_saved")


def inspect(subject: Subject) -> Iterator[Finding]:
    model = subject.module
    names = [name for name in _not_saved(model) if name not in (subject.checkpoint or {})]
    if not names:
        return
    trained = _written(model, names, subject, training=True)
    lost = [name for name in names if name in trained and name not in _written(model, names, subject, training=False)]
    if lost:
        keys = list(dict.fromkeys(name.rpartition(".")[2] for name in lost))
        yield RULE.error(
            lost[0],
            f"Training writes {counted(len(lost), 'buffer')} that the state dict lacks (`persistent=False`): "
            f"{few(lost)}. A new model that loads the checkpoint has the initial values.",
            f'Use `self.register_buffer("{keys[0]}", ...)` without `persistent=False`, and save the checkpoint again.',
        )


def _not_saved(model: nn.Module) -> Iterator[str]:
    """Yield the non-persistent buffers that code which reads the mode may write."""
    for prefix, module in model.named_modules():
        for key, buffer in module.named_buffers(recurse=False):
            if not is_persistent(module, key) and readable(buffer) and _may_write(type(module), key):
                yield f"{prefix}.{key}".removeprefix(".")


def _may_write(kind: type, key: str) -> bool:
    reached = list(reached_from_forward(kind))
    mentioned = any(key in attributes_read(code) | attributes_written(code) for code in reached)
    return mentioned and any("training" in attributes_read(code) for code in reached)


def _written(model: nn.Module, names: list[str], subject: Subject, *, training: bool) -> set[str]:
    before = {name: model.get_buffer(name).detach().clone() for name in names}
    try:
        with preserved(model), global_state_kept():
            run(model.train(training), [subject.call])
            return {name for name in names if not equal_bits(before[name], model.get_buffer(name).detach())}
    except Exception:
        return set()  # forward does not run in training mode on these inputs


class _Scaled(nn.Module):
    def __init__(self, persistent: bool, trained: bool = True) -> None:
        super().__init__()
        self.scale: torch.Tensor
        self.register_buffer("scale", torch.ones(2), persistent=persistent)
        self.trained = trained

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.training and self.trained:
            self.scale = 0.9 * self.scale + 0.1 * x.abs().amax(0)
        return x / self.scale


def _net(persistent: bool, trained: bool = True) -> Subject:
    return Subject(_Scaled(persistent, trained).eval(), (torch.full((1, 2), 3.0),))


CHECK = Check(
    rule=RULE,
    inspect=inspect,
    good=(lambda: _net(persistent=True), lambda: _net(persistent=False, trained=False)),
    bad=(lambda: _net(persistent=False),),
)
