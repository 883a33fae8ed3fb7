"""Parameters, buffers and every other tensor of the model live on one device and move together.

A tensor kept as a plain attribute, ``self.mean = torch.tensor(...)``, is neither parameter nor buffer:
``model.to("cuda")`` leaves it behind, and it is missing from the state dict. Exported on the CPU it becomes
a constant and all looks well; the module breaks only on the other device. This is an error when it sits on
another device than the parameters, or when the case names a ``target_device``; otherwise it is mentioned.
Parameters on the meta device were never loaded (a key missing from the checkpoint, ``strict=False``), a
FakeTensor was left behind by a trace; neither has values. A 0-dimensional CPU tensor may meet any device
and is no fault.

Bad:  ``self.mean = torch.tensor([0.5])``
Good: ``self.register_buffer("mean", torch.tensor([0.5]))``
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

import torch
from torch import nn

from pytest_exportready.analysis.module.plain_tensor_attributes import LooseTensor, loose_tensors
from pytest_exportready.analysis.module.wrappers import unwrap
from pytest_exportready.analysis.torch_internals.tensors import is_fake
from pytest_exportready.case.finding import Finding, Rule
from pytest_exportready.case.wording import and_more, counted, few
from pytest_exportready.checks._check import Check, Subject

RULE = Rule("ER201", "devices_consistent")

LOOSE = "plain tensor attributes, neither parameter nor buffer"


def inspect(subject: Subject) -> Iterator[Finding]:
    model = unwrap(subject.model)[0]
    state = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    loose = loose_tensors(model)
    yield from _without_values(state, loose, subject.checkpoint)

    placed = {name: t.device for name, t in state.items() if not (t.is_meta or is_fake(t) or _scalar_on_cpu(t))}
    home = Counter(placed.values()).most_common(1)[0][0] if placed else None
    if home is not None:
        yield from _strays(placed, home)
    yield from _loose(loose, home, subject.target_device)


def _without_values(
    state: Mapping[str, torch.Tensor], loose: list[LooseTensor], checkpoint: Mapping[str, object] | None
) -> Iterator[Finding]:
    every = {**state, **{entry.name: entry.tensor for entry in loose}}
    fakes = [name for name, tensor in every.items() if is_fake(tensor)]
    if fakes:
        yield RULE.error(
            few(fakes),
            f"{counted(len(fakes), 'FakeTensor')}, left behind by a trace: shape and dtype without values.",
            "trace a copy of the module, and load the checkpoint again",
        )
    meta = [name for name, tensor in every.items() if tensor.is_meta and name not in fakes]
    if meta:
        lacking = [name for name in meta if checkpoint is not None and name in state and name not in checkpoint]
        missing = f" The checkpoint has no key {few(lacking)}." if lacking else ""
        yield RULE.error(
            few(meta),
            f"{counted(len(meta), 'tensor')} on the meta device, without values: {few(meta)}.{missing}",
            "load a complete checkpoint (strict=True), or to_empty() and initialise what is missing",
        )


def _strays(placed: Mapping[str, torch.device], home: torch.device) -> Iterator[Finding]:
    for device in dict.fromkeys(placed.values()):
        names = [name for name, where in placed.items() if where == device]
        if device != home:
            yield RULE.error(
                few(names),
                f"on {device}, while most parameters and buffers are on {home}.",
                f'model.to("{home}")',
            )


def _loose(loose: list[LooseTensor], home: torch.device | None, target: str | None) -> Iterator[Finding]:
    real = [e for e in loose if not (e.tensor.is_meta or is_fake(e.tensor) or _scalar_on_cpu(e.tensor))]
    away = [e for e in real if home is not None and e.tensor.device != home]
    behind = [e for e in real if e not in away and target is not None and _elsewhere(e.tensor.device, target)]
    rest = [e for e in real if e not in away and e not in behind]
    for found, what in (
        (away, f"not on {home} as the parameters are, for .to() does not move them"),
        (behind, f".to({target!r}) leaves them behind"),
    ):
        sure = [e for e in found if not e.handled and e.tensor.is_leaf]
        unsure = [e for e in found if e not in sure]
        if sure:
            yield RULE.error(_where(sure), f"{LOOSE}: {what}.", _register(sure))
        if unsure:
            doubt = "unless forward() makes or moves them itself"
            yield RULE.warning(_where(unsure), f"{LOOSE}: {what}, {doubt}.", _register(unsure))
    if rest:
        yield RULE.note(_where(rest), f"{LOOSE}: .to() does not move them.")


def _where(loose: list[LooseTensor]) -> str:
    return few(entry.name for entry in loose)


def _register(loose: list[LooseTensor]) -> str:
    names = list(dict.fromkeys(entry.attribute.rpartition(".")[2] for entry in loose))
    return and_more([f'self.register_buffer("{name}", ...)' for name in names[:3]], len(names), "; ")


def _scalar_on_cpu(tensor: torch.Tensor) -> bool:
    lazy = torch.nn.parameter.is_lazy(tensor)
    return not lazy and tensor.dim() == 0 and tensor.device.type == "cpu"


def _elsewhere(device: torch.device, target: str) -> bool:
    goal = torch.device(target)
    return device.type != goal.type or (None not in (device.index, goal.index) and device.index != goal.index)


class _Normalise(nn.Module):
    def __init__(self, registered: bool) -> None:
        super().__init__()
        self.lin = nn.Linear(2, 2)
        mean = torch.tensor([0.4, 0.5])
        if registered:
            self.register_buffer("mean", mean)
        else:
            self.mean = mean

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.lin(x - self.mean)  # type: ignore[no-any-return]


CHECK = Check(
    rule=RULE,
    inspect=inspect,
    good=(
        lambda: Subject(_Normalise(registered=True).eval(), (torch.ones(1, 2),), target_device="cuda"),
        lambda: Subject(_Normalise(registered=False).eval(), (torch.ones(1, 2),)),
        lambda: Subject(nn.LSTM(2, 3).eval(), (torch.ones(1, 2, 2),), target_device="cuda"),
    ),
    bad=(
        lambda: Subject(_Normalise(registered=False).eval(), (torch.ones(1, 2),), target_device="cuda"),
        lambda: Subject(nn.Linear(2, 2, device="meta").eval(), (torch.ones(1, 2),)),
    ),
)
