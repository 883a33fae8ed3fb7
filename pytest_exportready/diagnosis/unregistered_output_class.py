"""Every output is a tensor, or a container or class that torch.export can flatten.

Why it matters:
    The outputs of a program are tensors. A cache of keys and values is an object of another class.

Example:
    class Cache:
        def __init__(self, keys):
            self.keys = keys

    class Net(nn.Module):
        def forward(self, x):
            return {"logits": x * 2, "cache": Cache(x)}

    export_ready_check(Net().eval(), (torch.randn(2, 4),))

Instead:
    class Net(nn.Module):
        def forward(self, x):
            return {"logits": x * 2}

    export_ready_check(Net().eval(), (torch.randn(2, 4),))

Severity:
    error: the export fails.

Not reported:
    Dataclasses that `torch.export.register_dataclass` registered.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import torch

from pytest_exportready.analysis.execution.pytree import named_leaves
from pytest_exportready.case.finding import Finding, Rule
from pytest_exportready.diagnosis._diagnosis import Diagnosis, Failure
from pytest_exportready.diagnosis._without_cache import without_cache

RULE = Rule("ER426", "outputs_are_known_classes", __doc__ or "")

_SIGNS = (
    r"in output, which is not a known type|unrecognized type .* at output|Unsupported output type"
    r"|output type .* not supported"
)
_CLASS = r"Found <class '([\w.<>]+)'> in output|unrecognized type \w+Variable\((\w*)"
_NUMBER = r"at output (\d+)"
_KNOWN = (torch.Tensor, bool, int, float, complex, str, bytes, type(None), torch.dtype, torch.device)


def explain(failure: Failure) -> Finding | None:
    if not failure.says(_SIGNS):
        return None
    named = failure.says(_CLASS)
    kind = ((named[1] or named[2] or "") if named else "").rsplit(".", 1)[-1]
    path, value = _unknown_output(failure, kind)
    kind = kind or (type(value).__name__ if value is not None else "class")
    number = failure.says(_NUMBER)
    where = f"output{path}" if value is not None or not number else f"output {number[1]}"
    return failure.finding(
        RULE,
        f"`forward` returns an object of class `{kind}`, which torch.export cannot flatten.",
        _fix(failure, kind, value),
        where=f"{where} (class {kind})",
    )


def _fix(failure: Failure, kind: str, value: Any) -> str:
    if dataclasses.is_dataclass(value):
        return f"Call `torch.export.register_dataclass({kind})` next to the class, or return its tensors."
    caches = "Cache" in kind or hasattr(value, "get_seq_length")
    if caches and hasattr(getattr(failure.module, "config", None), "use_cache"):
        return without_cache(failure)
    if value is not None and kind in ("set", "generator", "frozenset"):
        return "Return a tuple, list or dict of tensors."
    return "Wrap the model in a module whose `forward` returns a tuple or dict of tensors."


def _unknown_output(failure: Failure, kind: str) -> tuple[str, Any]:
    """Return path and object of the output of that class, or of any unknown one; ``("", None)`` if not found."""
    try:
        leaves = named_leaves(failure.trial.reference.output(failure.trial.call))
    except Exception:
        return "", None
    unknown = [(path, leaf) for path, leaf in leaves if not isinstance(leaf, _KNOWN)]
    return next((pair for pair in unknown if type(pair[1]).__name__ == kind), unknown[0] if unknown else ("", None))


DIAGNOSIS = Diagnosis(RULE, explain)
