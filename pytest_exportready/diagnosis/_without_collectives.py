"""Run a module in one of several ranks: a collective in it would wait for ranks that do not run it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pytest_exportready.analysis.ranks.check_ranks import several_ranks
from pytest_exportready.analysis.torch_internals.tensors import each_operator


class MeetsCollective(Exception):
    """The module is about to run a collective, which was not begun; the message is its name."""


@contextmanager
def without_collectives() -> Iterator[None]:
    """Raise MeetsCollective within the block before any collective, where this process is one of several ranks."""
    if not several_ranks():
        yield
        return
    with each_operator(_refuse):
        yield


def _refuse(operator: Any, args: Any, kwargs: Any) -> Any:
    if "c10d" in operator.namespace:
        raise MeetsCollective(operator.name())
    return operator(*args, **kwargs)
