"""Every BatchNorm normalises with statistics that training has left in it.

In training mode a BatchNorm normalises with the statistics of the batch at hand, so a row depends on the
rest of its batch, and moves its running statistics in every call. ``torch.export`` keeps both, silently. In
eval mode it uses ``running_mean`` and ``running_var``: where these are not finite, or still as initialised
(0 and 1) although the model was trained, the export is clean and the numbers are not those of training.
``AveragedModel`` averages parameters only unless ``use_buffers=True``: its statistics are then a copy of the training
model's, which are not those of the averaged weights; a count of batches equal to ``n_averaged`` gives the copy away,
``update_bn`` leaves the number of its own batches. Never-updated statistics are an error
where something shows that the model was trained (another norm's count, the averaged model's count, an
optimizer state, a bias that is no constant any more), a warning otherwise; a norm that forward does not call (a head
of another task) is only mentioned. SyncBatchNorm and
``momentum=None`` are ordinary in eval mode; ``track_running_stats=False`` has no statistics at all.

Bad:  ``ema = AveragedModel(net); ...; export(ema.eval())``
Good: ``ema = AveragedModel(net, use_buffers=True)``, or ``update_bn(loader, ema)`` before the export
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel, update_bn

from pytest_exportready.check import Check, Subject
from pytest_exportready.finding import Finding, Rule
from pytest_exportready.module.readable import all_equal_to, all_finite, readable
from pytest_exportready.module.wrappers import unwrap
from pytest_exportready.names import counted, few
from pytest_exportready.proof.truth import Truth
from pytest_exportready.torch_internals import is_batchnorm, is_norm

if TYPE_CHECKING:
    from pytest_exportready.torch_internals import Norm

RULE = Rule("ER302", "batchnorm_frozen")

RETRAIN_STATISTICS = "torch.optim.swa_utils.update_bn(loader, model), then model.eval()"


def inspect(subject: Subject) -> Iterator[Finding]:
    model = unwrap(subject.model)[0]
    norms = {name: m for name, m in model.named_modules() if is_norm(m)}
    tracking = {name: m for name, m in norms.items() if m.running_mean is not None or m.running_var is not None}
    batchwise = [name for name, m in norms.items() if name not in tracking and is_batchnorm(m)]

    left = [name for name, m in tracking.items() if m.training]
    if left:
        yield RULE.error(
            left[0],
            f"{counted(len(left), 'norm')} in training mode: {few(left)}. Rows depend on their whole batch.",
            "model.eval() before the export",
        )
    broken = [name for name, m in tracking.items() if _broken(m)]
    if broken:
        yield RULE.error(
            broken[0],
            f"running statistics of {counted(len(broken), 'norm')} not finite, or negative: {few(broken)}.",
            f"reset_running_stats() on them, then {RETRAIN_STATISTICS}",
        )
    yield from _judge_untouched(subject, model, tracking)
    yield from _judge_copied(model)
    if batchwise:
        yield RULE.warning(
            batchwise[0],
            f"track_running_stats=False in {counted(len(batchwise), 'norm')}: {few(batchwise)}. "
            "As its author chose, each row depends on the rest of its batch, in eval mode too.",
            "track_running_stats=True, or GroupNorm, if rows must not depend on each other",
        )


def _judge_untouched(subject: Subject, model: nn.Module, tracking: Mapping[str, Norm]) -> Iterator[Finding]:
    untouched = [name for name, norm in tracking.items() if _untouched(norm)]
    if not untouched:
        return
    idle = _idle(subject, {name: tracking[name] for name in untouched})
    if idle:
        yield RULE.info(
            idle[0],
            f"running statistics of {counted(len(idle), 'norm')} never updated, and never used by forward on the "
            f"example inputs: {few(idle)}.",
        )
    untouched = [name for name in untouched if name not in idle]
    if not untouched:
        return
    proof = _trained(model, tracking, subject.training_state)
    moved = [name for name in untouched if _bias_moved(tracking[name])]
    if proof or moved:
        guilty = untouched if proof else moved
        yield RULE.error(
            guilty[0],
            f"running statistics of {counted(len(guilty), 'norm')} never updated (mean 0, variance 1): "
            f"{few(guilty)}; yet {proof or 'its bias was trained'}.",
            "AveragedModel(..., use_buffers=True)" + f", or {RETRAIN_STATISTICS}"
            if any(isinstance(m, AveragedModel) for m in model.modules())
            else RETRAIN_STATISTICS,
        )
    else:
        yield RULE.warning(
            untouched[0],
            f"{counted(len(untouched), 'norm')} with running statistics as initialised: {few(untouched)}. "
            "Nothing shows that this model was trained.",
            RETRAIN_STATISTICS,
        )


def _idle(subject: Subject, norms: Mapping[str, Norm]) -> list[str]:
    """Those of ``norms`` that forward does not call on the example inputs; none where it does not run."""
    called: set[nn.Module] = set()
    handles = [norm.register_forward_pre_hook(lambda norm, _: called.add(norm)) for norm in norms.values()]
    try:
        Truth(subject.model).answer((subject.args, subject.kwargs))
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
                f"statistics of {counted(len(copied), 'norm')} are a copy of the training model's, not those of the "
                f"averaged weights: {few(copied)} (num_batches_tracked and n_averaged are both {averaged}).",
                f"AveragedModel(..., use_buffers=True), or {RETRAIN_STATISTICS}",
            )


def _trained(model: nn.Module, tracking: Mapping[str, Norm], state: Mapping[str, Any]) -> str:
    """What shows that the model was trained; empty when nothing does."""
    for name, module in model.named_modules():
        if isinstance(module, AveragedModel) and (averaged := _count(module.n_averaged)):
            return f"n_averaged is {averaged} in {name or 'the AveragedModel'}"
    for name, norm in tracking.items():
        if batches := _count(norm.num_batches_tracked):
            return f"{name} has seen {counted(batches, 'batch').replace('batchs', 'batches')}"
    steps = state.get("step")
    if isinstance(steps, (int, float)) and steps > 0:
        return f"training was at step {steps}"
    optimizer = state.get("optimizer")
    kept = optimizer.state if isinstance(optimizer, torch.optim.Optimizer) else (optimizer or {}).get("state")
    return "the optimizer has taken steps" if kept else ""


def _untouched(norm: Norm) -> bool:
    if norm.running_mean is None or norm.running_var is None or _count(norm.num_batches_tracked):
        return False
    return all_equal_to(norm.running_mean, 0) is True and all_equal_to(norm.running_var, 1) is True


def _bias_moved(norm: Norm) -> bool:
    """A bias that is not one constant was trained: initialisations draw weights at random, hardly ever
    biases.
    """
    if norm.bias is None or not readable(norm.bias) or norm.bias.numel() < 2:
        return False
    return all_equal_to(norm.bias, norm.bias.detach().flatten()[0].item()) is False


def _broken(norm: Norm) -> bool:
    statistics = [t for t in (norm.running_mean, norm.running_var) if t is not None]
    if any(all_finite(t) is False for t in statistics):
        return True
    variance = norm.running_var
    return variance is not None and readable(variance) and bool((variance < 0).any())


def _count(tensor: torch.Tensor | None) -> int:
    return int(tensor) if tensor is not None and readable(tensor) else 0


def remedy(subject: Subject) -> list[str]:
    norms = [(name, m) for name, m in subject.model.named_modules() if is_norm(m) and m.training]
    tracking = [(name, m) for name, m in norms if m.running_mean is not None]
    for _, norm in tracking:
        norm.eval()
    return [f"eval() on {counted(len(tracking), 'norm')}: {few(n for n, _ in tracking)}"] if tracking else []


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
