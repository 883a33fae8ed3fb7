"""Every BatchNorm is in eval mode and has finite running statistics from training.

Why it matters:
    In training mode each row depends on the rest of its batch, and torch.export records that silently. With
    initial statistics (mean 0, variance 1) the export succeeds, and the numbers are not those of training.
    `AveragedModel` averages parameters only: without `use_buffers=True` its statistics are copied from the
    model.

Example:
    net = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))
    net(torch.randn(8, 4))
    ema = torch.optim.swa_utils.AveragedModel(net)
    ema.update_parameters(net)
    export_ready_check(ema.eval(), (torch.randn(2, 4),))

Instead:
    net = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))
    net(torch.randn(8, 4))
    ema = torch.optim.swa_utils.AveragedModel(net, use_buffers=True)
    ema.update_parameters(net)
    export_ready_check(ema.eval(), (torch.randn(2, 4),))

Severity:
    error: training mode; statistics that are not finite, not of the averaged weights, or never updated.
    warning: initial statistics of a model that may be untrained; `track_running_stats=False`.
    note: initial statistics of a norm that `forward` does not call.

Not reported:
    `momentum=None` and SyncBatchNorm in eval mode.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel, update_bn

from pytest_exportready.analysis.execution.eager_reference import EagerReference
from pytest_exportready.analysis.module.nonfinite import not_finite
from pytest_exportready.analysis.module.sync_batchnorm import without_sync
from pytest_exportready.analysis.module.tensor_values import all_equal_to, readable
from pytest_exportready.analysis.torch_internals.hooks import forward_hooks
from pytest_exportready.analysis.torch_internals.modules import is_batchnorm, is_norm, plain_attributes
from pytest_exportready.case.finding import Finding, Rule
from pytest_exportready.case.wording import counted, few, subject_of
from pytest_exportready.checks._check import Check, Subject

if TYPE_CHECKING:
    from pytest_exportready.analysis.torch_internals.modules import Norm

RULE = Rule("ER302", "batchnorm_frozen")

_SETTINGS = plain_attributes(nn.SyncBatchNorm(1)).keys()

_RECOMPUTE = "`torch.optim.swa_utils.update_bn(loader, model)` and `model.eval()`."


def inspect(subject: Subject) -> Iterator[Finding]:
    model = subject.module
    norms = {name: m for name, m in model.named_modules() if is_norm(m)}
    tracking = {name: m for name, m in norms.items() if m.running_mean is not None or m.running_var is not None}
    batchwise = [name for name, m in norms.items() if name not in tracking and is_batchnorm(m)]

    left = [name for name, m in tracking.items() if m.training]
    if left:
        yield RULE.error(
            left[0],
            f"{subject_of(len(left), 'norm')} in training mode: {few(left)}. Each row depends on its whole batch.",
            "Call `model.eval()` before exporting.",
        )
    broken = _broken(tracking)
    if broken:
        yield RULE.error(
            broken[0],
            f"Running statistics of {counted(len(broken), 'norm')} are not finite, or negative: {few(broken)}.",
            f"Call `reset_running_stats()` on each, then {_RECOMPUTE}",
        )
    yield from _judge_untouched(subject, model, tracking)
    yield from _judge_copied(model)
    if batchwise:
        yield RULE.warning(
            batchwise[0],
            f"{subject_of(len(batchwise), 'norm')} without running statistics: {few(batchwise)}. "
            "Each row depends on its whole batch, in eval mode too.",
            "Set `track_running_stats=True`, or use GroupNorm, if rows must not depend on each other.",
        )


def _judge_untouched(subject: Subject, model: nn.Module, tracking: Mapping[str, Norm]) -> Iterator[Finding]:
    batches = _batches_seen(tracking)
    untouched = [name for name, norm in tracking.items() if not batches[name] and _is_initial(norm)]
    if not untouched:
        return
    proof = _trained(model, batches, subject.training_state)
    guilty = untouched if proof else [name for name in untouched if _bias_moved(tracking[name])]
    idle = _idle(subject, {name: tracking[name] for name in guilty}) if guilty else []
    guilty = [name for name in guilty if name not in idle]
    unknown = [name for name in untouched if name not in guilty and name not in idle]
    if idle:
        yield RULE.note(
            idle[0],
            f"Running statistics of {counted(len(idle), 'norm')} are initial, and `forward` does not use them: "
            f"{few(idle)}.",
        )
    if guilty:
        yield RULE.error(
            guilty[0],
            f"Running statistics of {counted(len(guilty), 'norm')} were never updated (mean 0, variance 1), but "
            f"{proof or 'the bias was trained'}: {few(guilty)}.",
            f"Use `AveragedModel(..., use_buffers=True)`, or call {_RECOMPUTE}"
            if any(isinstance(m, AveragedModel) for m in model.modules())
            else f"Call {_RECOMPUTE}",
        )
    elif unknown:
        yield RULE.warning(
            unknown[0],
            f"Running statistics of {counted(len(unknown), 'norm')} have their initial values: {few(unknown)}. "
            "Nothing shows that this model was trained.",
            f"Call {_RECOMPUTE}",
        )


def _idle(subject: Subject, norms: Mapping[str, Norm]) -> list[str]:
    """Return which of ``norms`` forward does not call on the example inputs; none if it does not run."""
    called: set[nn.Module] = set()
    handles = [norm.register_forward_pre_hook(lambda norm, _: called.add(norm)) for norm in norms.values()]
    try:
        EagerReference(subject.model).output(subject.call)
    except Exception:
        return []
    finally:
        for handle in handles:
            handle.remove()
    return [name for name, norm in norms.items() if norm not in called]


def _judge_copied(model: nn.Module) -> Iterator[Finding]:
    for prefix, average in model.named_modules():
        if not isinstance(average, AveragedModel) or average.use_buffers or not _count(average.n_averaged):
            continue
        averaged = _count(average.n_averaged)
        norms = [(name, m) for name, m in average.named_modules(prefix=prefix) if is_norm(m)]
        copied = [name for name, m in norms if _count(m.num_batches_tracked) == averaged]
        if copied:
            yield RULE.error(
                copied[0],
                f"{counted(len(copied), 'norm')} with statistics of the model before averaging: {few(copied)}. "
                f"They do not fit the averaged weights (`num_batches_tracked` equals `n_averaged`, {averaged}).",
                f"Use `AveragedModel(..., use_buffers=True)`, or call {_RECOMPUTE}",
            )


def _trained(model: nn.Module, batches: Mapping[str, int], state: Mapping[str, Any]) -> str:
    """Return what shows that the model was trained; empty if nothing does."""
    for name, module in model.named_modules():
        if isinstance(module, AveragedModel) and (averaged := _count(module.n_averaged)):
            return f"`n_averaged` is {averaged} in {name or 'the AveragedModel'}"
    for name, seen in batches.items():
        if seen:
            return f"`{name}` has seen {counted(seen, 'batch', 'batches')}"
    steps = state.get("step")
    if isinstance(steps, (int, float)) and steps > 0:
        return f"training was at step {steps}"
    optimizer = state.get("optimizer")
    kept = optimizer.state if isinstance(optimizer, torch.optim.Optimizer) else (optimizer or {}).get("state")
    return "the optimizer has taken steps" if kept else ""


def _batches_seen(norms: Mapping[str, Norm]) -> dict[str, int]:
    """Return how many batches each norm has seen, with one transfer from the device."""
    counts = {
        name: n.num_batches_tracked.detach()
        for name, n in norms.items()
        if n.num_batches_tracked is not None and readable(n.num_batches_tracked)
    }
    devices = {count.device for count in counts.values()}
    numbers = torch.stack(list(counts.values())).tolist() if len(devices) == 1 else map(int, counts.values())
    return {**dict.fromkeys(norms, 0), **dict(zip(counts, numbers, strict=True))}


def _is_initial(norm: Norm) -> bool:
    if norm.running_mean is None or norm.running_var is None:
        return False
    return all_equal_to(norm.running_mean, 0) is True and all_equal_to(norm.running_var, 1) is True


def _bias_moved(norm: Norm) -> bool:
    """Return whether the bias was trained: initializations draw weights at random, and set biases to a constant."""
    if norm.bias is None or not readable(norm.bias) or norm.bias.numel() < 2:
        return False
    return all_equal_to(norm.bias, norm.bias.detach().flatten()[0].item()) is False


def _broken(norms: Mapping[str, Norm]) -> list[str]:
    """Return the names of the norms whose statistics are not finite, or whose variance is negative."""
    means = {name: norm.running_mean for name, norm in norms.items() if norm.running_mean is not None}
    variances = {name: norm.running_var for name, norm in norms.items() if norm.running_var is not None}
    broken = {*not_finite(means), *not_finite(variances)}
    broken.update(name for name, v in variances.items() if readable(v) and v.numel() and bool(v.detach().min() < 0))
    return [name for name in norms if name in broken]


def _count(tensor: torch.Tensor | None) -> int:
    return int(tensor) if tensor is not None and readable(tensor) else 0


def remedy(subject: Subject) -> list[str]:
    norms = [(name, m) for name, m in subject.model.named_modules() if is_norm(m)]
    tracking = [(name, m) for name, m in norms if m.training and m.running_mean is not None]
    for _, norm in tracking:
        norm.eval()
    actions = (
        [f"Called `eval()` on {counted(len(tracking), 'norm')}: {few(n for n, _ in tracking)}."] if tracking else []
    )
    synced = [(name, m) for name, m in norms if name and isinstance(m, nn.SyncBatchNorm) and _plain(m)]
    for _, norm in synced:
        local = without_sync(norm)
        for place, module in list(subject.model.named_modules(remove_duplicate=False)):
            if module is norm:
                subject.model.set_submodule(place, local)
    if synced:
        actions.append(f"Replaced SyncBatchNorm with BatchNorm: {few(name for name, _ in synced)}.")
    return actions


def _plain(norm: nn.Module) -> bool:
    """Return whether a BatchNorm in its place would lose nothing: no hooks, no attributes of the user."""
    return type(norm) is nn.SyncBatchNorm and not forward_hooks(norm) and not plain_attributes(norm).keys() - _SETTINGS


def _net(trained: bool, mode: bool, **norm: Any) -> Subject:
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4, **norm))
    if trained:
        model(torch.randn(8, 3))
    return Subject(model.train(mode), (torch.randn(4, 3),))


def _averaged(use_buffers: bool = False, reset: bool = False, batches: int = 0) -> Subject:
    net = _net(trained=True, mode=True).model
    ema = AveragedModel(nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4)), use_buffers=use_buffers)
    ema.update_parameters(net)
    if reset:
        next(filter(is_norm, ema.modules())).reset_running_stats()
    if batches:
        update_bn([torch.randn(8, 3) for _ in range(batches)], ema)
    return Subject(ema.eval(), (torch.randn(4, 3),))


CHECK = Check(
    rule=RULE,
    inspect=inspect,
    remedy=remedy,
    good=(
        lambda: _net(trained=True, mode=False),
        lambda: _net(trained=True, mode=False, momentum=None),
        lambda: _averaged(use_buffers=True),
        lambda: _averaged(batches=3),
    ),
    bad=(
        lambda: _net(trained=True, mode=True),
        lambda: _net(trained=False, mode=False),
        lambda: _net(trained=True, mode=False, track_running_stats=False),
        lambda: _averaged(),
        lambda: _averaged(reset=True),
    ),
)
