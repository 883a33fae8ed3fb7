"""Legs that are missing, half written or hostile are found and never green; the others count."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_exportready.case.readiness import Readiness, StageResult
from pytest_exportready.report.github import artifacts
from pytest_exportready.report.github.artifacts import gather
from pytest_exportready.report.github.matrix import Channel, Leg, Runner, planned
from pytest_exportready.report.junit import write_junit
from pytest_exportready.report.run import Run, TestResult
from pytest_exportready.report.shard import RanShard, Shard

RECORD = Readiness("vit", "plain", (StageResult("export", "passed"),), ())


def legs(shards: int = 2) -> list[Leg]:
    runners = [Runner(("x",), "cpu", 0, "cpu"), Runner(("y",), "H100", 1, "cu130")]
    channels = [Channel("stable", "2.14.1", "i"), Channel("nightly", "2.16.0.dev1", "i")]
    return planned(runners, channels, shards)


def leave(leg: Leg, artifacts: Path) -> Path:
    path = artifacts / leg.name / "junit.xml"
    case = TestResult(f"t.py::test_{leg.shard}", "t", f"test_{leg.shard}", readiness=RECORD)
    shard = Shard.parse(leg.shard)
    shards = (RanShard(shard.number, shard.of, 2, "abc"),) if shard.of > 1 else ()
    write_junit(Run((case,), properties={"torch": leg.torch}, shards=shards), path)
    return path


def test_shards_come_together_for_each_channel_and_runner(tmp_path: Path) -> None:
    for leg in legs():
        leave(leg, tmp_path)
    both = list(gather(legs(), tmp_path))
    assert {(one.channel, one.runner) for one in both} == {
        (channel, runner) for channel in ("stable", "nightly") for runner in ("cpu", "h100x1")
    }
    for one in both:
        assert one.lost == ()
        assert one.run.state == "ready"
        assert len(one.run.results) == 2
        assert one.run.properties["exportready.leg"] == one.runner


def test_a_leg_that_left_nothing_is_missing_and_named(tmp_path: Path) -> None:
    first, *others = legs()
    for leg in others:
        leave(leg, tmp_path)
    found = {(one.channel, one.runner): one for one in gather(legs(), tmp_path)}
    hit = found.pop((first.channel, first.runner))
    assert hit.lost == (first.name,)
    assert hit.run.counts["missing"] == 1
    assert f"leg {first.name} has no JUnit file" in hit.run.verdict + hit.run.results[0].message
    assert hit.run.state == "inconclusive"
    assert all(one.run.state == "ready" for one in found.values())


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]), id="half written"),
        pytest.param(lambda path: path.write_bytes(b""), id="empty"),
        pytest.param(lambda path: path.write_bytes(b"\0" * 1000), id="zeros"),
        pytest.param(
            lambda path: path.write_text(
                '<!DOCTYPE a [<!ENTITY b SYSTEM "file:///etc/passwd">]><testsuites>&b;</testsuites>'
            ),
            id="entities",
        ),
        pytest.param(lambda path: path.write_text("<testsuites>" + "<testsuite>" * 50_000), id="deep"),
        pytest.param(
            lambda path: path.write_text(
                path.read_text().replace('shard.1.index" value="1"', 'shard.1.index" value="2"')
            ),
            id="another shard",
        ),
    ],
)
def test_a_file_that_cannot_be_trusted_is_no_verdict(tmp_path: Path, damage: Callable[[Path], object]) -> None:
    for leg in legs():
        leave(leg, tmp_path)
    damage(tmp_path / legs()[0].name / "junit.xml")
    found = {(one.channel, one.runner): one for one in gather(legs(), tmp_path)}
    hit = found.pop((legs()[0].channel, legs()[0].runner))
    assert hit.run.state == "inconclusive"
    assert hit.lost == (legs()[0].name,)
    assert all(one.run.state == "ready" for one in found.values())


def test_a_machine_that_was_not_fit_says_why_itself(tmp_path: Path) -> None:
    first, *others = legs()
    for leg in others:
        leave(leg, tmp_path)
    found = TestResult(
        "exportready doctor", "exportready.doctor", "machine", outcome="infra", message="GPU 0: 2 GiB free"
    )
    write_junit(Run((found,)), tmp_path / first.name / "junit.xml")
    hit = next(one for one in gather(legs(), tmp_path) if (one.channel, one.runner) == (first.channel, first.runner))
    assert [result.message for result in hit.run.results if result.outcome == "infra"] == ["GPU 0: 2 GiB free"]


def test_a_link_out_of_the_artifacts_is_not_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside.xml"
    for leg in legs(1):
        leave(leg, tmp_path / "artifacts").replace(outside)
        (tmp_path / "artifacts" / leg.name / "junit.xml").symlink_to(outside)
    assert all(one.run.counts["missing"] == 1 for one in gather(legs(1), tmp_path / "artifacts"))


def test_a_file_too_large_to_be_ours_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(artifacts, "BYTES", 100)
    for leg in legs(1):
        leave(leg, tmp_path)
    assert all("too large" in one.run.results[0].message for one in gather(legs(1), tmp_path))


def test_a_folder_that_is_in_no_plan_is_not_looked_at(tmp_path: Path) -> None:
    for leg in legs(1):
        leave(leg, tmp_path)
    (tmp_path / "planted").mkdir()
    (tmp_path / "planted" / "junit.xml").write_text("<testsuites>")
    assert all(one.run.state == "ready" for one in gather(legs(1), tmp_path))


def test_an_artifact_does_not_say_which_leg_or_night_it_is(tmp_path: Path) -> None:
    case = TestResult("t.py::test_a", "t", "test_a", readiness=RECORD)
    claimed = {"exportready.leg": "h100x8", "exportready.compared": "1", "channel": "stable", "torch": "2"}
    for leg in legs(1):
        write_junit(Run((case,), claimed), tmp_path / leg.name / "junit.xml")
    for one in gather(legs(1), tmp_path):
        found = {key: value for key, value in one.run.properties.items() if key.startswith("exportready.")}
        assert found == {"exportready.leg": one.runner}
        assert one.run.properties["channel"] == one.channel
