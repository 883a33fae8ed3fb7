from __future__ import annotations

import logging

from torch import Tensor, nn

from . import gates
from .gates import gate as decide
from .inner import doubling as h

logger = logging.getLogger(__name__)


class Block(nn.Module):
    SCALE = gates.SCALE

    def __init__(self, width: int = 4) -> None:
        super().__init__()
        self.fc = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        logger.debug("block")
        x = self.fc(x) * self.SCALE
        if decide(x):
            return h.twice(x)
        return -x
