"""All shards together run every case once, with and without xdist, or report why they cannot."""

from __future__ import annotations

import pytest
from user_project import Project

from pytest_exportready.report.junit import read_junit

CASES = """\
@pytest.mark.parametrize("features", range(1, 8))
@export_ready(scenarios=["as_is"], stages=["export"])
def test_case(features):
    return ready(features)

def test_no_case():
    pass
"""


def test_each_case_runs_in_one_shard(project: Project) -> None:
    project.write(CASES)
    ran = []
    shards = set()
    for number, flags in ((1, ("-n2",)), (2, ("-n0",)), (3, ("-p", "no:xdist"))):
        result = project.run(f"--export-ready-shard={number}/3", *flags, subprocess="-n2" in flags)
        assert result.ret == 0
        ran.append(set(project.results()))
        shards.update(read_junit(project.path / "exportready/junit.xml").shards)
    assert sorted(map(len, ran)) == [2, 2, 3]
    assert len(set().union(*ran)) == 7
    wholes = {(shard.cases, shard.whole) for shard in shards}
    assert len(wholes) == 1, wholes
    assert {cases for cases, _ in wholes} == {7}
    assert {(shard.index, shard.count) for shard in shards} == {(1, 3), (2, 3), (3, 3)}


def test_times_of_an_earlier_run_weigh_the_shards(project: Project) -> None:
    project.write(CASES)
    times = "".join(
        f'<testcase classname="test_cases" name="test_case[as_is-{number}]" time="{30 if number == 1 else 1}">'
        f'<properties><property name="exportready.nodeid" value="test_cases.py::test_case[as_is-{number}]"/>'
        "</properties></testcase>"
        for number in range(1, 8)
    )
    (project.path / "times.xml").write_text(f'<testsuites><testsuite name="a">{times}</testsuite></testsuites>')
    for number, expected in (1, 1), (2, 6):
        project.run(f"--export-ready-shard={number}/2", "--export-ready-shard-times=times.xml")
        assert len(project.results()) == expected


@pytest.mark.parametrize("flags", [(), ("-n1",)], ids=["alone", "xdist"])
def test_times_that_cannot_be_read_stop_the_run(project: Project, flags: tuple[str, ...]) -> None:
    """Each machine would make other shards, and cases would be lost silently."""
    project.write(CASES)
    (project.path / "times.xml").write_text("<testsuites>")
    result = project.run(
        "--export-ready-shard=1/2", "--export-ready-shard-times=times.xml", *flags, subprocess=bool(flags)
    )
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*--export-ready-shard-times: *times.xml is not well-formed XML*"])


def test_more_shards_than_cases_are_accepted(project: Project) -> None:
    project.write(CASES)
    assert project.run("--export-ready-shard=9/9").ret == 0
    assert project.results() == {}


def test_a_shard_of_no_case_at_all_reports_it(project: Project) -> None:
    project.write("def test_no_case(): pass")
    assert project.run("--export-ready-shard=1/2").ret == pytest.ExitCode.NO_TESTS_COLLECTED


@pytest.mark.parametrize("given", ["0/2", "x", "1/2/3"])
def test_a_malformed_shard_is_a_usage_error(project: Project, given: str) -> None:
    project.write(CASES)
    result = project.run(f"--export-ready-shard={given}")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"*--export-ready-shard={given}*I/N*"])
