"""The script: definitions, the module built again, and the export that fails."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from pytest_exportready.reproduce.definitions import Unreproducible
from pytest_exportready.reproduce.skeleton import HOLLOW, Skeleton
from pytest_exportready.text import exception_text

LIMIT = 20_000
"""Characters. What is longer helps nobody to see the fault."""


def script(
    module: nn.Module,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    dynamic_shapes: Any,
    error: BaseException,
    *,
    strict: bool,
) -> str:
    """A Python file that exports ``module`` as torch.export.export was asked to, and should fail with ``error``.

    Weights are ones, inputs ones and zeros: contents are never written. Raises Unreproducible.
    """
    skeleton = Skeleton()
    model = skeleton.module(module)
    given = [f"args = {skeleton.text(args)}", f"kwargs = {skeleton.text(dict(kwargs))}"]
    call = f"{model}, args, kwargs, strict={strict}"
    if dynamic_shapes is not None:
        given.append(f"dynamic_shapes = {skeleton.text(dynamic_shapes)}")
        call += ", dynamic_shapes=dynamic_shapes"
    told = exception_text(error, 300).replace("\\", "/").replace('"""', "'''")
    statements, given = _inlined([*skeleton.statements], given)
    parts = [
        f'"""torch.export.export fails with {told.rstrip()}\n\nSeen on torch {torch.__version__}.\n"""',
        "\n".join(["import torch", *sorted({*skeleton.definitions.imports} - {"import torch"})]),
        *skeleton.definitions.texts.values(),
        HOLLOW,
        "\n".join(statements),
        "\n".join(given),
        f"torch.export.export({call})",
    ]
    text = "\n\n\n".join(parts) + "\n"
    if len(text) > LIMIT:
        raise Unreproducible(f"the module takes {len(text):,} characters to write down")
    return text


_TENSOR = re.compile(r"\b(?:weight|tensor)_\d+\b")


def _inlined(statements: list[str], given: list[str]) -> tuple[list[str], list[str]]:
    """Without a variable for a tensor that is used once."""
    uses = Counter(_TENSOR.findall("\n".join([*statements, *given])))
    values: dict[str, str] = {}
    kept = []
    for statement in statements:
        name, _, value = statement.partition(" = ")
        if _TENSOR.fullmatch(name) and uses[name] == 2:
            values[name] = value
        else:
            kept.append(statement)

    def written(text: str) -> str:
        return _TENSOR.sub(lambda found: values.get(found[0], found[0]), text)

    return [written(statement) for statement in kept], [written(text) for text in given]
