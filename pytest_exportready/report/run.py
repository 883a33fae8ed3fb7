"""The results of one session, or of several merged, from which every report is written."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from typing import Literal

from pytest_exportready.case.readiness import WORST_FIRST, Outcome as StageOutcome, Readiness
from pytest_exportready.case.wording import and_more, counted
from pytest_exportready.report import record, truncate
from pytest_exportready.report.shard import RanShard

Outcome = Literal["passed", "failed", "infra", "skipped", "xfailed", "missing"]
RunState = Literal["ready", "not ready", "inconclusive"]

EARLIER_LIMIT = 5
EXAMPLES = 3


@dataclass(frozen=True)
class TestResult:
    """The result of one node id, cleaned and cut to the limits of reports."""

    __test__ = False

    nodeid: str
    classname: str  # together with the name unique and stable
    name: str
    file: str = ""  # relative to the root
    line: int = 0  # 1-based, 0 for none
    seconds: float = 0.0
    outcome: Outcome = "passed"  # ``infra`` is ``error`` in JUnit
    message: str = ""  # the reason in one line
    text: str = ""  # the full reason; empty if it passed
    output: str = ""  # captured stdout, stderr and log
    readiness: Readiness | None = None  # None for a test without a record
    earlier: tuple[str, ...] = ()  # messages of the failed attempts before this one
    left_out: int = 0  # findings that did not fit

    def __post_init__(self) -> None:
        def put(key: str, value: object) -> None:
            object.__setattr__(self, key, value)

        for key in ("nodeid", "classname", "name", "file"):
            put(key, truncate.name(getattr(self, key)))
        put("seconds", truncate.seconds(self.seconds))
        put("message", truncate.line(self.message))
        put("text", "" if self.outcome == "passed" else truncate.block(self.text))
        put("output", truncate.block(self.output, truncate.LOG_LIMIT))
        put("earlier", tuple(truncate.line(message) for message in self.earlier[-EARLIER_LIMIT:]))
        if self.readiness is not None:
            readiness, left_out = record.fitted(self.readiness)
            put("readiness", readiness)
            put("left_out", self.left_out + left_out)

    @property
    def label(self) -> str:
        """The name of the case, with its scenario unless that is the usual one, and the device it was moved to."""
        if self.readiness is None:
            return self.name.removeprefix("test_")
        scenario, device = self.readiness.scenario, self.readiness.device
        case = self.readiness.case.rpartition("::")[2].removeprefix("test_")
        for parameter in filter(None, (device, scenario)):  # of the test: the only one, the first or the last
            one = re.escape(parameter)
            case = re.sub(rf"\[{one}\]$|(?<=\[){one}-|-{one}(?=\]$)", "", case, count=1)
        shown = ", ".join(filter(None, ["" if scenario in ("plain", "as_is") else scenario, device]))
        return f"{case} [{shown}]" if shown else case

    @property
    def forms(self) -> tuple[str, str, str]:
        """Labels of the case, from short to unique."""
        how = filter(None, (self.readiness.scenario, self.readiness.device) if self.readiness else ())
        long = f"{self.label.partition(' [')[0]} [{', '.join(how)}]"
        return self.label, long, f"{self.label} ({self.classname})"

    @property
    def stage(self) -> str:
        """The stage that failed; empty if none did."""
        return "" if self.readiness is None else self.readiness.failed_stage

    @cached_property
    def proved(self) -> bool:
        """Whether the record shows that it is ready: a stage passed, none failed, and no finding blocks."""
        return self.readiness is not None and self.readiness.ready and "passed" in self.stage_outcomes.values()

    @cached_property
    def anchor(self) -> str:
        """An identifier that is the same in every report of this case and safe in a URL."""
        return anchor(self.nodeid)

    @cached_property
    def stage_outcomes(self) -> dict[str, StageOutcome]:
        """The outcome of each stage, the worse one if it ran in two export modes."""
        outcomes: dict[str, StageOutcome] = {}
        for stage in self.readiness.stages if self.readiness else ():
            both = (outcomes.get(stage.name, "skipped"), stage.outcome)
            outcomes[stage.name] = min(both, key=WORST_FIRST.index)
        return outcomes


@dataclass(frozen=True)
class Run:
    """A session, or several merged."""

    results: tuple[TestResult, ...]  # one for each node id
    properties: dict[str, str] = field(default_factory=dict)  # torch version, Python, platform ...
    timestamp: str = ""  # when it began, ISO 8601 with zone
    hostname: str = ""
    seconds: float = 0.0  # wall time
    shards: tuple[RanShard, ...] = ()  # that it consists of; none for a run of all cases

    def __post_init__(self) -> None:
        clean = {truncate.line(key, 200): truncate.line(value) for key, value in self.properties.items()}
        object.__setattr__(self, "properties", clean)
        object.__setattr__(self, "timestamp", truncate.line(self.timestamp, 100))
        object.__setattr__(self, "hostname", truncate.line(self.hostname, 200))
        object.__setattr__(self, "seconds", truncate.seconds(self.seconds))

    @property
    def environment(self) -> dict[str, str]:
        """The properties, and the shards if it is not a run of all cases."""
        shards = truncate.line(" | ".join(map(str, self.shards)))
        return {**self.properties, "shard": shards} if shards else self.properties

    @cached_property
    def counts(self) -> Counter[Outcome]:
        """The number of results of each outcome."""
        return Counter(result.outcome for result in self.results)

    @cached_property
    def worst_first(self) -> tuple[TestResult, ...]:
        """The results, the worst outcome first."""
        return tuple(sorted(self.results, key=lambda result: WORST_FIRST.index(result.outcome)))

    @cached_property
    def stages(self) -> tuple[str, ...]:
        """Every stage that occurs, in the order in which cases ran them."""
        order: list[str] = []
        for result in sorted(self.results, key=lambda result: -len(result.stage_outcomes)):
            at = 0
            for stage in result.stage_outcomes:
                if stage not in order:
                    order.insert(at, stage)
                at = order.index(stage) + 1
        return tuple(order)

    @cached_property
    def labels(self) -> dict[str, str]:
        """The shortest label of each node id that no other result has."""
        forms = {result.nodeid: result.forms for result in self.results}
        shared = [Counter(form) for form in zip(*forms.values(), strict=True)]
        return {
            nodeid: next((text for text, count in zip(texts, shared, strict=True) if count[text] == 1), nodeid)
            for nodeid, texts in forms.items()
        }

    def label_and_stage(self, result: TestResult) -> str:
        """Return the label of a case, with the stage that failed."""
        label = truncate.line(self.labels[result.nodeid], 80)
        return f"{label} at {result.stage}" if result.stage else label

    @property
    def state(self) -> RunState:
        if self.counts["failed"]:
            return "not ready"
        unsure = self._unjudged or self._unproved or not self.counts["passed"]
        return "inconclusive" if unsure else "ready"

    @property
    def verdict(self) -> str:
        """The verdict in one sentence."""
        total = counted(len(self.results), "case")
        if self.state == "not ready":
            failed = [result for result in self.results if result.outcome == "failed"]
            unsure = f"; {len(self._unjudged):,} inconclusive" if self._unjudged else ""
            return f"Not ready: {len(failed):,} of {total} ({self._examples(failed)}){unsure}"
        if self._unjudged:
            examples = self._examples(self._unjudged)
            return f"Inconclusive: {len(self._unjudged):,} of {total} have no verdict ({examples})"
        if self._unproved:
            examples = self._examples(self._unproved)
            few = f"{len(self._unproved):,} of {total}"
            return f"Inconclusive: {few} passed without stage results ({examples})"
        aside = self._aside
        if not self.counts["passed"]:
            return f"Inconclusive: no case passed ({aside})" if aside else "Inconclusive: no case ran"
        everything = self.counts["passed"] == len(self.results) > 1
        passed = f"all {total}" if everything else f"{self.counts['passed']:,} of {total}"
        return f"Ready: {passed} passed every stage that ran{f'; {aside}' if aside else ''}"

    def _examples(self, results: list[TestResult]) -> str:
        return and_more([self.label_and_stage(result) for result in results[:EXAMPLES]], len(results))

    @cached_property
    def _unjudged(self) -> list[TestResult]:
        return [result for result in self.results if result.outcome in ("infra", "missing")]

    @cached_property
    def _unproved(self) -> list[TestResult]:
        return [result for result in self.results if result.outcome == "passed" and not result.proved]

    @cached_property
    def _cached(self) -> int:
        """The number of results with cached stages."""
        records = [result.readiness for result in self.results if result.readiness is not None]
        return sum(any(stage.cached for stage in record.stages) for record in records)

    @property
    def _aside(self) -> str:
        flaky = sum(bool(result.earlier) for result in self.results if result.outcome == "passed")
        parts = [
            f"{self.counts['skipped']:,} skipped" if self.counts["skipped"] else "",
            counted(self.counts["xfailed"], "expected failure") if self.counts["xfailed"] else "",
            f"{flaky:,} only after a retry" if flaky else "",
            f"{self._cached:,} partly from the cache" if self._cached else "",
        ]
        return ", ".join(part for part in parts if part)


def anchor(nodeid: str) -> str:
    """Return the identifier of a node id in reports."""
    return f"case-{sha256(nodeid.encode()).hexdigest()[:12]}"


def merged(runs: Iterable[Run]) -> Run:
    """Merge runs: the worst result of a node id counts, different values of a property are joined."""
    runs = list(runs)
    results: dict[str, TestResult] = {}
    properties: dict[str, list[str]] = {}
    for run in runs:
        for result in run.results:
            both = (results.get(result.nodeid, result), result)
            results[result.nodeid] = min(both, key=lambda one: WORST_FIRST.index(one.outcome))
        for key, value in run.properties.items():
            properties.setdefault(key, []).append(value)
    return Run(
        results=tuple(results.values()),
        properties={key: " | ".join(dict.fromkeys(values)) for key, values in properties.items()},
        timestamp=min((run.timestamp for run in runs if run.timestamp), default=""),
        hostname=", ".join(dict.fromkeys(run.hostname for run in runs if run.hostname)),
        seconds=sum(run.seconds for run in runs),
        shards=tuple(dict.fromkeys(shard for run in runs for shard in run.shards)),
    )
