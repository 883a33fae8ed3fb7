"""The overhead of the harness over a bare script that does the same work on the reference models.

    python tests/benchmarks/harness_overhead.py [PAIRS]

CPU seconds, children included, of ``pytest --export-ready`` against ``bare()`` below: the same training steps, export,
forward passes of module and program on the same inputs and sizes, saving, and loading in one fresh process. In turn;
prints the ratio of the smallest of each (limit 1.05), as other load of the machine only adds.
"""

from __future__ import annotations

import importlib
import os
import pkgutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

PYTEST = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--export-ready", "-k", "plain"]
LOAD = """\
import sys, pathlib, torch, torch.export
with torch.no_grad():
    for path in sorted(pathlib.Path(sys.argv[1]).glob("*.pt2")):
        module = torch.export.load(path).module()
        for args, kwargs in torch.load(path.with_suffix(".inputs"), weights_only=True):
            module(*args, **kwargs)
"""


def bare(folder: Path) -> None:
    import exportready_reference_models as models

    for info in pkgutil.iter_modules(models.__path__):
        module = importlib.import_module(f"{models.__name__}.{info.name}")
        one_model(getattr(module, f"test_{info.name}"), folder / info.name)
    subprocess.run([sys.executable, "-c", LOAD, str(folder)], check=True)


def one_model(declared: Any, stem: Path) -> None:
    import torch

    from pytest_exportready.analysis.execution.dynamic_shapes import declared as dims_of, dynamic_shapes
    from pytest_exportready.analysis.execution.input_variants import resized, variations
    from pytest_exportready.analysis.execution.pytree import flatten
    from pytest_exportready.analysis.execution.symbolic_sizes import symbolic_sizes
    from pytest_exportready.case.export_case import as_case
    from pytest_exportready.case.options import CaseOptions
    from pytest_exportready.stages._other_sizes import other_sizes

    marker = next(mark for mark in declared.pytestmark if mark.name == "export_ready")
    options = CaseOptions(**{k: v for k, v in marker.kwargs.items() if k.startswith("dynamic")})
    case = as_case(declared())
    model, call = case.model, (case.args, dict(case.kwargs))
    if not case.stateful_calls:
        train(model, call)
    spec = dynamic_shapes(model, call, options)
    program = torch.export.export(model, *call, dynamic_shapes=spec)
    calls = [call, *((tuple(a), dict(k)) for a, k in case.more_inputs)]
    with torch.no_grad():
        model(*call[0], **call[1])  # twice: the harness checks determinism
        if not case.stateful_calls:
            symbols = symbolic_sizes(program)
            dims = [dim for dim in dims_of(model, call, spec) if (dim.leaf, dim.dim) in symbols]
            sizes = [other.sizes for other in other_sizes(program, flatten(call)[0], dims, symbols)]
            calls = [call, next(variations(call, 1))] + [next(variations(resized(call, s), 3)) for s in sizes]
        runner = program.module()
        for args, kwargs in calls:
            model(*args, **kwargs)
            runner(*args, **kwargs)
    torch.export.save(program, stem.with_suffix(".pt2"))
    again = calls if case.stateful_calls else calls[:1]
    torch.save([(list(a), k) for a, k in again], stem.with_suffix(".inputs"))


def train(model: Any, call: Any) -> None:
    import torch

    from pytest_exportready.analysis.execution.pytree import distinct, flatten

    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    model.train()
    for _ in range(3):
        args, kwargs = distinct(call)
        outputs = [x for x in flatten(model(*args, **kwargs))[0] if isinstance(x, torch.Tensor) and x.requires_grad]
        sum(x.square().mean() for x in outputs).backward()
        optimizer.step()
        optimizer.zero_grad()
    model.eval()


def cpu_seconds(command: list[str], folder: Path) -> float:
    before = os.times()
    subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system


def main(pairs: int) -> None:
    script = [sys.executable, str(Path(__file__).resolve()), "--bare"]
    with tempfile.TemporaryDirectory() as name:
        cpu_seconds(PYTEST, Path(name)), cpu_seconds([*script, name], Path(name))
        times = [(cpu_seconds(PYTEST, Path(name)), cpu_seconds([*script, name], Path(name))) for _ in range(pairs)]
    ratio = min(harness for harness, _ in times) / min(alone for _, alone in times)
    print(f"reference models: harness / bare script = {ratio:.3f} (limit 1.05)")
    print("CPU seconds: " + " ".join(f"{harness:.1f}/{alone:.1f}" for harness, alone in times))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--bare"]:
        bare(Path(sys.argv[2]))
    else:
        main(int(sys.argv[1]) if sys.argv[1:] else 3)
