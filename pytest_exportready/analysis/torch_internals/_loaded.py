"""Classes of modules that may not be imported."""

from __future__ import annotations

import sys


def loaded_class(module: str, name: str) -> type | None:
    """A class of a module that is imported already: without it no instance can exist."""
    found = getattr(sys.modules.get(module), name, None)
    return found if isinstance(found, type) else None
