"""Run a program on another device, in the loader process: this process does not start CUDA for it."""

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch.export import ExportedProgram

from pytest_exportready.analysis.execution.machine_faults import fault_in
from pytest_exportready.analysis.execution.pytree import flatten, map_tensors, unflatten
from pytest_exportready.analysis.execution.trial import Exported, Trial
from pytest_exportready.analysis.processes.child import ProcessDied, TookTooLong
from pytest_exportready.analysis.processes.loader import load
from pytest_exportready.analysis.processes.loader_client import LOADER
from pytest_exportready.analysis.processes.saved_program import OUTPUTS, PROGRAM, name_of, requests
from pytest_exportready.case.sanitize import exception_text

SECONDS = 600.0


class DoesNotRun(Exception):
    """The program raised an exception on the device, which is the message."""


class CannotReload(Exception):
    """The program cannot be saved, or not be loaded in another process; the message is the reason."""


@cache
def is_available(device: torch.device) -> bool:
    """Return whether this machine has ``device`` and this build of torch can use it.

    Raises:
        LoaderGone: The loader process ended.
    """
    if device.type == "meta" or (device.type == "cuda" and not torch.backends.cuda.is_built()):  # type: ignore[no-untyped-call]
        return False
    with tempfile.TemporaryDirectory(prefix="exportready-") as folder:
        request = {"function": name_of(find), "device": str(device), "hide_cuda": False}
        try:
            return "error" not in LOADER.ask({**request, "reply": f"{folder}/reply.json"}, SECONDS)
        except ProcessDied:
            return False


def output_on(trial: Trial, program: ExportedProgram, device: torch.device) -> Any:
    """Return the output of a ``program`` that names no device for the example inputs on ``device``, as CPU tensors.

    Raises:
        CannotReload: The program cannot be saved, or loaded in another process.
        DoesNotRun: The program fails there.
        TookTooLong: It runs for more than SECONDS.
        MachineFault: The device fails.
        LoaderGone: The loader process ended.
    """
    moved = Trial(trial.case, trial.options, trial.mode, exported=Exported(program))
    with tempfile.TemporaryDirectory(prefix="exportready-") as name:
        folder = Path(name)
        try:
            torch.export.save(program, folder / PROGRAM)
        except Exception as error:
            raise CannotReload(exception_text(error)) from error
        reply: dict[str, Any] = {}
        for request in requests(moved, folder, [trial.call], run_there, device=str(device)):
            try:
                reply = LOADER.ask({**request, "hide_cuda": False}, SECONDS)
            except TookTooLong:
                raise
            except ProcessDied as error:
                raise DoesNotRun(str(error)) from None
            if "load" in reply:
                continue  # the next request imports more before it loads
            if not reply:
                leaves = torch.load(folder / OUTPUTS, weights_only=True)
                return unflatten(leaves, flatten(trial.reference.output(trial.call))[1])
            raise fault_in(reply["error"]) or DoesNotRun(reply["error"])
    raise CannotReload(reply["load"])


def find(request: dict[str, Any]) -> dict[str, Any]:
    """Raise an exception if this machine does not have the device of the request."""
    torch.empty(1, device=request["device"])
    return {}


def run_there(request: dict[str, Any]) -> dict[str, Any]:
    """Run a saved program on the device of the request, and write its outputs as CPU tensors.

    The reply is empty, or has the error under ``load`` if the program cannot be loaded.
    """
    try:
        program, ((args, kwargs),) = load(request)
    except Exception as error:
        return {"load": exception_text(error)}
    device = torch.device(request["device"])
    with torch.no_grad():
        args, kwargs = map_tensors(lambda tensor: tensor.to(device), (args, kwargs))
        outputs = flatten(program.module().to(device)(*args, **kwargs))[0]
    torch.save(map_tensors(lambda tensor: tensor.detach().cpu(), outputs), request["outputs"])
    return {}
