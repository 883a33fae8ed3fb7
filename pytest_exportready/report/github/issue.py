"""One issue that says how the nights are going: opened, updated and closed by the report job itself."""

from __future__ import annotations

import http.client
import json
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pytest_exportready.case.explained import ExplainedError
from pytest_exportready.report import truncate

LABEL = "export-readiness"
SECONDS = 30
BODY_LIMIT = 60_000
"""Characters; GitHub refuses a body of more than 65,536."""

PAGE, PAGES = 100, 10
"""Issues that GitHub gives at once at the most, and how often we ask for more."""

Done = Literal["opened", "updated", "closed", "nothing to do", "left closed, as somebody has closed it"]


class IssueError(ExplainedError):
    """GitHub refused, or cannot be reached; the message says what was asked and what it answered, never the token."""


@dataclass(frozen=True)
class Repository:
    """name: ``owner/name``. api: the address of the REST API. token: needs ``issues: write`` and nothing else."""

    name: str
    api: str
    token: str

    @classmethod
    def here(cls, environ: Mapping[str, str]) -> Repository:
        """As a job of GitHub Actions is told. Raises IssueError that names what is not there."""
        keys = ("GITHUB_REPOSITORY", "GITHUB_API_URL", "GITHUB_TOKEN")
        missing = [key for key in keys if not environ.get(key)]
        if missing:
            raise IssueError(f"{', '.join(missing)} not set", "env: GITHUB_TOKEN: ${{ github.token }} in the step")
        return cls(*(environ[key] for key in keys))

    def tell(self, bad: bool, title: str, body: str) -> Done:
        """Bring the one open issue with our label to this state: open with this text while ``bad``, else closed.

        The label is what finds it, as only those who may triage set one. A verdict that has changed is a comment too,
        so that it reaches who follows. What a person has closed while it said the same as tonight stays closed:
        we close with another title. Raises IssueError.
        """
        title, body = truncate.line(title, 250), body[:BODY_LIMIT]
        found = next(self._issues("open"), None)
        if found is None:
            if not bad:
                return "nothing to do"
            last = next(self._issues("closed"), None)
            if last is not None and last.get("title") == title:
                return "left closed, as somebody has closed it"
            self._call("POST", "/issues", {"title": title, "body": body, "labels": [LABEL]})
            return "opened"
        issue = f"/issues/{found['number']}"
        if found.get("title") != title:
            self._call("POST", f"{issue}/comments", {"body": body if not bad else title})
        if not bad:
            self._call("PATCH", issue, {"state": "closed", "state_reason": "completed", "title": title})
            return "closed"
        self._call("PATCH", issue, {"title": title, "body": body})
        return "updated"

    def _issues(self, state: str) -> Iterator[dict[str, Any]]:
        """Those with our label, the last changed first; GitHub lists pull requests among them. Raises IssueError."""
        for page in range(1, PAGES + 1):
            asked = {"state": state, "labels": LABEL, "sort": "updated", "per_page": PAGE, "page": page}
            answer = self._call("GET", f"/issues?{urllib.parse.urlencode(asked)}")
            if not isinstance(answer, list) or not all(_is_numbered(one) for one in answer):
                raise IssueError(f"GET /issues of {self.name}: the answer is no list of issues")
            yield from (one for one in answer if "pull_request" not in one)
            if len(answer) < PAGE:
                return

    def _call(self, method: str, path: str, data: dict[str, Any] | None = None) -> Any:
        request = urllib.request.Request(
            f"{self.api.rstrip('/')}/repos/{self.name}{path}",
            method=method,
            data=None if data is None else json.dumps(data).encode(),
            headers={
                "Accept": "application/vnd.github+json",
                "Authorization": f"Bearer {self.token}",
                "Content-Type": "application/json",
                "X-GitHub-Api-Version": "2022-11-28",
            },
        )
        asked = f"{method} {path.partition('?')[0]} of {self.name}"
        try:
            with urllib.request.urlopen(request, timeout=SECONDS) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            told = error.read(2_000).decode("utf-8", "replace")
            raise IssueError(f"{asked}: {error.code} {error.reason}: {truncate.line(told, 300)}") from None
        except (OSError, ValueError, RecursionError, http.client.HTTPException) as error:
            raise IssueError(f"{asked}: {error}") from None


def _is_numbered(one: Any) -> bool:
    return isinstance(one, dict) and type(one.get("number")) is int
