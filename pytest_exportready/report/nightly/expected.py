"""Expected failures: a reviewed TOML file of what is known to fail, why, who looks after it, and until when.

[[expected]]
test = "tests/test_export.py::test_vit[*"    # a node id; * stands for anything
leg = "h200"                                 # optional: of a matrix; * stands for anything
code = "ER402"                               # optional: a finding or an exception; another one is new
reason = "pytorch/pytorch#12345"
owner = "ana"
expires = 2027-01-31                         # from the day after it counts again
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

from pytest_exportready.case.explained import ExplainedError
from pytest_exportready.report import truncate
from pytest_exportready.report.cause import Cause
from pytest_exportready.report.nightly.observation import Cell
from pytest_exportready.report.typed_json import Misfit, built

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # which pytest needs there itself

_SHAPE = 'test = "...", reason = "...", owner = "...", expires = 2027-01-31'


class ExpectationError(ExplainedError):
    """A file of expected failures that cannot be taken as it is; the message names file and entry."""


@dataclass(frozen=True)
class Expectation:
    """One entry of the file; ``code`` and ``leg`` are empty where they do not matter."""

    test: str
    reason: str
    owner: str
    expires: date
    leg: str = ""
    code: str = ""

    def matches(self, cell: Cell) -> bool:
        return _like(self.test, cell.nodeid) and (not self.leg or _like(self.leg, cell.leg))

    def explains(self, cause: Cause) -> bool:
        return self.code in ("", cause.what)

    def expired(self, today: date) -> bool:
        return today > self.expires

    @property
    def why(self) -> str:
        """Reason, owner and last day."""
        return f"{self.reason} ({self.owner}, until {self.expires})"

    def __str__(self) -> str:
        code = f" ({self.code})" if self.code else ""
        return f"{self.test}{code}: {self.why}"


def read_expected(path: Path) -> tuple[Expectation, ...]:
    """Raises ExpectationError for a file that cannot be read or is not of the form above."""
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ExpectationError(f"{path}: cannot be read: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:  # of the encoding, too
        raise ExpectationError(f"{path}: not TOML: {truncate.line(str(error))}") from error
    unknown = data.keys() - {"expected"}
    entries = data.get("expected", [])
    if unknown or not isinstance(entries, list):
        raise ExpectationError(f"{path}: holds something else than [[expected]] entries", f"[[expected]] {_SHAPE}")
    return tuple(_entry(f"{path}: entry {number}", entry) for number, entry in enumerate(entries, 1))


def _entry(where: str, entry: Any) -> Expectation:
    try:
        made = built(Expectation, entry)
    except Misfit as error:
        raise ExpectationError(f"{where}: {error}", f"[[expected]] {_SHAPE}") from None
    texts = {name: given for name, given in vars(made).items() if name != "expires"}
    empty = [name for name in entry if name in texts and not texts[name].strip()]
    if empty:
        raise ExpectationError(f"{where}: {', '.join(empty)}: is empty", f'{empty[0]} = "..."')
    return Expectation(**{name: truncate.line(text, 1_000) for name, text in texts.items()}, expires=made.expires)


def _like(pattern: str, text: str) -> bool:
    return re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), text, re.DOTALL) is not None
