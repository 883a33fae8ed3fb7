"""One row of the table that ``exportready doctor`` prints."""

from __future__ import annotations

from dataclasses import dataclass

GIB = 2**30


@dataclass(frozen=True)
class Row:
    """The state of one requirement."""

    name: str
    ok: bool
    found: str
    fix: str = ""
    needed: bool = True  # otherwise its absence is only printed
    otherwise: str = "absent"  # the state of a row that is neither ok nor needed

    @property
    def state(self) -> str:
        if self.ok:
            return "ok"
        return "missing" if self.needed else self.otherwise
