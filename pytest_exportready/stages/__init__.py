"""One stage per file. ``after`` and ``follows`` give their order."""

from __future__ import annotations

import sys
from functools import cache

from pytest_exportready.discover import discover
from pytest_exportready.stages._stage import Stage


@cache
def all_stages() -> dict[str, Stage]:
    """Return every stage by name, in the order in which they run.

    A stage comes after those that it names. The stages whose results can be cached form one block.

    Raises:
        RuntimeError: the order has a cycle, or a stage names one that does not exist.
    """
    waiting = discover(sys.modules[__name__], "STAGE", Stage)
    ordered: dict[str, Stage] = {}
    while waiting:
        ready = [name for name, stage in waiting.items() if not {*stage.after, *stage.follows} - set(ordered)]
        if not ready:
            raise RuntimeError(f"these stages wait for each other or for one that does not exist: {', '.join(waiting)}")
        first = min(ready, key=lambda name: (_block(waiting[name], ordered), name))
        ordered[first] = waiting.pop(first)
    return ordered


def _block(stage: Stage, before: dict[str, Stage]) -> int:
    if stage.cacheable:
        return 1
    return 2 if any(before[name].cacheable for name in stage.follows) else 0
