"""Every tensor of the model is on one device, has values, and moves with the model.

Why it matters:
    `model.to("cuda")` moves parameters and buffers. A tensor in a plain attribute stays where it is and is
    missing from the state dict. Exported on the CPU it becomes a constant; the model fails only on the other
    device. Parameters on the meta device (a key missing from the checkpoint) and FakeTensors have no values
    at all.

Example:
    class Normalize(nn.Module):
        def __init__(self):
            super().__init__()
            self.mean = torch.tensor([0.4, 0.5])

        def forward(self, x):
            return x - self.mean

    export_ready_check(Normalize().eval(), (torch.ones(1, 2),), target_device="cuda")

Instead:
    class Normalize(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("mean", torch.tensor([0.4, 0.5]))

        def forward(self, x):
            return x - self.mean

    export_ready_check(Normalize().eval(), (torch.ones(1, 2),), target_device="cuda")

Severity:
    error: several devices; no values; a plain attribute on another device than the parameters or the target.
    warning: such an attribute, where `forward` may create or move it.
    note: a plain attribute on the device of the parameters; a model that is spread over several GPUs, and runs.

Not reported:
    0-dimensional CPU tensors, which operators accept with tensors of any device.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

import torch
from torch import nn

from pytest_exportready.analysis.execution.detectors.hardcoded_devices import is_at
from pytest_exportready.analysis.execution.eager_reference import EagerReference
from pytest_exportready.analysis.module.plain_tensor_attributes import PlainTensor, plain_tensor_attributes
from pytest_exportready.analysis.torch_internals.tensors import is_fake
from pytest_exportready.case.finding import Finding, Rule
from pytest_exportready.case.wording import few, subject_of
from pytest_exportready.checks._check import Check, Subject

RULE = Rule("ER201", "devices_consistent")

_PLAIN = "plain tensor attributes, which are neither parameters nor buffers"


def inspect(subject: Subject) -> Iterator[Finding]:
    model = subject.module
    state = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    loose = plain_tensor_attributes(model)
    yield from _without_values(state, loose, subject.checkpoint)

    placed = {name: t.device for name, t in state.items() if not (t.is_meta or is_fake(t) or _scalar_on_cpu(t))}
    home = Counter(placed.values()).most_common(1)[0][0] if placed else None
    if home is not None:
        yield from _strays(placed, home, subject)
    yield from _loose(loose, home, subject.target_device)


def _without_values(
    state: Mapping[str, torch.Tensor], loose: list[PlainTensor], checkpoint: Mapping[str, object] | None
) -> Iterator[Finding]:
    every = {**state, **{entry.name: entry.tensor for entry in loose}}
    fakes = [name for name, tensor in every.items() if is_fake(tensor)]
    if fakes:
        yield RULE.error(
            few(fakes),
            f"{subject_of(len(fakes), 'tensor')} without values: FakeTensors that a trace left behind.",
            "Trace a copy of the module, and load the checkpoint again.",
        )
    meta = [name for name, tensor in every.items() if tensor.is_meta and name not in fakes]
    if meta:
        lacking = [name for name in meta if checkpoint is not None and name in state and name not in checkpoint]
        missing = f" The checkpoint has no key {few(lacking)}." if lacking else ""
        yield RULE.error(
            few(meta),
            f"{subject_of(len(meta), 'tensor')} on the meta device, without values: {few(meta)}.{missing}",
            "Load a complete checkpoint with `strict=True`, or call `to_empty()` and initialize what is missing.",
        )


def _strays(placed: Mapping[str, torch.device], home: torch.device, subject: Subject) -> Iterator[Finding]:
    away = dict.fromkeys(device for device in placed.values() if device != home)
    strays = {device: [name for name, where in placed.items() if where == device] for device in away}
    spread = bool(strays) and home.type != "cpu" and all(device.type == home.type for device in strays)
    spread = spread and _runs(subject)
    for device, names in strays.items():
        where = f"{subject_of(len(names), 'tensor')} on {device}, most of the model on {home}."
        if spread:
            yield RULE.note(few(names), f"{where} It runs; a machine that loads the program needs both devices.")
        else:
            yield RULE.error(few(names), where, f'Call `model.to("{home}")`.')


def _runs(subject: Subject) -> bool:
    try:
        EagerReference(subject.model).output(subject.call)
    except Exception:
        return False
    return True


def _loose(loose: list[PlainTensor], home: torch.device | None, target: str | None) -> Iterator[Finding]:
    real = [e for e in loose if not (e.tensor.is_meta or is_fake(e.tensor) or _scalar_on_cpu(e.tensor))]
    away = [e for e in real if home is not None and e.tensor.device != home]
    behind = [e for e in real if e not in away and target and not is_at(e.tensor.device, torch.device(target))]
    rest = [e for e in real if e not in away and e not in behind]
    for found, what in (
        (away, f"The parameters are on {home}, and `.to()` does not move {_PLAIN}."),
        (behind, f"`.to({target!r})` does not move {_PLAIN}."),
    ):
        sure = [e for e in found if not e.handled and e.tensor.is_leaf]
        unsure = [e for e in found if e not in sure]
        if sure:
            yield RULE.error(_where(sure), what, _register(sure))
        if unsure:
            yield RULE.warning(_where(unsure), f"{what} `forward` may create or move them itself.", _register(unsure))
    if rest:
        yield RULE.note(_where(rest), f"`.to()` does not move {_PLAIN}.")


def _where(loose: list[PlainTensor]) -> str:
    return few(entry.name for entry in loose)


def _register(loose: list[PlainTensor]) -> str:
    names = list(dict.fromkeys(entry.attribute.rpartition(".")[2] for entry in loose))
    return f"Register in `__init__`: {few(f'`self.register_buffer({name!r}, ...)`' for name in names)}."


def _scalar_on_cpu(tensor: torch.Tensor) -> bool:
    lazy = torch.nn.parameter.is_lazy(tensor)
    return not lazy and tensor.dim() == 0 and tensor.device.type == "cpu"


class _Normalize(nn.Module):
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
        lambda: Subject(_Normalize(registered=True).eval(), (torch.ones(1, 2),), target_device="cuda"),
        lambda: Subject(_Normalize(registered=False).eval(), (torch.ones(1, 2),)),
        lambda: Subject(nn.LSTM(2, 3).eval(), (torch.ones(1, 2, 2),), target_device="cuda"),
    ),
    bad=(
        lambda: Subject(_Normalize(registered=False).eval(), (torch.ones(1, 2),), target_device="cuda"),
        lambda: Subject(nn.Linear(2, 2, device="meta").eval(), (torch.ones(1, 2),)),
    ),
)
