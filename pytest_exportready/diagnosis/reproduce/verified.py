"""Write a failed export as one file, and run it in a new process to verify that it fails in the same way."""

from __future__ import annotations

import re
import tempfile
from dataclasses import dataclass
from pathlib import Path

from torch import nn

from pytest_exportready.analysis.execution.dynamic_shapes import by_name, dynamic_shapes
from pytest_exportready.analysis.execution.trial import Trial
from pytest_exportready.analysis.processes.child import ProcessDied
from pytest_exportready.analysis.processes.loader import run_script
from pytest_exportready.analysis.processes.loader_client import LOADER, LoaderGone
from pytest_exportready.analysis.processes.saved_program import name_of
from pytest_exportready.case.sanitize import exception_text
from pytest_exportready.diagnosis.reproduce.origin import Unreproducible
from pytest_exportready.diagnosis.reproduce.script import script

SECONDS = 30.0


@dataclass(frozen=True)
class Reproduced:
    """A verified reproducer, or the reason why there is none."""

    script: str = ""
    why_not: str = ""


def reproduced(trial: Trial, module: nn.Module, error: Exception) -> Reproduced:
    """Return a script that raises what the export of ``module`` raised, or why there is none."""
    call = trial.call
    try:
        shapes = dynamic_shapes(module, call, trial.options)
        named = None if shapes is None else by_name(module, call, shapes)
        text = script(module, *call, named, error, strict=trial.mode == "strict")
        _verify(text, error)
    except (Unreproducible, ProcessDied, LoaderGone, OSError) as reason:
        return Reproduced(why_not=str(reason))
    except (Exception, SystemExit) as reason:  # an attribute that raises when it is read
        return Reproduced(why_not=exception_text(reason))
    return Reproduced(text)


def _verify(text: str, error: Exception) -> None:
    """Raise Unreproducible unless the script raises the same error."""
    with tempfile.TemporaryDirectory(prefix="exportready-") as folder:
        path = Path(folder) / "reproduce.py"
        path.write_text(text, encoding="utf-8")
        request = {"function": name_of(run_script), "script": str(path), "hide_cuda": False}
        raised = LOADER.ask({**request, "reply": f"{folder}/reply.json"}, SECONDS)
    kinds = [type(link).__name__ for link in (error, error.__cause__ or error.__context__) if link is not None]
    if "error" in raised or raised["raised"] != kinds:
        actual = raised.get("error") or " from ".join(raised["raised"]) or "nothing"
        raise Unreproducible(f"the script raises {actual} instead of {' from '.join(kinds)}")
    if _skeleton(raised["message"]) != _skeleton(str(error)):
        raise Unreproducible(f"the script raises another {kinds[0]}")


def _skeleton(message: str) -> str:
    """Return the beginning of a message without numbers, quoted names and paths."""
    first = next((line for line in message.splitlines() if line.strip()), "")
    return re.sub(r"\d+|'[^']*'|\"[^\"]*\"|\S*/\S*", "", first)[:120].strip()
