"""The script of a reproducer: definitions, the module, and the export that fails."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from pytest_exportready.case.sanitize import exception_text
from pytest_exportready.diagnosis.reproduce.origin import Unreproducible
from pytest_exportready.diagnosis.reproduce.skeleton import HOLLOW, Skeleton
from pytest_exportready.diagnosis.reproduce.source import FUTURE
from pytest_exportready.diagnosis.reproduce.values import without_places

LIMIT = 16_000
"""Characters. A longer script does not help to find the error, and does not fit into a report."""


def script(
    module: nn.Module,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    dynamic_shapes: Any,
    error: BaseException,
    *,
    strict: bool,
) -> str:
    """Return a Python file that exports ``module`` with the same arguments and should fail with ``error``.

    Weights are ones, inputs ones and zeros: contents are never written. Raise Unreproducible.
    """
    skeleton = Skeleton()
    skeleton.classes(module.modules())
    model = skeleton.module(module)
    call = f"{model}, args, kwargs, strict={strict}"
    for name, value in (("args", args), ("kwargs", dict(kwargs)), ("dynamic_shapes", dynamic_shapes)):
        if name != "dynamic_shapes" or value is not None:
            skeleton.statements.add(f"{name} = {skeleton.text(value)}")
            call += ", dynamic_shapes=dynamic_shapes" if name == "dynamic_shapes" else ""
    message = without_places(exception_text(error, 300)).replace("\\", "/").replace('"""', "'''")
    parts = [
        f'"""torch.export.export fails with {message.rstrip()}\n\nSeen on torch {torch.__version__}.\n"""',
        FUTURE,
        "\n".join(["import torch", *sorted({*skeleton.definitions.imports} - {"import torch"})]),
        HOLLOW,
        skeleton.statements.text(),
        f"torch.export.export({call})",
    ]
    text = "\n\n".join(parts[:3]) + "\n\n\n" + "\n\n\n".join(parts[3:]) + "\n"
    if len(text) > LIMIT:
        raise Unreproducible(f"the script has {len(text):,} characters, more than {LIMIT:,}")
    return text
