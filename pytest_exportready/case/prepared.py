"""Define the result of ``prepare_for_export``."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from torch import nn


class Prepared(NamedTuple):
    """A module that is ready to export, and what was changed in it.

    Unpack it, ``module, actions = prepare_for_export(...)``, or use the fields.

    Attributes:
        module: Ready to export, in eval mode.
        actions: What was changed, a sentence each.
    """

    module: nn.Module
    actions: list[str]
