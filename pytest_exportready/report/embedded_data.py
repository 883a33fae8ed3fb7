"""Lines of JSON, compressed and in base64, for a page to unpack: small, and inert anywhere in HTML."""

from __future__ import annotations

import gzip
import json
import zlib
from base64 import b64encode
from collections.abc import Iterable
from typing import Any

LIMIT = 240_000
"""Compressed bytes; base64 adds a third."""


def packed(values: Iterable[Any], limit: int = LIMIT) -> str:
    """Return the leading ``values`` that fit into ``limit`` bytes, one per line, as gzip in base64."""
    probe = zlib.compressobj(6)
    lines: list[bytes] = []
    size = 0
    for value in values:
        line = json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace") + b"\n"
        size += len(probe.compress(line) + probe.flush(zlib.Z_SYNC_FLUSH))
        if size > limit:
            break
        lines.append(line)
    return b64encode(gzip.compress(b"".join(lines), 6, mtime=0)).decode()
