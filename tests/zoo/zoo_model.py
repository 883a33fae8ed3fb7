"""What the zoo is made of: builders that take a batch size and give a model as its library makes it, and a call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import nn

Call = tuple[nn.Module, tuple[Any, ...], dict[str, Any]]
Models = dict[str, Callable[[int], Call]]
