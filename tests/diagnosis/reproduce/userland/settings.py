from __future__ import annotations

import enum
from dataclasses import dataclass, field


class Kind(enum.Enum):
    MEAN = "mean"
    SUM = "sum"


class Flags(enum.IntFlag):
    A = 1
    B = 2


@dataclass(frozen=True)
class Inner:
    names: tuple[str, ...] = ("a",)


@dataclass
class Settings:
    width: int = 4
    kind: Kind = Kind.MEAN
    flags: Flags = Flags.A | Flags.B
    inner: Inner = field(default_factory=Inner)
    folder: str = "/home/alice/runs/7"

    @property
    def double(self) -> int:
        return self.width * len(self.inner.names) * 2


@dataclass(slots=True)
class Slotted:
    limit: float
