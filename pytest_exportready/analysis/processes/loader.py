"""The process that loads a program as its consumer would: with torch, and without the user's code.

It reads one JSON request per line and replies with one JSON line. It forks for each request, so that torch is imported
once and every load happens in a fresh process, which can use CUDA; a crash ends the child only.
"""

from __future__ import annotations

import json
import os
import runpy
import signal
import sys
import time
import traceback
from contextlib import nullcontext
from importlib import import_module
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

from pytest_exportready.analysis.torch_internals.first_import import import_torch

if TYPE_CHECKING:
    from torch.export import ExportedProgram

    from pytest_exportready.analysis.execution.call import Call


def load(request: dict[str, Any]) -> tuple[ExportedProgram, list[Call]]:
    """Load a program and the inputs of calls."""
    import torch

    from pytest_exportready.analysis.execution.pytree import unflatten

    torch.set_num_threads(request["threads"])  # another order of summation would not be bitwise equal
    sys.path[:0] = request["sys_path"]
    for name in request["imports"]:
        import_module(name)
    program = torch.export.load(request["program"])
    leaves = torch.load(request["inputs"], weights_only=True)
    return program, [unflatten(flat, program.call_spec.in_spec) for flat in leaves]


def load_and_run(request: dict[str, Any]) -> dict[str, Any]:
    """Load a program, write its outputs for the given inputs, and return its names."""
    import torch

    from pytest_exportready.analysis.execution.pytree import flatten

    program, calls = load(request)
    module = program.module()
    outputs = []
    with torch.no_grad():
        for args, kwargs in calls:
            given = flatten(module(*args, **kwargs))[0]
            outputs.append([x.detach().clone() if isinstance(x, torch.Tensor) else x for x in given])
    torch.save(outputs, request["outputs"])
    return {"names": list(program.state_dict), "out_spec_leaves": program.call_spec.out_spec.num_leaves}


def run_script(request: dict[str, Any]) -> dict[str, Any]:
    """Run a script and return the names of the exception and of its cause, and the message."""
    try:
        runpy.run_path(request["script"], run_name="__main__")
    except Exception as error:
        kinds = [type(link).__name__ for link in (error, error.__cause__ or error.__context__) if link is not None]
        return {"raised": kinds, "message": str(error)}
    return {"raised": [], "message": ""}


def serve_one(request: dict[str, Any]) -> None:
    """Serve a request in the child. The reply goes to a file, so that a crash differs from an error."""
    try:
        from pytest_exportready.analysis.torch_internals.cuda import cuda_hidden
        from pytest_exportready.analysis.torch_internals.numerics import full_precision

        with cuda_hidden() if request["hide_cuda"] else nullcontext(), full_precision():
            reply = resolve_name(request["function"])(request)
    except BaseException as error:
        reply = {"error": f"{type(error).__name__}: {error}", "trace": traceback.format_exc()[-4000:]}
    with open(request["reply"], "w", encoding="utf-8", errors="replace") as file:
        json.dump(reply, file)


def main() -> None:
    import_torch()
    from pytest_exportready.analysis.processes.warm_up import rehearse

    rehearse()
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # keep what the program prints out of the replies
    print("ready", file=replies, flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        child = os.fork()
        if child == 0:
            try:
                serve_one(request)
            finally:
                os._exit(0)
        late, status = wait(child, request["seconds"])
        print(json.dumps({"exit": os.waitstatus_to_exitcode(status), "late": late}), file=replies, flush=True)


def wait(child: int, seconds: float) -> tuple[bool, int]:
    """Return whether the child was killed after ``seconds``, and its exit status."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return False, status
        time.sleep(0.005)
    os.kill(child, signal.SIGKILL)
    return True, os.waitpid(child, 0)[1]
