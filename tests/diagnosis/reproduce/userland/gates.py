from __future__ import annotations

import logging
import os

from torch import Tensor

SCALE = 1.5
TOKEN = os.environ.get("HF_TOKEN", "unset-token")
logger = logging.getLogger(__name__)


def gate(x: Tensor) -> bool:
    return bool(x.sum() > 0) and TOKEN != ""
