"""Half precision keeps the values of buffers that count.

Why it matters:
    `model.half()` converts every floating-point buffer. Position ids or counts stored as floats lose their
    last digits above 2048 in float16 and 256 in bfloat16, so that neighbors become equal. Nothing fails, and
    the exported program agrees with the eager module.

Example:
    class Positions(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("positions", torch.arange(4096.0))

        def forward(self, x):
            return x + self.positions[: x.shape[0]]

    export_ready_check(Positions().half(), (torch.ones(8).half(),))

Instead:
    class Positions(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("positions", torch.arange(4096))

        def forward(self, x):
            return x + self.positions[: x.shape[0]]

    export_ready_check(Positions().half(), (torch.ones(8).half(),))

Severity:
    error: a half-precision buffer counts in steps of one up to that limit, and not beyond it.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import nn

from pytest_exportready.analysis.module.tensor_values import readable
from pytest_exportready.case.finding import Finding, Rule
from pytest_exportready.case.wording import few
from pytest_exportready.checks._check import Check, Subject

RULE = Rule("ER211", "dtypes_keep_values")

# Largest n up to which every integer has a value of its own: 2 ** (bits of the significand).
EXACT_UP_TO = {torch.float16: 2048, torch.bfloat16: 256}


def inspect(subject: Subject) -> Iterator[Finding]:
    halves = {n: b for n, b in subject.module.named_buffers() if b.dtype in EXACT_UP_TO and readable(b)}
    lost = [name for name, buffer in halves.items() if _lost_count(buffer)]
    if lost:
        limit = EXACT_UP_TO[halves[lost[0]].dtype]
        yield RULE.error(
            lost[0],
            f"{few(lost)}: {str(halves[lost[0]].dtype).removeprefix('torch.')} cannot hold all integers above {limit}, "
            "so that different values became equal.",
            f'Keep integers: `self.register_buffer("{lost[0].rpartition(".")[2]}", torch.arange(n))`.',
        )


def _lost_count(buffer: torch.Tensor) -> bool:
    limit = EXACT_UP_TO[buffer.dtype]
    if buffer.layout is not torch.strided or buffer.numel() <= limit:
        return False
    values = buffer.detach().flatten()[: 4 * limit].float()  # enough to see it count, and stop
    ones = values.diff() == 1
    counts_up = ones[: limit - 1].all() and (values == values.round()).all()
    return bool(counts_up and not ones[limit:].all())


class _Positions(nn.Module):
    def __init__(self, positions: torch.Tensor) -> None:
        super().__init__()
        self.positions: torch.Tensor
        self.register_buffer("positions", positions)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.positions[: x.shape[0]].to(x.dtype).unsqueeze(1)


def _net(positions: torch.Tensor) -> Subject:
    return Subject(_Positions(positions).half().eval(), (torch.ones(2, 2).half(),))


CHECK = Check(
    rule=RULE,
    inspect=inspect,
    good=(
        lambda: _net(torch.arange(4096)),
        lambda: _net(torch.arange(2048.0)),
        lambda: _net(torch.linspace(0, 1, 4096)),
        lambda: _net(torch.full((4096,), 1e4)),
    ),
    bad=(lambda: _net(torch.arange(4096.0)), lambda: _net(torch.arange(4096.0).expand(1, -1).clone()[0])),
)
