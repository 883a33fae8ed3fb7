from __future__ import annotations

import gzip
import json
from base64 import b64decode
from random import Random
from typing import Any

from pytest_exportready.report.embedded_data import packed


def unpacked(text: str) -> list[Any]:
    return [json.loads(line) for line in gzip.decompress(b64decode(text)).decode().splitlines()]


def test_values_come_back_in_their_order() -> None:
    values = [{"a": "<!--<script>"}, ["\u2713 é", 1.5], None]
    text = packed(values)
    assert unpacked(text) == values
    assert text.isascii()
    assert "<" not in text


def test_what_does_not_fit_is_left_out_from_the_end() -> None:
    random = Random(1)
    values = ["".join(random.choices("abcdefgh", k=1_000)) for _ in range(100)]
    text = packed(values, limit=10_000)
    kept = unpacked(text)
    assert kept == values[: len(kept)]
    assert 10 < len(kept) < 40
    assert len(text) <= 10_000 * 4 / 3 + 4
    assert packed(values, limit=10_000) == text
