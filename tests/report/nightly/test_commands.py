from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from nights import compared, failed, passed

from pytest_exportready.report.nightly.commands import again, bisect, install, rebaseline
from pytest_exportready.report.nightly.pytorch_issue import issue

OLD, NEW = "a" * 40, "b" * 40


@pytest.mark.parametrize(
    ("torch", "command"),
    [
        (
            "2.16.0.dev20261129+cu128",
            "pip install --pre torch==2.16.0.dev20261129+cu128 --index-url https://download.pytorch.org/whl/nightly/cu128",
        ),
        ("2.15.0+cpu", "pip install torch==2.15.0+cpu --index-url https://download.pytorch.org/whl/cpu"),
        ("2.15.0", "pip install torch==2.15.0"),
        ("2.16.0a0+git1a2b3c4", ""),
        ("2.15.0; rm -rf ~", ""),
        ("$(reboot)", ""),
        ("", ""),
    ],
)
def test_the_wheel_of_a_night(torch: str, command: str) -> None:
    assert install(torch) == command


@pytest.mark.parametrize("nodeid", ["t.py::test_x[a b]", "t.py::x'; rm -rf ~; '", "t.py::$(reboot)", "-x"])
def test_a_node_id_is_one_word_of_every_command(nodeid: str) -> None:
    for command in (
        again(nodeid, "2.15.0"),
        bisect("torch", {"torch.git_version": OLD}, {"torch.git_version": NEW}, nodeid),
        bisect("yours", {"commit": OLD}, {"commit": NEW}, nodeid),
    ):
        assert shlex.split(command)[-1] == nodeid


def test_bisecting_goes_from_the_bad_commit_to_the_good_one() -> None:
    command = bisect("yours", {"commit": OLD}, {"commit": NEW}, "t.py::x")
    assert command == f"git bisect start {NEW} {OLD} && git bisect run pytest --export-ready t.py::x"


@pytest.mark.parametrize(
    ("whose", "was", "now"),
    [
        ("yours", {"commit": OLD}, {"commit": OLD}),
        ("yours", {}, {"commit": NEW}),
        ("torch", {"torch.git_version": "None"}, {"torch.git_version": NEW}),
        ("torch", {"torch.git_version": "$(reboot)"}, {"torch.git_version": NEW}),
        ("environment", {"commit": OLD}, {"commit": NEW}),
    ],
)
def test_without_two_commits_there_is_nothing_to_bisect(whose: str, was: dict[str, str], now: dict[str, str]) -> None:
    assert bisect(whose, was, now, "t.py::x") == ""  # type: ignore[arg-type]


def test_the_new_baseline_is_a_copy(tmp_path: Path) -> None:
    (tmp_path / "to night").mkdir()
    assert rebaseline(Path("last"), tmp_path / "to night") == f"rm -r last && cp -r '{tmp_path}/to night' last"
    assert rebaseline(Path("last.xml"), Path("it's.xml")) == """cp 'it'"'"'s.xml' last.xml"""


def test_an_issue_says_what_fails_since_when_and_how_to_see_it() -> None:
    comparison = compared([passed()], [failed(message="TypeError: ``` no @maintainer")], stable=[passed()])
    text = issue(comparison, comparison.causes[0])
    assert text.startswith("[torch.export: export] TypeError: ``` no @maintainer\n\n1 case stopped passing")
    for expected in (
        "the same commit passes on 2.15.0+cpu",
        "pytest --export-ready t.py::test_vit",
        "git bisect start 2026112820261128",
        "torch: 2.16.0.dev20261127+cpu -> 2.16.0.dev20261128+cpu",
        "````\nnet.fc, models/net.py:8: [ER401 traces] TypeError: ``` no @maintainer",
    ):
        assert expected in text
