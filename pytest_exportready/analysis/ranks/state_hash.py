"""Hash a tensor for a comparison between ranks, or say why it has no hash."""

from __future__ import annotations

import re

from torch import Tensor

from pytest_exportready.analysis.program.tensor_hash import NoValues, values_digest


def fingerprint(tensor: Tensor) -> str:
    """Return the hash of the values as hexadecimal text, or a phrase that says why there is none."""
    try:
        return values_digest(tensor)
    except NoValues as why:
        return str(why)
    except (RuntimeError, NotImplementedError, TypeError, ValueError, AttributeError) as error:
        return f"values that cannot be read ({type(error).__name__})"


def is_hash(text: str) -> bool:
    """Return whether ``text`` is a hash, and not a phrase."""
    return re.fullmatch("[0-9a-f]{32}", text) is not None
