"""Histories with known truth: each cell follows a story whose end is known before any file is written."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timedelta, timezone
from pathlib import Path

from pytest_exportready.case.finding import Finding
from pytest_exportready.case.readiness import Readiness, StageResult
from pytest_exportready.report.junit import write_junit
from pytest_exportready.report.run import Run, TestResult

STAGES = ("train", "inspect", "export", "parity", "shapes", "reload")
TONIGHT = datetime(2026, 11, 28, 2, 0, tzinfo=timezone.utc)
STORY = 8
"""Nights before tonight in which something happens; earlier ones are quiet."""


@dataclass(frozen=True)
class Seen:
    """What a cell did in one night. outcome: of its test, or ``absent``. fault: what failed, where something did."""

    outcome: str = "passed"
    fault: str = ""
    pace: float = 1.0
    retried: bool = False
    without: tuple[str, ...] = ()


@dataclass(frozen=True)
class Story:
    """nights: STORY nights and tonight. truth: the state tonight. whose: of a new failure; empty for all others."""

    truth: str
    nights: tuple[Seen, ...]
    noise: float = 0.02
    entry: str = ""


GREEN = Seen()


def _bad(fault: str = "A") -> Seen:
    return Seen("failed", fault)


def _ending(*last: Seen) -> tuple[Seen, ...]:
    return (*(GREEN,) * (STORY + 1 - len(last)), *last)


STORIES: dict[str, Callable[[random.Random], Story]] = {
    "quiet": lambda _: Story("same", _ending()),
    "noisy by 5 %": lambda _: Story("same", _ending(), noise=0.05),
    "new": lambda _: Story("new", _ending(_bad())),
    "new after one that was fixed": lambda _: Story("new", _ending(_bad("B"), _bad("B"), _bad("B"), GREEN, _bad())),
    "other cause": lambda r: Story("changed", _ending(*[_bad("B")] * r.randint(1, 6), _bad())),
    "failing on": lambda r: Story("still", _ending(*[_bad("B")] * r.randint(2, 7))),
    "mended": lambda r: Story("fixed", _ending(*[_bad("B")] * r.randint(1, 6), GREEN)),
    "passes at a second try": lambda _: Story("flaky", _ending(Seen(retried=True))),
    "fails by turns": lambda r: Story(
        "flaky", _ending(_bad("B"), GREEN, _bad("B"), *[GREEN] * r.randint(1, 3), _bad("B"))
    ),
    "not in the files": lambda _: Story("lost", _ending(Seen("absent"))),
    "never ran": lambda _: Story("lost", _ending(Seen("missing"))),
    "newly skipped": lambda _: Story("lost", _ending(Seen("skipped"))),
    "failed and is skipped now": lambda _: Story("lost", _ending(_bad("B"), _bad("B"), Seen("skipped"))),
    "a stage less": lambda r: Story("lost", _ending(Seen(without=(r.choice(("parity", "shapes")),)))),
    "runner broke": lambda _: Story("unjudged", _ending(Seen("infra", "C"))),
    "slower by 15 %": lambda _: Story("slower", _ending(Seen(pace=1.15), Seen(pace=1.15))),
    "slower once": lambda _: Story("watch", _ending(Seen(pace=1.2))),
    "slower, mended": lambda _: Story("same", _ending(Seen(pace=1.2), Seen(pace=1.2), GREEN)),
    "expected": lambda r: Story("expected", _ending(*[_bad("B")] * r.randint(1, 5)), entry="valid"),
    "expected, for another reason": lambda _: Story("new", _ending(_bad("A")), entry="valid"),
    "no longer expected": lambda _: Story("new", _ending(*[_bad("B")] * 4), entry="expired"),
    "marked": lambda _: Story("expected", _ending(*[Seen("xfailed", "B")] * 4)),
    "added": lambda _: Story("same", (*(Seen("absent"),) * STORY, GREEN)),
    "added and failing": lambda _: Story("new", (*(Seen("absent"),) * STORY, _bad())),
    "always skipped": lambda _: Story("same", (Seen("skipped"),) * (STORY + 1)),
}


@dataclass
class History:
    """Folders as a nightly run leaves them, and what is true. truth: state of (node id, leg). whose: of those."""

    folder: Path
    truth: dict[tuple[str, str], str] = field(default_factory=dict)
    whose: dict[tuple[str, str], str] = field(default_factory=dict)
    stable: Path | None = None
    expected: str = ""
    corrupt: int = 0

    @property
    def last(self) -> Path:
        return self.folder / "last"

    @property
    def tonight(self) -> Path:
        return self.folder / "tonight"

    @property
    def earlier(self) -> Path:
        return self.folder / "history"


def make(folder: Path, seed: int, copies: int = 1) -> History:
    """Write a history. Seeds take turns in what moved, in legs, gaps, corrupt files and which arms there are."""
    return _Maker(folder, random.Random(seed), seed, copies).make()


class _Maker:
    def __init__(self, folder: Path, chance: random.Random, seed: int, copies: int) -> None:
        self.chance = chance
        self.history = History(folder)
        self.who = ("torch", "yours", "environment", "torch and yours", "nothing")[seed % 5]
        self.legs = ("cpu", "h200") if seed % 3 == 0 else ("",)
        self.labelled = seed % 2 == 0
        self.rerun = seed % 4 == 1 and self.who != "environment"  # the last good torch on tonight's commit
        self.flat = seed % 7 == 2 and len(self.legs) == 1
        self.corrupt = seed % 3 == 1
        names = [name for name in STORIES for _ in range(copies)]
        self.cast = {
            (f"tests/test_models.py::test_m{number}[{name}]", leg): STORIES[name](chance)
            for leg in self.legs
            for number, name in enumerate(names)
        }
        self.yours = {
            cell
            for cell in self.cast
            if self.who == "yours" or (self.who == "torch and yours" and chance.random() < 0.5)
        }
        gaps = sorted(chance.sample(range(1, 14), STORY))  # nights that there were, in days before tonight
        self.days = [*reversed(gaps), 0]
        self.quiet = [gaps[-1] + extra for extra in (2, 3)]

    def make(self) -> History:
        history = self.history
        for (nodeid, leg), story in self.cast.items():
            history.truth[nodeid, leg] = story.truth
            if story.truth in ("new", "changed") and story.entry != "expired":
                history.whose[nodeid, leg] = self._whose(nodeid, leg)
            if story.entry:
                until = TONIGHT.date() + timedelta(days=30 if story.entry == "valid" else -1)
                history.expected += self._entry(nodeid, until)
        order = [*enumerate(self.days[:-1]), *((-1, day) for day in self.quiet)]
        self.chance.shuffle(order)
        for index, day in order:
            is_last = index == STORY - 1 and not self.rerun
            self._night(history.last if is_last else self._folder(day), index, day)
        if self.rerun:
            self._night(history.last, STORY, 0, arm="last")
        self._night(history.tonight, STORY, 0)
        if self.who in ("yours", "torch and yours") or self.chance.random() < 0.5:
            history.stable = history.folder / "stable"
            self._night(history.stable, STORY, 0, arm="stable")
        if self.corrupt:
            self._spoil()
        return history

    def _whose(self, nodeid: str, leg: str) -> str:
        if self.who in ("environment", "nothing"):
            return "environment"
        return "yours" if (nodeid, leg) in self.yours else "torch"

    def _entry(self, nodeid: str, until: date) -> str:
        return f'[[expected]]\ntest = "{nodeid}"\ncode = "ER402"\nreason = "#1"\nowner = "ana"\nexpires = {until}\n'

    def _folder(self, day: int) -> Path:
        return self.history.earlier if self.flat else self.history.earlier / f"run-{self.chance.random()}"

    def _spoil(self) -> None:
        """Files of an earlier night that are cut off, and one that is no JUnit."""
        self.history.earlier.mkdir(exist_ok=True)
        night = sorted(self.history.earlier.rglob("*.xml"))[0]
        text = night.read_text(encoding="utf-8")
        if not self.flat:
            night.with_name("cut.xml").write_text(text[: len(text) // 2], encoding="utf-8")
            self.history.corrupt += 1
        self.history.earlier.joinpath("bomb.xml").write_text('<!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>')
        self.history.corrupt += 1

    def _night(self, folder: Path, index: int, day: int, arm: str = "") -> None:
        """Write one night, each leg in two shards. index: in the stories; -1 for a quiet one."""
        began = TONIGHT - timedelta(days=day, minutes=40 if arm else 0)
        for leg in self.legs:
            cells = [cell for cell in self.cast if cell[1] == leg]
            results = [(self._result(cell, index, arm), number) for number, cell in enumerate(cells)]
            for shard in (0, 1):
                mine = tuple(result for result, number in results if result is not None and number % 2 == shard)
                when = began + timedelta(minutes=shard)
                run = Run(mine, self._properties(leg, index, arm), when.isoformat(), f"runner-{shard}")
                write_junit(run, folder / f"{day}-{leg or 'all'}-{shard}.xml")

    def _properties(self, leg: str, index: int, arm: str) -> dict[str, str]:
        tonight = index == STORY
        torch_moves = self.who in ("torch", "yours", "torch and yours")
        build = 1100 + (index if torch_moves else 0) - (1 if arm == "last" else 0)
        moved_commit = tonight and self.who in ("yours", "torch and yours")
        properties = {
            "torch": "2.15.0" if arm == "stable" else f"2.16.0.dev{build}",
            "torch.git_version": f"{build:040x}",
            "python": "3.11.7",
            "gpu": "none (CPU only)" if leg == "cpu" else "NVIDIA H200",
            "cpu": "EPYC",
            "driver": "560.1" if tonight and self.who == "environment" else "550.5",
            "commit": ("b" if moved_commit else "a") * 40,
        }
        return {**properties, "exportready.leg": leg} if leg and self.labelled else properties

    def _result(self, cell: tuple[str, str], index: int, arm: str) -> TestResult | None:
        story = self.cast[cell]
        seen = GREEN if index < 0 and story.truth != "same" else story.nights[max(index, 0)]
        if arm:
            broken = cell in self.yours and seen.outcome == "failed"
            seen = replace(seen, fault=seen.fault) if broken else GREEN
        if seen.outcome == "absent":
            return None
        nodeid = cell[0]
        name = nodeid.partition("::")[2]
        file, classname = "tests/test_models.py", "tests.test_models"
        result = TestResult(nodeid, classname, name, file, 12, outcome=seen.outcome)  # type: ignore[arg-type]
        if seen.outcome in ("missing", "skipped"):
            return replace(result, message="needs 2 GPUs")
        record = self._record(name, seen, story.noise)
        return replace(
            result,
            readiness=record,
            message=str(record.errors[0]) if record.errors else self._infra() if seen.outcome == "infra" else "",
            earlier=("rank 1 lost",) if seen.retried else (),
        )

    def _record(self, name: str, seen: Seen, noise: float) -> Readiness:
        stages, findings = [], tuple(self._findings(seen))
        failed = False
        for stage in STAGES:
            at_fault = (stage == "export" and bool(findings)) or (stage == "reload" and seen.outcome == "infra")
            outcome = "skipped" if failed or stage in seen.without else "passed"
            if at_fault:
                outcome = "infra" if seen.outcome == "infra" else "failed"
                failed = True
            seconds = 20.0 * seen.pace * self.chance.uniform(1 - noise, 1 + noise)
            reason = self._infra() if outcome == "infra" else ""
            stages.append(StageResult(stage, outcome, seconds, reason=reason))  # type: ignore[arg-type]
        return Readiness(name, "plain", tuple(stages), findings, (("ER302", "batchnorm_frozen"),))

    def _findings(self, seen: Seen) -> Iterator[Finding]:
        if seen.outcome not in ("failed", "xfailed"):
            return
        dice = self.chance
        code, text = {
            "A": ("ER401", f"RuntimeError: s{dice.randint(0, 99)} is 4 at 0x{dice.getrandbits(40):x}, not float16"),
            "B": (
                "ER402",
                f"ValueError: no kernel aten.conv2d for [{dice.randint(1, 9)}, 3] in /tmp/tmp{_word(dice)}/m.pt2",
            ),
        }[seen.fault]
        where, line = f"layers.{dice.randint(0, 9)}.conv", dice.randint(1, 999)
        yield Finding(code, "traces", "error", where, text, "mend it", "models/vision.py", line, stage="export")

    def _infra(self) -> str:
        return f"CUDA out of memory: {self.chance.randint(1, 99)} MiB"


def _word(dice: random.Random) -> str:
    return "".join(dice.choice("abcdefgh0123") for _ in range(8))
