"""An output is an object of a class that torch.export does not know how to take apart, such as a cache of keys and
values.

Good: return tensors: ``use_cache=False`` with the inputs, a wrapper that returns ``output.logits``, or for a dataclass
of your own ``torch.export.register_dataclass(Output)``.
"""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import torch

from pytest_exportready.analysis.execution.pytree import named_leaves
from pytest_exportready.case.finding import Finding, Rule
from pytest_exportready.diagnosis._diagnosis import Diagnosis, Failure
from pytest_exportready.diagnosis._without_cache import without_cache

RULE = Rule("ER426", "outputs_are_known_classes", __doc__ or "")

_SIGNS = re.compile(
    r"in output, which is not a known type|unrecognized type .* at output|Unsupported output type"
    r"|output type .* not supported"
)
_CLASS = re.compile(r"Found <class '([\w.<>]+)'> in output|unrecognized type \w+Variable\((\w*)")
_NUMBER = re.compile(r"at output (\d+)")


def explain(failure: Failure) -> Finding | None:
    if not failure.says(_SIGNS):
        return None
    named = failure.says(_CLASS)
    kind = ((named[1] or named[2] or "") if named else "").rsplit(".", 1)[-1]
    path, value = _unknown(failure, kind)
    kind = kind or (type(value).__name__ if value is not None else "class")
    number = failure.says(_NUMBER)
    where = f"output{path}" if value is not None or not number else f"output {number[1]}"
    return failure.finding(RULE, f"{where} (class {kind})", _wrong(kind), _fix(failure, kind, path, value))


def _wrong(kind: str) -> str:
    return f"forward returns {_article(kind)} {kind}, which torch.export cannot take apart"


def _article(kind: str) -> str:
    return "an" if kind[:1].lower() in "aeiou" else "a"


def _fix(failure: Failure, kind: str, path: str, value: Any) -> str:
    if dataclasses.is_dataclass(value):
        return f"torch.export.register_dataclass({kind}) next to the class, or return its tensors"
    caches = "Cache" in kind or hasattr(value, "get_seq_length")
    if caches and hasattr(getattr(failure.module, "config", None), "use_cache"):
        return without_cache(failure)
    if value is not None and kind in ("set", "generator", "frozenset"):
        return "return a tuple, list or dict of tensors"
    return "wrap the model in a module whose forward returns a tuple or dict of tensors"


def _unknown(failure: Failure, kind: str) -> tuple[str, Any]:
    """Path and object of the output that is no tensor, number or text; an empty path if it cannot be found."""
    case = failure.trial.case
    try:
        leaves = named_leaves(failure.trial.reference.output((case.args, case.kwargs)))
    except Exception:
        return "", None
    known = (torch.Tensor, bool, int, float, complex, str, bytes, type(None), torch.dtype, torch.device)
    unknown = [(path, leaf) for path, leaf in leaves if not isinstance(leaf, known)]
    return next((pair for pair in unknown if type(pair[1]).__name__ == kind), unknown[0] if unknown else ("", None))


DIAGNOSIS = Diagnosis(RULE, explain)
