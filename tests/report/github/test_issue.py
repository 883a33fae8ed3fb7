"""One issue for all nights, against a server that keeps issues as GitHub does."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from pytest_exportready.report.github.issue import LABEL, IssueError, Repository


class GitHub(ThreadingHTTPServer):
    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.issues: list[dict[str, Any]] = []
        self.answer: Any = self.issues
        self.comments: list[tuple[int, str]] = []
        self.status = 200


class Handler(BaseHTTPRequestHandler):
    server: GitHub

    def _answer(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        data = json.loads(self.rfile.read(length)) if length else {}
        given = self.headers["Authorization"] == "Bearer secret"
        status = self.server.status if given else 401
        answer = self._do(data) if status == 200 else {"message": "Bad credentials"}
        body = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST = do_PATCH = _answer

    def _do(self, data: dict[str, Any]) -> Any:
        url = urlsplit(self.path)
        parts = url.path.split("/")
        assert parts[:5] == ["", "repos", "me", "models", "issues"]
        issues = self.server.issues
        if self.command == "GET":
            if self.server.answer is not issues:
                return self.server.answer
            asked = parse_qs(url.query)
            fits = [
                one for one in issues if one["state"] in asked["state"] and set(asked["labels"]) <= set(one["labels"])
            ]
            first = (int(asked["page"][0]) - 1) * int(asked["per_page"][0])
            return fits[first : first + int(asked["per_page"][0])]
        if len(parts) == 5:
            issues.append({"number": len(issues) + 1, "state": "open", "labels": [], **data})
            return issues[-1]
        number = int(parts[5])
        if parts[6:] == ["comments"]:
            self.server.comments.append((number, data["body"]))
            return data
        issues[number - 1].update(data)
        return issues[number - 1]

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def github() -> Iterator[GitHub]:
    server = GitHub()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def repository(github: GitHub) -> Repository:
    return Repository("me/models", f"http://127.0.0.1:{github.server_port}", "secret")


def test_opened_updated_and_closed(repository: Repository, github: GitHub) -> None:
    assert repository.tell(False, "No", "all well") == "nothing to do"
    assert repository.tell(True, "Yes: 1 new cause", "first") == "opened"
    assert github.issues == [
        {"number": 1, "state": "open", "labels": [LABEL], "title": "Yes: 1 new cause", "body": "first"}
    ]
    assert repository.tell(True, "Yes: 1 new cause", "second") == "updated"
    assert github.issues[0]["body"] == "second"
    assert github.comments == []
    assert repository.tell(True, "Yes: 2 new causes", "third") == "updated"
    assert github.comments == [(1, "Yes: 2 new causes")]
    assert repository.tell(False, "No", "fixed") == "closed"
    assert github.issues[0]["state"] == "closed"
    assert github.comments[-1] == (1, "fixed")
    assert repository.tell(True, "Yes", "again") == "opened"
    assert len(github.issues) == 2


def test_an_issue_of_somebody_else_is_left_alone(repository: Repository, github: GitHub) -> None:
    theirs = {"number": 1, "state": "open", "labels": ["bug"], "title": "Yes: 1 new cause", "body": "x"}
    github.issues.append(dict(theirs))
    repository.tell(True, "Yes: 1 new cause", "ours")
    repository.tell(False, "No", "fixed")
    assert github.issues[0] == theirs


def test_a_pull_request_with_the_label_is_no_issue_of_ours(repository: Repository, github: GitHub) -> None:
    """GitHub lists pull requests as issues: more of them than a page holds, too."""
    request = {"state": "open", "labels": [LABEL], "title": "Yes", "body": "theirs", "pull_request": {"url": "x"}}
    github.issues += [{"number": number, **request} for number in range(1, 131)]
    assert repository.tell(True, "Yes", "ours") == "opened"
    assert repository.tell(True, "Yes", "more") == "updated"
    assert github.issues[-1]["body"] == "more"
    assert all(one["body"] == "theirs" and one["state"] == "open" for one in github.issues[:-1])


def test_what_a_person_has_closed_is_opened_again_by_news_only(repository: Repository, github: GitHub) -> None:
    repository.tell(True, "Can't tell: 12 cells did not run", "first")
    github.issues[0]["state"] = "closed"
    for _ in range(3):
        assert repository.tell(True, "Can't tell: 12 cells did not run", "again").startswith("left closed")
    assert len(github.issues) == 1
    assert repository.tell(True, "Yes: 1 new cause", "news") == "opened"


@pytest.mark.parametrize("answer", [None, {}, "x", 3, [None], [{}], [{"number": "1/../../x"}], [{"number": True}]])
def test_an_answer_that_is_no_list_of_issues_is_told(repository: Repository, github: GitHub, answer: Any) -> None:
    github.answer = answer
    with pytest.raises(IssueError, match="GET /issues of me/models: the answer is no list of issues"):
        repository.tell(True, "Yes", "x")
    assert github.issues == []


def test_what_is_too_long_is_cut(repository: Repository, github: GitHub) -> None:
    repository.tell(True, "t" * 1000, "b" * 100_000)
    assert len(github.issues[0]["title"]) <= 256
    assert len(github.issues[0]["body"]) <= 65_536


@pytest.mark.parametrize("status", [401, 403, 404, 500])
def test_a_refusal_is_told_without_the_token(repository: Repository, github: GitHub, status: int) -> None:
    github.status = status
    with pytest.raises(IssueError, match=rf"GET /issues of me/models: {status} .*Bad credentials") as error:
        repository.tell(True, "Yes", "x")
    assert "secret" not in str(error.value)


def test_a_server_that_is_not_there_is_told() -> None:
    with pytest.raises(IssueError, match="GET /issues of me/models: "):
        Repository("me/models", "http://127.0.0.1:9", "secret").tell(True, "Yes", "x")


def test_what_a_job_must_be_given_is_named() -> None:
    with pytest.raises(IssueError, match=r"GITHUB_API_URL, GITHUB_TOKEN not set\. Fix: env: GITHUB_TOKEN"):
        Repository.here({"GITHUB_REPOSITORY": "me/models"})
