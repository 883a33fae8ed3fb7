"""The saved program, loaded in a fresh process, gives the same outputs under the same names."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import torch

from pytest_exportready.analysis.execution.call import Call
from pytest_exportready.analysis.execution.compare import Comparison, compare, summary
from pytest_exportready.analysis.execution.machine_faults import fault_in, machine_fault
from pytest_exportready.analysis.execution.pytree import flatten, named_leaves
from pytest_exportready.analysis.execution.trial import Observation, Trial
from pytest_exportready.analysis.module.wrappers import inner_wrappers
from pytest_exportready.analysis.processes.child import ProcessDied, TookTooLong, in_child
from pytest_exportready.analysis.processes.loader import load_and_run
from pytest_exportready.analysis.processes.loader_client import LOADER, LoaderGone
from pytest_exportready.analysis.processes.saved_program import OUTPUTS, PROGRAM, requests
from pytest_exportready.analysis.processes.warm_up import rehearse
from pytest_exportready.analysis.program.nodes import on_cpu
from pytest_exportready.analysis.torch_internals.cuda import cuda_hidden
from pytest_exportready.case.facts import BYTES
from pytest_exportready.case.finding import Finding
from pytest_exportready.case.sanitize import plain, without_tensors
from pytest_exportready.case.wording import few
from pytest_exportready.stages._reload_rules import AGREES, LOADS, NAMES, NEEDS_IMPORT, SAVES
from pytest_exportready.stages._stage import Stage, StageInfrastructure

SECONDS = 300.0  # for saving, and for loading and running
_SLOW = "Use a faster machine."
_MACHINE_FAULT = re.compile(r"^(OSError|PermissionError)|PytorchStreamWriter failed")


def run(trial: Trial) -> Iterator[Observation]:
    LOADER.ensure_started()
    with tempfile.TemporaryDirectory(prefix="exportready-") as folder:
        yield from _reload(trial, Path(folder))


def _reload(trial: Trial, folder: Path) -> Iterator[Observation]:
    program = trial.program
    assert program is not None
    path = folder / PROGRAM
    try:
        _save(program, path)
    except TookTooLong as error:
        raise StageInfrastructure(f"torch.export.save {error}", _SLOW) from error
    except (RuntimeError, OSError, ProcessDied) as error:
        text = without_tensors(str(error))
        if (fault := machine_fault(error)) is not None:
            raise fault from error
        if isinstance(error, OSError) or _MACHINE_FAULT.search(text):
            raise StageInfrastructure(
                f"the program cannot be written: {text}", "Free memory and disk space."
            ) from error
        yield SAVES.error("", "torch.export.save fails.", _fix_of_saving(text), torch_says=text)
        return
    yield {BYTES: path.stat().st_size}
    missing = sorted(set(trial.reference.module.state_dict()) - set(program.state_dict))
    if missing and not inner_wrappers(trial.reference.module):  # a check reports wrappers inside the module
        yield _names(missing, "The program's state dict lacks names of the module's state dict")
    calls = [trial.call, *(trial.more_calls if trial.case.stateful_calls else [])]
    reply = yield from _load(trial, folder, calls)
    if reply is None:
        return
    changed = sorted(set(program.state_dict) ^ set(reply["names"]))
    if changed:
        yield _names(changed, "Names in the program's state dict change when it is saved and loaded")
    loaded = torch.load(folder / OUTPUTS, weights_only=True)
    results: list[Comparison] = []
    for expected, actual in zip(trial.reference.outputs(calls), loaded, strict=True):
        results.append(compare(flatten(expected)[0], actual, trial.tolerance))
        if not results[-1].agree:
            yield AGREES.error(
                results[-1].where,
                f"After saving and loading, differs from the eager module{trial.in_mode}: {results[-1].problem}.",
                "Look for constants and buffers that `torch.export.save` does not keep: views, subclasses, caches.",
            )
            break
    yield summary(results)


def _names(names: list[str], problem: str) -> Finding:
    fix = "Export the module whose names the checkpoint has."
    return NAMES.error(names[0], f"{problem}: {few(names, 5)}.", fix)


def _save(program: torch.export.ExportedProgram, path: Path) -> None:
    if not on_cpu(program):
        torch.export.save(program, path)  # a forked child cannot read the memory of a GPU
        return
    rehearse()
    with cuda_hidden():
        in_child(lambda: torch.export.save(program, path), SECONDS)


def _fix_of_saving(text: str) -> str:
    if "namedtuple" in text:
        return "Return a dict, a tuple or a registered dataclass; `torch.export.save` does not support namedtuples."
    if "serialization name" in text or "serialized_type_name" in text:
        return 'Register the class with a name: `torch.export.register_dataclass(..., serialized_type_name="...")`.'
    return "Keep sparse and quantized tensors, and objects of your own classes, out of the state and the outputs."


def _load(trial: Trial, folder: Path, calls: list[Call]) -> Generator[Finding, None, dict[str, Any] | None]:
    """Load and run the program in a fresh process, with imports if it fails without; return the reply."""
    without_imports, *others = requests(trial, folder, calls, load_and_run)
    try:
        reply = first = LOADER.ask(without_imports, SECONDS)
        for request in others if "error" in first else []:
            reply = LOADER.ask(request, SECONDS)
            if "error" not in reply:
                names = ", ".join(request["imports"])
                message = f"The program can only be loaded after `import {names}`."
                yield NEEDS_IMPORT.note("", message, f"Add `import {names}` before `torch.export.load`.")
                break
    except LoaderGone as error:
        raise StageInfrastructure(str(error), "Run it again; free memory if this persists.") from error
    except TookTooLong as error:
        raise StageInfrastructure(f"loading and running the saved program {error}", _SLOW) from error
    except ProcessDied as error:
        fix = "Run `torch.export.load` on the saved file to see where it crashes."
        yield LOADS.error("", "Loading the saved program crashes the process.", fix, torch_says=str(error))
        return None
    if "error" in reply:
        if (fault := fault_in(reply["error"])) is not None:
            raise fault
        yield LOADS.error(
            "",
            "The saved program does not load and run in a fresh process.",
            _fix_of_loading(trial, calls[0]),
            torch_says=plain(without_tensors(first["error"]), 300),
        )
        return None
    return reply


def _fix_of_loading(trial: Trial, call: Call) -> str:
    strings = [path for path, leaf in named_leaves(trial.reference.output(call)) if isinstance(leaf, str)]
    if strings:
        return f"Return no strings (output{strings[0]}): `torch.export.load` does not read them back."
    return "Register its classes and operators in a module that can be imported."


STAGE = Stage(run, rules=(SAVES, LOADS, AGREES, NAMES, NEEDS_IMPORT), after=("parity",))
