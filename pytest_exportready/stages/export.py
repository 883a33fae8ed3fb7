"""torch.export of the prepared module: it succeeds, and leaves the user's module as it was."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn
from torch.export import ExportedProgram

from pytest_exportready.analysis.execution.detectors.unregistered_parameters import foreign_parameters
from pytest_exportready.analysis.execution.dynamic_shapes import by_name, declared, dynamic_shapes, name_arguments
from pytest_exportready.analysis.execution.pytree import distinct, flatten
from pytest_exportready.analysis.execution.trial import Exported, Observation, Trial
from pytest_exportready.analysis.module.sharding import sharded_parameters, sharding_modules
from pytest_exportready.analysis.module.snapshot import preserved
from pytest_exportready.analysis.program.constant_weights import FrozenWeight, foreign_weights, frozen_weights
from pytest_exportready.analysis.program.invalid_identifiers import unspellable_names
from pytest_exportready.analysis.program.unused_state import unread_state
from pytest_exportready.analysis.source.user_frames import stack_place
from pytest_exportready.analysis.torch_internals.tensors import is_fake
from pytest_exportready.case.export_case import CaseError
from pytest_exportready.case.facts import NODES, SECONDS
from pytest_exportready.case.finding import Finding, Rule
from pytest_exportready.case.wording import counted, few
from pytest_exportready.checks import all_checks
from pytest_exportready.checks._check import Subject
from pytest_exportready.checks._inspection import inspect_program
from pytest_exportready.checks._remedies import apply_remedies
from pytest_exportready.diagnosis import diagnose
from pytest_exportready.diagnosis._diagnosis import Failure
from pytest_exportready.diagnosis.reproduce.verified import reproduced
from pytest_exportready.stages._source_lines import RULE as SOURCE, other_lines
from pytest_exportready.stages._stage import SkipStage, Stage, StageInfrastructure

TRACES = Rule(
    "ER120",
    "export_leaves_no_trace",
    "Non-strict export can leave FakeTensors on the module it was given: caches and attributes that forward "
    "assigns then hold tensors without data, and the next call fails or the next export bakes them in. The plugin"
    " restores the module; a script of yours has to export a copy or clear these attributes.",
)
FAKE_CONSTANT = Rule(
    "ER121",
    "no_fake_constant",
    "The program stores a FakeTensor, a tensor without data, as a constant: what it computes has no values.",
)
WEIGHTS = Rule(
    "ER123",
    "weights_not_constants",
    "A parameter that forward reaches through a plain list, dict or attribute is no weight for the program but an"
    " anonymous constant: loading new weights by name changes nothing. A layer in a plain list is unknown to "
    "parameters() besides: it was never trained nor saved.",
)
UNREAD = Rule(
    "ER143",
    "no_unused_state",
    "Parameters and buffers that the program keeps in its state dict and never reads: a head for training only, a "
    "layer that was left out. They cost memory; nothing else is wrong with them.",
)
SPEC = Rule(
    "ER122",
    "dynamic_shapes_fit",
    "The dynamic shapes asked for do not fit the example inputs.",
)
NAMES = Rule(
    "ER125",
    "names_are_identifiers",
    "torch writes Python code of an exported program, in which nothing can have the name of a keyword, or one with a "
    "quote: add_module and ModuleDict take such names, and the program that holds them can never run.",
)
AUTOCAST = Rule(
    "ER124",
    "no_autocast_around",
    "The export must not be called inside torch.autocast: an autocast context around torch.export is not recorded, the "
    "program computes in the dtypes of the weights, and nothing is said. Enter autocast in forward, where it is "
    "recorded, or convert the module.",
)


def run(trial: Trial) -> Iterator[Observation]:
    if trial.eager_error is not None:
        raise SkipStage("the trained module itself does not run")
    yield from _export(trial)
    yield from trial.on_export(trial)
    if trial.program is not None:
        subject = Subject.of(trial.case, trial.options)
        yield from inspect_program(all_checks(), trial.program, subject, trial.failed_checks)
    if trial.mode == trial.options.modes[0]:
        yield from other_lines(trial)


def _export(trial: Trial) -> Iterator[Observation]:
    case = trial.case
    around = [kind for kind in _device_types(case.model) if torch.is_autocast_enabled(kind)]
    if around:
        dtype = str(torch.get_autocast_dtype(around[0])).removeprefix("torch.")
        yield AUTOCAST.error(
            "",
            f'called inside torch.autocast("{around[0]}", {dtype}), which torch.export does not record: the program '
            "would not compute what the module computes there",
            f'put `with torch.autocast("{around[0]}", torch.{dtype}):` into forward, or export outside of it',
        )
        return
    if sharding_modules(case.model) or sharded_parameters(case.model):
        why = "its parameters are sharded over the ranks"
        raise (StageInfrastructure if "ER318" in trial.options.ignore else SkipStage)(why)  # unproved is never ready
    subject = Subject(model=case.model)
    with preserved(case.model):
        prepared = tuple(apply_remedies(subject))
        with preserved(subject.model) as clean:
            try:
                program, seconds = _exported(trial, subject.model)
            except CaseError as error:
                yield Exported(prepared=prepared)
                fix = error.fix or "declare dynamic only dimensions that the example inputs have"
                yield SPEC.error("", error.problem, fix)
                return
            except Exception as error:
                made = reproduced(trial, subject.model, error)
                yield Exported(None, error, prepared, made.script, made.why_not)
                yield diagnose(Failure(error, subject.model, trial))
                return
            left = [change.where for change in clean.changes() if _holds_fake(change.now)]
            frozen = list(frozen_weights(program, subject.model))
            if _could_be_weights(program, {weight.constant for weight in frozen}):
                frozen += foreign_weights(program, foreign_parameters(subject.model, (case.args, case.kwargs)))
        _own_storage(program)
    yield Exported(program, prepared=prepared)
    yield {SECONDS: seconds, NODES: len(program.graph.nodes)}
    if left:
        yield TRACES.warning(
            left[0],
            f"torch.export left FakeTensors on the module: {few(left, 5)}; they were taken away again",
            "export a copy of the module, or assign these attributes outside forward",
        )
    yield from _frozen(frozen, program)
    odd = unspellable_names(program)
    if odd:
        problem = f"the program cannot run: Python has no such name as {few(map(repr, odd))}"
        yield NAMES.error(few(odd), problem, "give it another name")
    unread = [name for name in unread_state(program) if name not in {weight.registered for weight in frozen}]
    if unread:
        yield UNREAD.note(few(unread), "kept in the state dict, never read by the program")
    for name, value in program.constants.items():
        if is_fake(value):
            file, line = _first_use(program, name)
            yield FAKE_CONSTANT.error(
                name,
                "the program stores a FakeTensor as this constant and returns tensors without values",
                "make the constant a Python number or a registered buffer (a numpy scalar becomes "
                "float(...)), "
                "or export with strict=False",
                file=file,
                line=line,
            )


def _could_be_weights(program: ExportedProgram, explained: set[str]) -> bool:
    """Whether there are constants of numbers, besides single ones, that are not explained."""
    rest = (value for name, value in program.constants.items() if name not in explained)
    return any(isinstance(value, torch.Tensor) and value.is_floating_point() and value.dim() for value in rest)


def _frozen(weights: list[FrozenWeight], program: ExportedProgram) -> Iterator[Finding]:
    aliases = [f"{weight.place} is {weight.registered}" for weight in weights if weight.registered]
    if aliases:
        yield WEIGHTS.error(
            few(aliases),
            f"forward reads {counted(len(aliases), 'parameter')} through an alias, a constant in the program",
            "read the parameter itself (self.w) in forward, or export with strict=True",
        )
    hidden = [weight for weight in weights if not weight.registered]
    if hidden:
        tell = WEIGHTS.error if any(weight.trained for weight in hidden) else WEIGHTS.warning
        file, line = _first_use(program, hidden[0].constant)
        yield tell(
            few(weight.place for weight in hidden),
            f"{counted(len(hidden), 'weight')} registered nowhere: not in parameters(), not in the state dict, "
            "constants in the program",
            "make them attributes of the module: several layers as nn.ModuleList or nn.ModuleDict, parameters as "
            "nn.ParameterList",
            file=file,
            line=line,
        )


def _exported(trial: Trial, module: torch.nn.Module) -> tuple[ExportedProgram, float]:
    """Return the program, and the seconds that torch.export took."""
    call = trial.call
    shapes = dynamic_shapes(module, call, trial.options)
    if shapes is not None:
        shapes = by_name(module, call, shapes)
        name_arguments(module, call)
    args, kwargs = distinct(call)
    started = time.perf_counter()
    program = torch.export.export(module, args, kwargs, dynamic_shapes=shapes, strict=trial.mode == "strict")
    seconds = round(time.perf_counter() - started, 3)
    declared(module, call, shapes)  # strict export passes over a dimension that an input has not
    return program, seconds


def _holds_fake(value: Any) -> bool:
    return any(isinstance(leaf, torch.Tensor) and is_fake(leaf) for leaf in flatten(value)[0])


def _own_storage(program: ExportedProgram) -> None:
    """Give the program's state and constants storage of their own; tensors that shared storage go on
    sharing."""
    copies: dict[int, Any] = {}
    for table in (program.state_dict, program.constants):
        for name, value in table.items():
            if isinstance(value, torch.Tensor) and not is_fake(value):
                if id(value) not in copies:
                    copies[id(value)] = _copy(value, copies)
                table[name] = copies[id(value)]


def _copy(tensor: torch.Tensor, copies: dict[int, Any]) -> torch.Tensor:
    if tensor.layout != torch.strided or tensor.is_meta or type(tensor) not in (torch.Tensor, torch.nn.Parameter):
        copied = tensor.detach().clone()
        return torch.nn.Parameter(copied, tensor.requires_grad) if isinstance(tensor, torch.nn.Parameter) else copied
    storage = tensor.untyped_storage()
    key = storage.data_ptr()
    if key not in copies or not key:
        copies[key] = storage.clone()  # type: ignore[no-untyped-call]
    copy = torch.empty(0, dtype=tensor.dtype, device=tensor.device)
    copy.set_(copies[key], tensor.storage_offset(), tensor.size(), tensor.stride())
    if isinstance(tensor, torch.nn.Parameter):
        return torch.nn.Parameter(copy, requires_grad=tensor.requires_grad)
    return copy


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
    rules=(TRACES, FAKE_CONSTANT, WEIGHTS, UNREAD, SPEC, NAMES, AUTOCAST, SOURCE),
    follows=("eager",),
    every_rank=True,
)
