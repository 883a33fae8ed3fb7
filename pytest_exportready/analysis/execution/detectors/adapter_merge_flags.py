"""Find adapters whose ``merged`` flag is set although the recorded output shows that they are not merged."""

from __future__ import annotations

from typing import Any

from torch import nn

from pytest_exportready.analysis.execution.call import Call, run
from pytest_exportready.analysis.execution.compare import Tolerance, compare
from pytest_exportready.analysis.execution.global_state import global_state_kept
from pytest_exportready.analysis.execution.pytree import distinct, named_leaves
from pytest_exportready.analysis.module.lora import merged_modules
from pytest_exportready.analysis.module.snapshot import preserved


def wrong_merge_flags(model: nn.Module, call: Call, golden: Any, tolerance: float) -> list[str]:
    """Return the names of the ``merged`` flags that ``model`` needs cleared to give ``golden``; empty if that fails."""
    merged = {name: module for name, module in merged_modules(model).items() if "merged" in vars(module)}
    if not merged:
        return []
    try:
        with preserved(model), global_state_kept():
            model.eval()
            for module in merged.values():
                vars(module)["merged"] = False
            output = run(model, [call])[0]
    except Exception:
        return []
    agree = compare(*aligned(golden, output), Tolerance(relative=tolerance)).agree
    return [f"{name}.merged".removeprefix(".") for name in merged] if agree else []


def aligned(golden: object, output: object) -> tuple[list[object], list[object]]:
    """Return the leaves of both: by path if they have the same paths (dicts may differ in order), else in order."""
    recorded, given = dict(named_leaves(distinct(golden))), dict(named_leaves(output))
    paths = given if given.keys() == recorded.keys() else recorded
    return [recorded[path] for path in paths], list(given.values())
