"""One issue for all nights, with a ``gh`` that keeps issues in a file as GitHub does."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from pytest_exportready.report.github.issue import LABEL, IssueError, Issues

GH = """\
import json, os, sys
from pathlib import Path

store = Path(__file__).with_name("store.json")
kind, action, *rest = sys.argv[1:]
options = dict(one.lstrip("-").partition("=")[::2] for one in rest if one.startswith("--"))
names = [one for one in rest if not one.startswith("--")]
if os.environ["GH_TOKEN"] != "secret" or options["repo"] != "github.com/me/models":
    sys.exit("HTTP 401: Bad credentials")
github = json.loads(store.read_text())
text = sys.stdin.buffer.read().decode() if options.get("body-file") == "-" else None
changes = {key: value for key, value in (("title", options.get("title")), ("body", text)) if value is not None}
match kind, action:
    case "label", "create":
        github["labels"].append(names[0])
    case "issue", "list":
        found = [one for one in github["issues"] if one["state"] == options["state"]]
        found = [one for one in found if options["label"] in one["labels"]]
        keys = options["json"].split(",")
        print(json.dumps([{key: one[key] for key in keys} for one in found[::-1][: int(options["limit"])]]))
    case "issue", "create":
        if options["label"] not in github["labels"]:
            sys.exit("could not add label")
        new = {"number": len(github["issues"]) + 1, "state": "open", "labels": [options["label"]]}
        github["issues"].append({**new, **changes})
    case "issue", "comment":
        github["comments"].append([int(names[0]), text])
    case "issue", "edit":
        github["issues"][int(names[0]) - 1].update(changes)
    case "issue", "close":
        github["issues"][int(names[0]) - 1]["state"] = "closed"
    case _:
        sys.exit("unknown command")
store.write_text(json.dumps(github))
"""


class GitHub:
    def __init__(self, folder: Path) -> None:
        self.store = folder / "store.json"
        self.write(issues=[], comments=[], labels=[])
        (folder / "gh.py").write_text(GH)
        (folder / "gh").write_text(f'#!/bin/sh\nexec "{sys.executable}" -S "{folder}/gh.py" "$@"\n')
        (folder / "gh").chmod(0o755)

    def write(self, **state: Any) -> None:
        self.store.write_text(json.dumps(state))

    def read(self, key: str) -> Any:
        return json.loads(self.store.read_text())[key]


@pytest.fixture
def github(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> GitHub:
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    return GitHub(tmp_path)


@pytest.fixture
def issues(github: GitHub) -> Issues:
    return Issues("github.com/me/models", "secret")


def test_opened_updated_and_closed(issues: Issues, github: GitHub) -> None:
    assert issues.update(False, "No", "all well") == "nothing to do"
    assert issues.update(True, "Yes: 1 new cause", "first \N{SNOWMAN}") == "opened"
    assert github.read("issues") == [
        {"number": 1, "state": "open", "labels": [LABEL], "title": "Yes: 1 new cause", "body": "first \N{SNOWMAN}"}
    ]
    assert issues.update(True, "Yes: 1 new cause", "second") == "updated"
    assert github.read("issues")[0]["body"] == "second"
    assert github.read("comments") == []
    assert issues.update(True, "Yes: 2 new causes", "third") == "updated"
    assert github.read("comments") == [[1, "Yes: 2 new causes"]]
    assert issues.update(False, "No", "fixed") == "closed"
    closed = github.read("issues")[0]
    assert (closed["state"], closed["title"], closed["body"]) == ("closed", "No", "third")
    assert github.read("comments")[-1] == [1, "fixed"]
    assert issues.update(True, "Yes", "again") == "opened"
    assert len(github.read("issues")) == 2


def test_an_issue_without_the_label_is_not_changed(issues: Issues, github: GitHub) -> None:
    theirs = {"number": 1, "state": "open", "labels": ["bug"], "title": "Yes: 1 new cause", "body": "x"}
    github.write(issues=[theirs], comments=[], labels=[])
    issues.update(True, "Yes: 1 new cause", "ours")
    issues.update(False, "No", "fixed")
    assert github.read("issues")[0] == theirs


def test_an_issue_that_a_person_closed_stays_closed_until_the_title_changes(issues: Issues, github: GitHub) -> None:
    issues.update(True, "Inconclusive: 12 cells did not run", "first")
    github.write(issues=[{**github.read("issues")[0], "state": "closed"}], comments=[], labels=[])
    assert issues.update(True, "Inconclusive: 12 cells did not run", "again").startswith("left closed")
    assert len(github.read("issues")) == 1
    assert issues.update(True, "Yes: 1 new cause", "news") == "opened"


def test_long_text_is_cut_to_what_github_takes(issues: Issues, github: GitHub) -> None:
    issues.update(True, "t" * 1000, "b" * 100_000)
    (made,) = github.read("issues")
    assert len(made["title"]) <= 256
    assert len(made["body"]) <= 65_536


def test_a_failure_names_the_command_without_the_token(github: GitHub) -> None:
    with pytest.raises(IssueError, match=r"`gh issue list` in me/models failed: HTTP 401: Bad credentials") as error:
        Issues("me/models", "wrong").update(True, "Yes", "x")
    assert "wrong" not in str(error.value)


def test_a_missing_gh_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(IssueError, match=r"`gh issue list` in me/models: .*Fix: Install the GitHub CLI"):
        Issues("me/models", "secret").update(True, "Yes", "x")


def test_missing_variables_are_named() -> None:
    with pytest.raises(IssueError, match=r"GITHUB_TOKEN not set\. Fix: Set `env: GITHUB_TOKEN"):
        Issues.of_job({"GITHUB_REPOSITORY": "me/models"})


@pytest.mark.parametrize(
    ("server", "host"),
    [({}, "github.com"), ({"GITHUB_SERVER_URL": "https://git.example.invalid"}, "git.example.invalid")],
)
def test_the_repository_is_that_of_the_job(server: dict[str, str], host: str) -> None:
    job = Issues.of_job({"GITHUB_REPOSITORY": "me/models", "GITHUB_TOKEN": "secret", **server})
    assert job == Issues(f"{host}/me/models", "secret")
