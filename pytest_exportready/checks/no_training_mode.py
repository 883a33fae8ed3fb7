"""No module that behaves differently in training is exported in training mode.

``torch.export`` records what a module does at that moment: a dropout in training mode becomes a dropout
that is on for ever, and the program cannot be switched afterwards (``ep.module().eval()`` raises). Nothing
fails, and one random pass may even look right. Found are modules left in training mode whose class reads
``self.training`` (settings that make it harmless count: ``Dropout(0)``), and, in the exported program, operators that
say training although every module was in eval mode: ``F.dropout(x)`` is on by default. Where the example inputs show
that nothing is answered, written or drawn otherwise, it is a warning; with nothing sensitive in it, only a mention.

Bad:  ``export(model)`` straight after training, or ``F.dropout(x, 0.1)`` in ``forward``
Good: ``export(model.eval())``, and ``F.dropout(x, 0.1, self.training)``
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
from pytest_exportready.analysis.module.wrappers import unwrap
from pytest_exportready.analysis.program.nodes import calls, declares, is_users_operator, operator_name, owners, source
from pytest_exportready.analysis.program.training_flags import FLAGS, training_flag
from pytest_exportready.case.finding import Finding, Rule
from pytest_exportready.case.wording import counted, few
from pytest_exportready.checks._check import Check, Subject

RULE = Rule("ER301", "no_training_mode")
FIX = "model.eval() before the export"


def inspect(subject: Subject) -> Iterator[Finding]:
    model = unwrap(subject.model)[0]
    training = {name: module for name, module in model.named_modules() if module.training}
    sensitive = {name: module for name, module in training.items() if mode_sensitive(module)}
    if not training:
        return
    known = any(type(module).forward.__module__.startswith("torch.") for module in sensitive.values())
    shows = True if known else mode_shows(model, (subject.args, subject.kwargs))
    if sensitive:
        children_first = sorted(sensitive, key=lambda name: not name)
        named = few(f"{name or '(root)'} ({type(sensitive[name]).__name__})" for name in children_first)
        count = f"{counted(len(sensitive), 'module')} left in training mode"
        if shows is False:
            same = "and these read self.training, though nothing changes on the example inputs"
            yield RULE.warning(children_first[0], f"{count}, {same}: {named}.", FIX)
        else:
            yield RULE.error(children_first[0], f"{count}, where the result differs from eval mode: {named}.", FIX)
    elif shows:
        yield RULE.error(
            "",
            f"{counted(len(training), 'module')} left in training mode, and on the example inputs the model does not "
            "what it does in eval mode.",
            FIX,
        )
    else:
        yield RULE.note(
            next(iter(training)),
            f"{counted(len(training), 'module')} in training mode, none of which behaves differently in it.",
        )


def inspect_program(program: ExportedProgram, subject: Subject) -> Iterator[Finding]:
    alike: dict[tuple[Any, str, str, int], list[torch.fx.Node]] = {}
    for node in calls(program):
        if flag := training_flag(node):
            alike.setdefault((node.target, flag, *source(node)), []).append(node)
    for (_, flag, file, line), nodes in alike.items():
        times = f" ({len(nodes)} calls)" if len(nodes) > 1 else ""
        yield RULE.error(
            owners(nodes),
            f"{operator_name(nodes[0])} says training in the program, by its argument {flag}{times}, although the "
            "module was exported in eval mode.",
            _fix(nodes[0], flag),
            file=file,
            line=line,
        )


def _fix(node: torch.fx.Node, flag: str) -> str:
    if flag not in FLAGS:
        return f"{flag}=p if self.training else 0.0"
    if is_users_operator(node):
        return f"pass {flag}=self.training"
    if flag == "use_input_stats" or declares(node, "running_mean"):
        return "pass self.training (F.batch_norm: training=, F.instance_norm: use_input_stats=), or use the nn module"
    return "pass training=self.training, as in F.dropout(x, p, self.training), or use the nn module"


def remedy(subject: Subject) -> list[str]:
    training = [name for name, module in subject.model.named_modules() if module.training]
    try:
        subject.model.eval()
    except NotImplementedError:  # the module of an ExportedProgram has one mode only
        return []
    return [f"model.eval(): {counted(len(training), 'module')} left training mode"] if training else []


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
