"""torch.export of the prepared module succeeds, and leaves the user's module as it was."""

from __future__ import annotations

import keyword
import time
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn
from torch.export import ExportedProgram

from pytest_exportready.analysis.execution.detectors.unregistered_parameters import unregistered_parameters
from pytest_exportready.analysis.execution.dynamic_shapes import by_name, declared, dynamic_shapes, name_arguments
from pytest_exportready.analysis.execution.machine_faults import machine_faults_raised
from pytest_exportready.analysis.execution.pytree import distinct, flatten
from pytest_exportready.analysis.execution.trial import Exported, Observation, Trial
from pytest_exportready.analysis.module.sharding import sharded_parameters, sharding_modules
from pytest_exportready.analysis.module.snapshot import preserved
from pytest_exportready.analysis.program.constant_weights import FrozenWeight, foreign_weights, frozen_weights
from pytest_exportready.analysis.program.invalid_identifiers import invalid_identifiers
from pytest_exportready.analysis.program.unused_state import unread_state
from pytest_exportready.analysis.source.user_frames import stack_place
from pytest_exportready.analysis.torch_internals.tensors import is_fake
from pytest_exportready.case.export_case import CaseError
from pytest_exportready.case.facts import NODES, SECONDS
from pytest_exportready.case.finding import Finding
from pytest_exportready.case.wording import counted, few
from pytest_exportready.checks import all_checks
from pytest_exportready.checks._check import Subject
from pytest_exportready.checks._inspection import inspect_program
from pytest_exportready.checks._remedies import apply_remedies
from pytest_exportready.diagnosis import diagnose
from pytest_exportready.diagnosis._diagnosis import Failure
from pytest_exportready.diagnosis.reproduce.verified import reproduced
from pytest_exportready.stages._export_rules import (
    AUTOCAST,
    DYNAMIC_SHAPES,
    FAKE_CONSTANT,
    FAKES_LEFT,
    IDENTIFIERS,
    UNUSED_STATE,
    WEIGHTS,
)
from pytest_exportready.stages._own_storage import own_storage
from pytest_exportready.stages._source_lines import RULE as SOURCE, other_lines
from pytest_exportready.stages._stage import SkipStage, Stage, StageInfrastructure


def run(trial: Trial) -> Iterator[Observation]:
    if trial.eager_error is not None:
        raise SkipStage("the eager module does not run")
    yield from _export(trial)
    yield from trial.on_export(trial)
    if trial.program is not None:
        subject = Subject.of(trial.case, trial.options)
        yield from inspect_program(all_checks(), trial.program, subject, trial.failed_checks)
    if trial.mode == trial.options.modes[0]:
        yield from other_lines(trial)


def _export(trial: Trial) -> Iterator[Observation]:
    model = trial.case.model
    enclosing = next((kind for kind in _device_types(model) if torch.is_autocast_enabled(kind)), "")
    if enclosing:
        yield _inside_autocast(enclosing)
        return
    _refuse_sharded(trial)
    subject = Subject(model=model)
    with preserved(model):
        prepared = tuple(apply_remedies(subject))
        with preserved(subject.model) as clean:
            try:
                program, seconds = _exported(trial, subject.model)
            except CaseError as error:
                yield Exported(prepared=prepared)
                fix = error.fix or "Declare dynamic only dimensions that the example inputs have."
                yield DYNAMIC_SHAPES.error("", f"The dynamic shapes do not fit the inputs: {error.problem}.", fix)
                return
            except Exception as error:
                reproduction = reproduced(trial, subject.model, error)
                yield Exported(None, error, prepared, reproduction.script, reproduction.why_not)
                yield diagnose(Failure(error, subject.model, trial))
                return
            fakes = [change.where for change in clean.changes() if _holds_fake(change.now)]
            weights = _constant_weights(trial, program, subject.model)
        own_storage(program)
    yield Exported(program, prepared=prepared)
    yield {SECONDS: seconds, NODES: len(program.graph.nodes)}
    if fakes:
        yield FAKES_LEFT.warning(
            fakes[0],
            f"torch.export left FakeTensors in attributes of the module: {few(f'`{fake}`' for fake in fakes)}. "
            "The plugin has restored them; your export script will not.",
            "Do not assign these attributes in `forward`, or export a copy of the module.",
        )
    yield from _unregistered(weights, program)
    yield from _names_and_state(program, weights)
    yield from _fake_constants(program)


def _inside_autocast(device_type: str) -> Finding:
    context = f'torch.autocast("{device_type}", {torch.get_autocast_dtype(device_type)})'
    return AUTOCAST.error(
        "",
        f"The export is called inside `{context}`, which torch.export does not record.",
        f"Enter `with {context}:` in `forward`, or export outside of it.",
    )


def _refuse_sharded(trial: Trial) -> None:
    """Raise SkipStage if parameters are sharded, which a check reports; what is ignored there is never ready."""
    if not (sharding_modules(trial.case.model) or sharded_parameters(trial.case.model)):
        return
    reason = "the parameters are sharded over the ranks"
    if "ER318" in trial.options.ignore:
        raise StageInfrastructure(reason, "Gather the parameters before the export.")
    raise SkipStage(reason)


def _exported(trial: Trial, module: torch.nn.Module) -> tuple[ExportedProgram, float]:
    """Return the program, and the seconds that torch.export took."""
    call = trial.call
    shapes = dynamic_shapes(module, call, trial.options)
    if shapes is not None:
        shapes = by_name(module, call, shapes)
        name_arguments(module, call)
    args, kwargs = distinct(call)
    started = time.perf_counter()
    with machine_faults_raised():
        program = torch.export.export(module, args, kwargs, dynamic_shapes=shapes, strict=trial.mode == "strict")
    seconds = round(time.perf_counter() - started, 3)
    declared(module, call, shapes)  # strict export ignores a dimension that an input does not have
    return program, seconds


def _holds_fake(value: Any) -> bool:
    return any(isinstance(leaf, torch.Tensor) and is_fake(leaf) for leaf in flatten(value)[0])


def _constant_weights(trial: Trial, program: ExportedProgram, module: nn.Module) -> list[FrozenWeight]:
    """Return the weights among the constants. Run the module to find their owners if there may be others."""
    found = list(frozen_weights(program, module))
    known = {weight.constant for weight in found}
    others = (value for name, value in program.constants.items() if name not in known)
    if any(isinstance(value, torch.Tensor) and value.is_floating_point() and value.dim() for value in others):
        found += foreign_weights(program, unregistered_parameters(module, trial.call))
    return found


def _unregistered(weights: list[FrozenWeight], program: ExportedProgram) -> Iterator[Finding]:
    aliases = [f"{weight.place} is {weight.registered}" for weight in weights if weight.registered]
    if aliases:
        yield WEIGHTS.error(
            few(aliases),
            f"`forward` reads {counted(len(aliases), 'parameter')} through an alias, a constant in the program.",
            "Read the parameter itself (`self.weight`) in `forward`, or export with `strict=True`.",
        )
    hidden = [weight for weight in weights if not weight.registered]
    if hidden:
        file, line = _first_use(program, hidden[0].constant)
        report = WEIGHTS.error if any(weight.trained for weight in hidden) else WEIGHTS.warning
        yield report(
            few(weight.place for weight in hidden),
            f"`forward` reads {counted(len(hidden), 'weight')} that the module does not register; the program holds "
            "constants.",
            "Use `nn.ModuleList` or `nn.ModuleDict` for layers, and `nn.ParameterList` for parameters.",
            file=file,
            line=line,
        )


def _names_and_state(program: ExportedProgram, weights: list[FrozenWeight]) -> Iterator[Finding]:
    invalid = invalid_identifiers(program)
    if invalid:
        kind = "is a Python keyword" if keyword.iskeyword(invalid[0]) else "is not a Python identifier"
        message = f"`{invalid[0]}` in the name of a module or parameter {kind}, so that the program cannot run."
        yield IDENTIFIERS.error(few(invalid), message, "Rename that module or parameter, such as `class_` for `class`.")
    unused = [name for name in unread_state(program) if name not in {weight.registered for weight in weights}]
    if unused:
        message = "The program keeps this in its state dict and never reads it."
        yield UNUSED_STATE.note(few(unused), message, "Remove it from the module before the export.")


def _fake_constants(program: ExportedProgram) -> Iterator[Finding]:
    for name, value in program.constants.items():
        if is_fake(value):
            file, line = _first_use(program, name)
            yield FAKE_CONSTANT.error(
                name,
                "This constant of the program is a FakeTensor, so that outputs have no values.",
                "Make it a Python number (`float(...)` of a NumPy scalar) or a registered buffer, or export with "
                "`strict=False`.",
                file=file,
                line=line,
            )


def _first_use(program: ExportedProgram, constant: str) -> tuple[str, int]:
    names = {spec.arg.name for spec in program.graph_signature.input_specs if spec.target == constant}
    for node in program.graph.nodes:
        if any(source.name in names for source in node.all_input_nodes):
            return stack_place(node.meta.get("stack_trace"))
    return "", 0


def _device_types(model: nn.Module) -> list[str]:
    return sorted({"cpu", *(parameter.device.type for parameter in model.parameters())} - {"meta"})


STAGE = Stage(
    run,
    rules=(FAKES_LEFT, FAKE_CONSTANT, WEIGHTS, UNUSED_STATE, DYNAMIC_SHAPES, IDENTIFIERS, AUTOCAST, SOURCE),
    follows=("eager",),
    every_rank=True,
)
