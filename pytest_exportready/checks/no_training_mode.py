"""No module whose behavior depends on the mode is exported in training mode.

Why it matters:
    torch.export records what a module does in its current mode. Dropout in training mode stays on in the
    program, and `ep.module().eval()` raises. Nothing fails, and one random pass may even look right. The
    exported program is checked too: `F.dropout(x)` trains by default, whatever the mode of the module.

Example:
    model = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5))
    export_ready_check(model, (torch.ones(2, 4),))

Instead:
    model = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5)).eval()
    export_ready_check(model, (torch.ones(2, 4),))

Severity:
    error: modules read `self.training`, or the model behaves differently in eval mode on the example inputs.
    warning: modules read `self.training`, but nothing differs on the example inputs.
    note: modules are in training mode, but none depends on it.

Not reported:
    Settings that make the mode irrelevant, such as `Dropout(0)`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn
from torch.export import ExportedProgram

from pytest_exportready.analysis.execution.detectors.train_eval_difference import mode_shows
from pytest_exportready.analysis.module.mode_sensitivity import mode_sensitive
from pytest_exportready.analysis.program.nodes import calls, declares, is_users_operator, operator_name, owners, source
from pytest_exportready.analysis.program.training_flags import FLAGS, training_flag
from pytest_exportready.case.finding import Finding, Rule
from pytest_exportready.case.wording import counted, few, subject_of
from pytest_exportready.checks._check import Check, Subject

RULE = Rule("ER301", "no_training_mode")
_FIX = "Call `model.eval()` before exporting."


def inspect(subject: Subject) -> Iterator[Finding]:
    model = subject.module
    training = {name: module for name, module in model.named_modules() if module.training}
    sensitive = {name: module for name, module in training.items() if mode_sensitive(module)}
    if not training:
        return
    known = any(type(module).forward.__module__.startswith("torch.") for module in sensitive.values())
    shows = True if known else mode_shows(model, subject.call)
    if sensitive:
        children_first = sorted(sensitive, key=lambda name: not name)
        named = few(f"{name or '(root)'} ({type(sensitive[name]).__name__})" for name in children_first)
        count = f"{subject_of(len(sensitive), 'module')} in training mode"
        if shows is False:
            message = f"{count} and read `self.training`, but nothing differs on the example inputs: {named}."
            yield RULE.warning(children_first[0], message, _FIX)
        else:
            yield RULE.error(children_first[0], f"{count}, where results differ from eval mode: {named}.", _FIX)
        return
    count = f"{subject_of(len(training), 'module')} in training mode"
    if shows:
        yield RULE.error("", f"{count}, and the model behaves differently in eval mode on the example inputs.", _FIX)
    else:
        yield RULE.note(next(iter(training)), f"{count}, but none behaves differently in eval mode.")


def inspect_program(program: ExportedProgram, subject: Subject) -> Iterator[Finding]:
    same: dict[tuple[Any, str, str, int], list[torch.fx.Node]] = {}
    for node in calls(program):
        if flag := training_flag(node):
            same.setdefault((node.target, flag, *source(node)), []).append(node)
    for (_, flag, file, line), nodes in same.items():
        times = f", {len(nodes)} calls" if len(nodes) > 1 else ""
        yield RULE.error(
            owners(nodes),
            f"`{operator_name(nodes[0])}` is in training mode in the program (argument `{flag}`{times}). "
            "The module was exported in eval mode.",
            _fix(nodes[0], flag),
            file=file,
            line=line,
        )


def _fix(node: torch.fx.Node, flag: str) -> str:
    if flag not in FLAGS:
        return f"Pass `{flag}=p if self.training else 0.0`."
    if is_users_operator(node):
        return f"Pass `{flag}=self.training`."
    if flag == "use_input_stats" or declares(node, "running_mean"):
        return "Pass `training=self.training` (`use_input_stats=` of `F.instance_norm`), or use the `nn` module."
    return "Pass `training=self.training`, as in `F.dropout(x, p, self.training)`, or use the `nn` module."


def remedy(subject: Subject) -> list[str]:
    training = [name for name, module in subject.model.named_modules() if module.training]
    try:
        subject.model.eval()
    except NotImplementedError:  # the module of an ExportedProgram has one mode only
        return []
    return [f"Called `model.eval()`: {counted(len(training), 'module')} left training mode."] if training else []


class _Functional(nn.Module):
    def __init__(self, respects_mode: bool) -> None:
        super().__init__()
        self.respects_mode = respects_mode

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.dropout(x, 0.5, self.training) if self.respects_mode else F.dropout(x, 0.5)


CHECK = Check(
    rule=RULE,
    inspect=inspect,
    inspect_program=inspect_program,
    remedy=remedy,
    good=(
        lambda: Subject(nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5)).eval(), (torch.ones(2, 4),)),
        lambda: Subject(nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.0)), (torch.ones(2, 4),)),
        lambda: Subject(_Functional(respects_mode=True).eval(), (torch.ones(2, 4),)),
        lambda: Subject(nn.InstanceNorm1d(3).eval(), (torch.ones(2, 3, 4),)),
    ),
    bad=(
        lambda: Subject(nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5)), (torch.ones(2, 4),)),
        lambda: Subject(_Functional(respects_mode=False).eval(), (torch.ones(2, 4),)),
    ),
)
