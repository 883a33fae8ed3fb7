"""Collectives of a program find their process group by a name that means the same everywhere.

``torch.export`` records a collective, ``torch.distributed.all_reduce`` in forward included, with torch's own name of
its group: a number, in the order in which that process made its groups. Where the program is loaded another group may
have that number. Nothing fails then, and the results are wrong.

Bad:  ``torch.distributed.all_reduce(x)`` in ``forward``
Good: ``x = exportable_all_reduce(x, "data_parallel")``, with ``name_group("data_parallel", group)`` in each process
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import nn
from torch.export import ExportedProgram

from pytest_exportready.analysis.program.nodes import operator_name, place, source
from pytest_exportready.analysis.torch_internals.groups import functional_collectives
from pytest_exportready.case.finding import Finding, Rule
from pytest_exportready.case.wording import counted
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
            f"{counted(len(loose), 'collective')} on process group {kept!r}, which is torch's number for it in this "
            "process: loaded where another group has that number, the program gives wrong results and no error",
            f'name_group("group", group) in each process, and {form.format(group=repr("group"))} in forward; '
            f'bind_groups(program, {{{kept!r}: "group"}}) mends a program that is there already',
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
