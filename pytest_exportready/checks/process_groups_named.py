"""Collectives of the program find their process group by a name that means the same in every process.

Why it matters:
    torch.export records a collective with torch's name of its group: a number, in the order in which this
    process created its groups. In the process that loads the program, another group may have that number.
    Nothing fails, and the results are wrong. `name_group` and the `exportable_*` collectives use a name of
    yours.

Severity:
    warning: a collective is recorded with a number.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import nn
from torch.export import ExportedProgram

from pytest_exportready.analysis.program.nodes import operator_name, place, source
from pytest_exportready.analysis.torch_internals.groups import functional_collectives
from pytest_exportready.case.finding import Finding, Rule
from pytest_exportready.case.wording import subject_of
from pytest_exportready.checks._check import Check, Subject, nothing
from pytest_exportready.transforms.collectives.groups import PREFIX, group_arguments

RULE = Rule("ER690", "process_groups_named")
_FORMS = {
    "all_reduce": "exportable_all_reduce(x, {group})",
    "all_gather_into_tensor": "exportable_all_gather(x, {group})",
    "reduce_scatter_tensor": "exportable_reduce_scatter(x, {group})",
    "all_to_all_single": "exportable_all_to_all(x, {group})",
    "broadcast": "exportable_broadcast(x, {group})",
}


def inspect_program(program: ExportedProgram, subject: Subject) -> Iterator[Finding]:
    loose = [(node, kept) for node, _, kept in group_arguments(program) if not kept.startswith(f"{PREFIX}/")]
    if loose:
        node, kept = loose[0]
        file, line = source(node)
        form = _FORMS.get(operator_name(node).rpartition("::")[2].rstrip("_"), "a collective of pytest_exportready")
        yield RULE.warning(
            place(node),
            f"{subject_of(len(loose), 'collective')} on process group {kept!r}, a number in this process. "
            "Where another group has that number, the results are wrong without an error.",
            f'Call `name_group("group", group)` in each process, and use `{form.format(group=repr("group"))}` in '
            f'`forward`; `bind_groups(program, {{{kept!r}: "group"}})` fixes an existing program.',
            file=file,
            line=line,
        )


class _Reduces(nn.Module):
    def __init__(self, group: str) -> None:
        super().__init__()
        self.group = group

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        ops = functional_collectives()
        reduced: torch.Tensor = ops.wait_tensor(ops.all_reduce(x, "sum", self.group))
        return reduced


CHECK = Check(
    rule=RULE,
    inspect=nothing,
    inspect_program=inspect_program,
    good=(
        lambda: Subject(_Reduces(f"{PREFIX}/data_parallel/2").eval(), (torch.ones(2),)),
        lambda: Subject(nn.Linear(2, 2).eval(), (torch.ones(2, 2),)),
    ),
    bad=(lambda: Subject(_Reduces("0").eval(), (torch.ones(2),)),),
)
