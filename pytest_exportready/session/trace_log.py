"""Keep torch's structured trace out of pytest's captured log.

pytest 9.2 attaches its capture to every logger that does not propagate. Torch takes any handler on
``torch.__trace`` as a wish for a full trace: it then formats every graph, and each failure is buried under
lines meant for a machine.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without_structured_trace() -> Iterator[None]:
    """Take pytest's handlers off ``torch.__trace`` for a while; those of torch itself (TORCH_TRACE) stay."""
    logger = logging.getLogger("torch.__trace")
    taken = [handler for handler in logger.handlers if type(handler).__module__.startswith("_pytest.")]
    for handler in taken:
        logger.removeHandler(handler)
    try:
        yield
    finally:
        for handler in taken:
            logger.addHandler(handler)
