"""Requests to the loader process: load a saved program, and run a function with it and the inputs of calls."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import torch

from pytest_exportready.analysis.execution.call import Call
from pytest_exportready.analysis.execution.pytree import classes_of, distinct, named_leaves
from pytest_exportready.analysis.execution.trial import Trial
from pytest_exportready.analysis.program.nodes import on_cpu

PROGRAM = "program.pt2"
OUTPUTS = "outputs.pt"


def requests(
    trial: Trial, folder: Path, calls: list[Call], function: Callable[..., dict[str, Any]], **arguments: Any
) -> Iterator[dict[str, Any]]:
    """Yield a request without imports, then others that import more and more modules before the program is loaded.

    Args:
        trial: Its program is in ``folder``, where inputs, outputs and reply are written as well.
        function: A function of a module, which is called with the request.
        arguments: JSON data that becomes part of the request.
    """
    assert trial.program is not None
    torch.save([_inputs(call, calls[0]) for call in calls], folder / "inputs.pt")
    request = {
        **arguments,
        "function": name_of(function),
        "folder": str(folder),
        "program": str(folder / PROGRAM),
        "inputs": str(folder / "inputs.pt"),
        "outputs": str(folder / OUTPUTS),
        "threads": torch.get_num_threads(),
        "hide_cuda": on_cpu(trial.program),
        "imports": [],
        "sys_path": [],
    }
    yield {**request, "reply": str(folder / "reply0.json")}
    for number, imports in enumerate(_imports(trial), 1):
        path = _search_path(imports)
        yield {**request, "imports": imports, "sys_path": path, "reply": str(folder / f"reply{number}.json")}


def name_of(function: Callable[..., object]) -> str:
    """Return the name from which the loader finds ``function``."""
    return f"{function.__module__}:{function.__qualname__}"


def _inputs(call: Call, example: Call) -> list[Any]:
    """Return the leaves of ``call`` in the order of the example, which is that of the program's spec."""
    leaves = dict(named_leaves(distinct(call)))
    ordered = [leaves[path] for path, _ in named_leaves(example) if path in leaves]
    ordered = ordered if len(ordered) == len(leaves) else list(leaves.values())
    return [x.detach() if isinstance(x, torch.Tensor) else x for x in ordered]


def _imports(trial: Trial) -> list[list[str]]:
    """Return the modules to import before loading: those of the input and output classes, then the model's as well."""
    assert trial.program is not None
    spec = trial.program.call_spec
    classes = set().union(*(classes_of(s) for s in (spec.in_spec, spec.out_spec) if s is not None))
    owners = _importable(kind.__module__ for kind in classes)
    both = _importable([*owners, *(type(m).__module__ for m in trial.reference.module.modules())])
    return [names for names in ([owners] if owners == both else [owners, both]) if names]


def _search_path(imports: list[str]) -> list[str]:
    """Return ``sys.path`` and the folders of ``imports``: pytest imports test files by path, too."""
    roots = []
    for name in imports:
        file = getattr(sys.modules.get(name), "__file__", None)
        if file:
            path = Path(file).with_suffix("")
            path = path.parent if path.name == "__init__" else path
            if path.parts[-name.count(".") - 1 :] == tuple(name.split(".")):
                roots.append(str(path.parents[name.count(".")]))
    return list(dict.fromkeys(p for p in [*sys.path, *roots] if p))


def _importable(modules: Iterable[str]) -> list[str]:
    return sorted({name for name in modules if name.split(".")[0] not in ("torch", "builtins", "__main__")})
