"""Adapters that say they are merged while the recorded output says they are not."""

from __future__ import annotations

from typing import Any

from torch import nn

from pytest_exportready.analysis.execution.call import Call, run
from pytest_exportready.analysis.execution.compare import Tolerance, compare
from pytest_exportready.analysis.execution.global_state import global_state_kept
from pytest_exportready.analysis.execution.pytree import distinct, named_leaves
from pytest_exportready.analysis.module.lora import merged_modules
from pytest_exportready.analysis.module.snapshot import preserved


def lying_flags(model: nn.Module, call: Call, golden: Any, tolerance: float) -> list[str]:
    """Names of flags ``merged`` without which ``model`` gives ``golden`` again; empty when it is not their fault."""
    merged = {name: module for name, module in merged_modules(model).items() if "merged" in vars(module)}
    if not merged:
        return []
    try:
        with preserved(model), global_state_kept():
            model.eval()
            for module in merged.values():
                vars(module)["merged"] = False
            answer = run(model, [call])[0]
    except Exception:
        return []
    agree = compare(*aligned(golden, answer), Tolerance(relative=tolerance)).agree
    return [f"{name}.merged".removeprefix(".") for name in merged] if agree else []


def aligned(golden: object, output: object) -> tuple[list[object], list[object]]:
    """Leaves of both: by path where they have the same paths (a dict may be ordered otherwise), else in order."""
    recorded, given = dict(named_leaves(distinct(golden))), dict(named_leaves(output))
    paths = given if given.keys() == recorded.keys() else recorded
    return [recorded[path] for path in paths], list(given.values())
