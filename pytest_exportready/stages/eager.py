"""The trained module runs, repeats itself, does not change when it is used, and gives the recorded output."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from pytest_exportready.analysis.execution.call import Call
from pytest_exportready.analysis.execution.compare import Tolerance, compare, has_nan
from pytest_exportready.analysis.execution.detectors.adapter_merge_flags import aligned, wrong_merge_flags
from pytest_exportready.analysis.execution.detectors.ambient_reads import INPUTS_ONLY, ambient_reads
from pytest_exportready.analysis.execution.detectors.rng_location import random_line
from pytest_exportready.analysis.execution.global_state import global_state_kept
from pytest_exportready.analysis.execution.input_variants import variations
from pytest_exportready.analysis.execution.pytree import named_leaves
from pytest_exportready.analysis.execution.trial import EagerFailed, Observation, Trial
from pytest_exportready.analysis.module.patched_forward import patched_forwards
from pytest_exportready.analysis.module.snapshot import Change
from pytest_exportready.analysis.source.bytecode import place_of_write
from pytest_exportready.analysis.source.user_frames import user_place
from pytest_exportready.case.facts import EAGER_BITWISE, GOLDEN_LARGEST
from pytest_exportready.case.finding import Finding
from pytest_exportready.case.sanitize import exception_text
from pytest_exportready.case.wording import few
from pytest_exportready.stages._eager_rules import DETERMINISTIC, GOLDEN, NUMBERS, REPEATS, RUNS, STATELESS
from pytest_exportready.stages._stage import Stage

_MUCH_LATER = 10**6  # calls


def run(trial: Trial) -> Iterator[Observation]:
    case, call = trial.case, trial.call
    try:
        (first, second), changes = trial.reference.observe([call, call])
    except Exception as error:
        yield EagerFailed(error)
        file, line = user_place(error)
        yield RUNS.error(
            "",
            "The eager module raises an exception on the example inputs.",
            "Correct the example inputs or the module, until `model.eval()(*args, **kwargs)` runs.",
            file=file,
            line=line,
            torch_says=exception_text(error),
        )
        return
    nan = [path for path, leaf in named_leaves(first) if has_nan(leaf)]
    if nan:
        yield NUMBERS.error(
            f"output{nan[0]}",
            "The eager module returns NaN on the example inputs. Equal NaNs prove nothing.",
            "Pass example inputs that give a finite output, or fix the weights.",
        )
    repeated = compare(first, second, Tolerance())
    yield {EAGER_BITWISE: repeated.bitwise}
    if not nan and not case.allow_mutation:
        if repeated.agree:
            yield from _counters(trial, first, changes)
            yield from _caches(trial, changes)
        else:
            yield _not_repeated(trial, first, changes)
    if case.golden is not None:
        recorded = compare(*aligned(case.golden, first), Tolerance(relative=case.golden_tolerance))
        yield {GOLDEN_LARGEST: recorded.largest}
        if not recorded.agree:
            yield GOLDEN.error(
                _suspects(trial),
                f"The eager output differs from the one recorded after training: {recorded.problem}.",
                "Compare `model.state_dict()` with the checkpoint key by key; look for broken weight ties, missing "
                "keys and autocast wrappers on `forward`.",
            )


def _not_repeated(trial: Trial, first: object, changes: list[Change]) -> Finding:
    """Distinguish state from randomness by starting again: with state, the first output is the same."""
    call = trial.call
    if compare(first, trial.reference.output(call), Tolerance()).agree:
        file, line = _written_at(trial, changes)
        return STATELESS.error(
            ", ".join(dict.fromkeys(change.where for change in changes[:5])) or "state outside the module",
            "A second call with the same inputs gives a different output: the module changes its state in eval mode.",
            "Guard the update with `if self.training:`, or declare the state: `ExportCase(allow_mutation=True, "
            "stateful_calls=True)`.",
            file=file,
            line=line,
        )
    if _differs_with_one_seed(trial, call):
        with global_state_kept():
            torch.use_deterministic_algorithms(True, warn_only=True)
            if not _differs_with_one_seed(trial, call):
                return DETERMINISTIC.warning(
                    "",
                    "Two calls with the same inputs give different outputs: a kernel adds in an order that varies.",
                    "If outputs must be equal in every run, call `torch.use_deterministic_algorithms(True)` in each.",
                )
        read = next(iter(ambient_reads(lambda: trial.reference.output(call))), None)
        return REPEATS.error(
            "",
            "Two calls with the same inputs and random states give different outputs: `forward` "
            f"{read.words if read else 'depends on something outside the module'}.",
            INPUTS_ONLY,
            file=read.file if read else "",
            line=read.line if read else 0,
        )
    file, line = random_line(lambda: trial.reference.output(call))
    return REPEATS.error(
        "",
        "Two calls with the same inputs give different outputs: `forward` draws random numbers in eval mode.",
        "Guard the noise or dropout with `if self.training:`; pass `training=self.training` to `F.dropout`.",
        file=file,
        line=line,
    )


def _differs_with_one_seed(trial: Trial, call: Call) -> bool:
    """Return whether the output differs even from the same random states of torch, Python and NumPy."""
    with global_state_kept():
        first = trial.reference.output(call)
    with global_state_kept():
        second = trial.reference.output(call)
    return not compare(first, second, Tolerance()).agree


def _caches(trial: Trial, changes: list[Change]) -> Iterator[Finding]:
    """Report a cache that is filled for one input and used for another."""
    kept = list(dict.fromkeys(c.where for c in changes if type(c.now) not in (int, float)))
    if not kept:
        return
    for call in variations(trial.call, seed=3):
        try:
            alone, later = trial.reference.output(call), trial.reference.outputs([trial.call, call])[1]
        except Exception:
            continue
        if not compare(alone, later, Tolerance()).agree:
            file, line = _written_at(trial, [change for change in changes if change.where in kept])
            yield STATELESS.error(
                kept[0],
                f"The output depends on the inputs of the previous call, through {few(kept)}.",
                "Compute it in every call, or cache it under a key that names all that it depends on.",
                file=file,
                line=line,
            )
        return


def _counters(trial: Trial, first: object, changes: list[Change]) -> Iterator[Finding]:
    """Report Python numbers that every call changes, and on which the output will depend after many calls."""
    for change in changes:
        if type(change.now) not in (int, float):
            continue
        try:
            later = trial.reference.output_with(change.where, change.now + _MUCH_LATER, trial.call)
        except Exception:
            continue  # not every value is valid, such as that of a list index
        if not compare(first, later, Tolerance()).agree:
            file, line = _written_at(trial, [change])
            yield STATELESS.error(
                change.where,
                "Every call changes this Python number, and later outputs depend on it. The program keeps one value.",
                "Guard the update with `if self.training:`, or set the number outside `forward`.",
                file=file,
                line=line,
            )


def _written_at(trial: Trial, changes: list[Change]) -> tuple[str, int]:
    """Return the line of forward that assigns the first of ``changes`` that is an attribute of a module."""
    modules = dict(trial.reference.module.named_modules())
    for change in changes:
        owner, _, attribute = change.where.rpartition(".")
        if owner in modules and (place := place_of_write(type(modules[owner]), attribute))[0]:
            return place
    return "", 0


def _suspects(trial: Trial) -> str:
    """Name what may have changed the output: merge flags, replaced forwards, narrowed weights."""
    case, module = trial.case, trial.reference.module
    flags = wrong_merge_flags(module, trial.call, case.golden, case.golden_tolerance)
    narrowed = [
        f"{name} ({tensor.dtype}, {saved.dtype} in the checkpoint)"
        for name, tensor in module.state_dict().items()
        if isinstance(saved := (case.checkpoint or {}).get(name), torch.Tensor)
        and saved.dtype.itemsize > tensor.dtype.itemsize
    ]
    return ", ".join([*(f"{name} (set, but not merged)" for name in flags), *patched_forwards(module), *narrowed][:3])


STAGE = Stage(
    run,
    rules=(RUNS, REPEATS, DETERMINISTIC, STATELESS, GOLDEN, NUMBERS),
    follows=("ranks",),
    every_mode=False,
    every_rank=True,
)
