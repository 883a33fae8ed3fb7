"""The optimizer in `training_state` trains the parameters of this model.

Why it matters:
    An optimizer keeps the tensors that it was given. If it was created before a layer was replaced or
    parameters were created again (`to_empty`, `load_state_dict(assign=True)`), it trains tensors of no model.
    There is no error, the loss falls, and the new parameters keep their initial values.

Example:
    net = nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 5)).eval()
    optimizer = torch.optim.Adam(net.parameters())
    net[1] = nn.Linear(8, 2).eval()
    export_ready_check(net, (torch.ones(1, 4),), training_state={"optimizer": optimizer})

Instead:
    net = nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 5)).eval()
    net[1] = nn.Linear(8, 2).eval()
    optimizer = torch.optim.Adam(net.parameters())
    export_ready_check(net, (torch.ones(1, 4),), training_state={"optimizer": optimizer})

Severity:
    error: tensors of similar shape in place of parameters; no state after steps (a GradScaler skipped them).

Not reported:
    Frozen parameters, an optimizer of several models, an optimizer of the model that this one is a copy of.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from pytest_exportready.case.finding import Finding, Rule
from pytest_exportready.case.wording import counted, few
from pytest_exportready.checks._check import Check, Subject

RULE = Rule("ER319", "optimizer_holds_weights")


def inspect(subject: Subject) -> Iterator[Finding]:
    optimizer = subject.training_state.get("optimizer")
    if not isinstance(optimizer, torch.optim.Optimizer):
        return
    held = {id(p): p for group in optimizer.param_groups for p in group["params"]}
    named = {name: p for name, p in subject.module.named_parameters() if p.requires_grad}
    own = {id(p) for p in named.values()}
    missed = {name: p for name, p in named.items() if id(p) not in held}
    others = [p for key, p in held.items() if key not in own]
    if own & held.keys() and missed and _stand_for(others, list(missed.values())):
        yield RULE.error(
            few(missed),
            f"The optimizer holds other tensors in place of {counted(len(missed), 'parameter')}, and trained those.",
            "Create the optimizer after the model is complete, and train again.",
        )
    steps = subject.training_state.get("step")
    if isinstance(steps, int) and steps > 0 and own & held.keys() and _keeps_state(optimizer) and not optimizer.state:
        yield RULE.error(
            "optimizer",
            f"{type(optimizer).__name__} has no state after {counted(steps, 'step')}, so every step was skipped.",
            "Look for NaN or inf in the loss and the gradients, and train again.",
        )


def _stand_for(others: list[Tensor], missed: list[nn.Parameter]) -> bool:
    """Return whether each of ``missed`` may have replaced a different one of ``others``."""
    left = list(others)
    for parameter in missed:
        replaced = next((n for n, other in enumerate(left) if _is_similar(other, parameter)), None)
        if replaced is None:
            return False
        del left[replaced]
    return True


def _is_similar(one: Tensor, other: Tensor) -> bool:
    return one.dim() == other.dim() and sum(a != b for a, b in zip(one.shape, other.shape, strict=True)) <= 1


def _keeps_state(optimizer: torch.optim.Optimizer) -> bool:
    """Return whether it keeps a state for each parameter from the first step on: all of torch but plain SGD do."""
    if not type(optimizer).__module__.startswith("torch.optim"):
        return False
    return type(optimizer) is not torch.optim.SGD or any(group["momentum"] for group in optimizer.param_groups)


class _Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body, self.head = nn.Linear(4, 8), nn.Linear(8, 5)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.head(self.body(x).relu())
        return out


def _trained(replaced_late: bool, steps: int = 2) -> Subject:
    net = _Net()
    if not replaced_late:
        net.head = nn.Linear(8, 2)
    optimizer = torch.optim.Adam(net.parameters())
    if replaced_late:
        net.head = nn.Linear(8, 2)
    for _ in range(steps):
        net(torch.ones(2, 4)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    return Subject(net.eval(), (torch.ones(2, 4),), training_state={"optimizer": optimizer, "step": 2})


def _with_other(net: nn.Module, *trained: nn.Module) -> Subject:
    optimizer = torch.optim.SGD([p for module in trained for p in module.parameters()], lr=0.1)
    return Subject(net.eval(), (torch.ones(2, 4),), training_state={"optimizer": optimizer, "step": 2})


def _several_models() -> Subject:
    net = _Net()
    return _with_other(net, net, nn.Linear(4, 1))


def _head_alone() -> Subject:
    net = _Net()
    return _with_other(net, net.head)


CHECK = Check(
    rule=RULE,
    inspect=inspect,
    good=(
        lambda: _trained(replaced_late=False),
        _several_models,
        _head_alone,
        lambda: _with_other(_Net(), _Net()),  # the model is a copy
    ),
    bad=(lambda: _trained(replaced_late=True), lambda: _trained(replaced_late=False, steps=0)),
)
