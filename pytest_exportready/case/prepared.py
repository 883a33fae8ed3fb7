"""What ``prepare_for_export`` returns."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from torch import nn


class Prepared(NamedTuple):
    """A module that is ready to export, and what was done to it.

    Unpack it, ``module, actions = prepare_for_export(...)``, or use the fields.

    Attributes:
        module: ready to export, in eval mode.
        actions: what was done, a line each.
    """

    module: nn.Module
    actions: list[str]
