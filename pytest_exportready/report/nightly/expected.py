"""Expected failures: a reviewed TOML file of what is known to fail, why, who owns it, and until when.

[[expected]]
test = "tests/test_export.py::test_vit[*"    # a node id; * matches anything
leg = "h200"                                 # optional: of a matrix; * matches anything
code = "ER402"                               # optional: a rule or an exception; others are new failures
reason = "pytorch/pytorch#12345"
owner = "ana"
expires = 2027-01-31                         # the last day; afterwards the failure counts
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from typing import Any

from pytest_exportready.case.explained import ExplainedError
from pytest_exportready.report import truncate
from pytest_exportready.report.cause import FailureCause
from pytest_exportready.report.nightly.observation import Cell
from pytest_exportready.report.typed_json import built

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # which pytest needs there itself

_FORM = 'test = "...", reason = "...", owner = "...", expires = 2027-01-31'


class ExpectationError(ExplainedError):
    """A file of expected failures that cannot be used; the message names file and entry."""


@dataclass(frozen=True)
class Expectation:
    """One entry of the file; ``code`` and ``leg`` are empty where any matches."""

    test: str
    reason: str
    owner: str
    expires: date
    leg: str = ""
    code: str = ""

    def __post_init__(self) -> None:
        for name in ("test", "reason", "owner"):
            if not getattr(self, name).strip():
                raise ValueError(f"{name} is empty")

    def matches(self, cell: Cell) -> bool:
        return _like(self.test, cell.nodeid) and (not self.leg or _like(self.leg, cell.leg))

    def explains(self, cause: FailureCause) -> bool:
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
    """Read a file of the form above.

    Raises:
        ExpectationError: The file cannot be read or has another form.
    """
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ExpectationError(f"{path} cannot be read: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:  # also of the encoding
        raise ExpectationError(f"{path} is not TOML: {truncate.line(str(error))}") from error
    entries = data.get("expected", [])
    if data.keys() - {"expected"} or not isinstance(entries, list):
        raise ExpectationError(f"{path} has something else than [[expected]] entries", f"Write [[expected]] {_FORM}.")
    return tuple(_entry(f"{path}: entry {number}", entry) for number, entry in enumerate(entries, 1))


def _entry(place: str, entry: Any) -> Expectation:
    try:
        made = built(Expectation, entry)
    except ValueError as error:
        raise ExpectationError(f"{place}: {error}", f"Write {_FORM}.") from None
    texts: dict[str, Any] = {key: truncate.line(value, 1_000) for key, value in entry.items() if key != "expires"}
    return replace(made, **texts)


def _like(pattern: str, text: str) -> bool:
    return re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), text, re.DOTALL) is not None
