"""The quick answer whether a record fits is never wrong where it counts: it may ask for the exact one, not spare it."""

from __future__ import annotations

import random

import pytest

from pytest_exportready.case.finding import Finding
from pytest_exportready.case.readiness import Readiness, StageResult
from pytest_exportready.report import record


def _text(dice: random.Random, most: int) -> str:
    return "".join(dice.choices("ab \"'\\\N{SNOWMAN}<&", k=dice.randint(0, most)))


@pytest.mark.parametrize("seed", range(40))
def test_a_record_is_never_longer_than_is_said_without_writing_it(seed: int) -> None:
    dice = random.Random(seed)
    size = dice.choice([10, 500])
    stages = tuple(
        StageResult(
            _text(dice, 100),
            dice.choice(["passed", "failed", "skipped", "infra"]),
            dice.random() * 1e9,
            _text(dice, 100),
            _text(dice, size),
            {_text(dice, 200): dice.choice([1, -(2**63), 1e-300, None, True]) for _ in range(dice.randint(0, 9))},
            _text(dice, 100),
        )
        for _ in range(dice.randint(0, 30))
    )
    findings = tuple(
        Finding(*(_text(dice, size) for _ in range(2)), "error", *(_text(dice, size) for _ in range(4)), 7, 1)
        for _ in range(dice.randint(0, 30))
    )
    checked = tuple((_text(dice, 50), _text(dice, 200)) for _ in range(dice.randint(0, 60)))
    prepared = tuple(_text(dice, size) for _ in range(dice.randint(0, 5)))
    given = Readiness(_text(dice, 999), "plain", stages, findings, checked, prepared, 1e9, _text(dice, 9_999))
    clean, left_out = record.fitted(given)
    assert len(record.to_text(clean)) <= record._at_most(clean)
    assert len(record.to_text(clean)) <= record.RECORD_LIMIT
    assert left_out + len(clean.findings) == len(findings)
