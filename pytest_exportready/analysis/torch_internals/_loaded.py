"""Classes of modules that are used only if they are imported already."""

from __future__ import annotations

import sys


def loaded_class(module: str, name: str) -> type | None:
    """Return a class of an imported module; None if it is not imported, so that no instance can exist."""
    found = getattr(sys.modules.get(module), name, None)
    return found if isinstance(found, type) else None
