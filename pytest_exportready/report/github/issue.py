"""One issue that shows the state of the nights, opened, updated and closed with the ``gh`` command."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pytest_exportready.case.explained import ExplainedError
from pytest_exportready.report import truncate

LABEL = "export-readiness"
SECONDS = 60
BODY_LIMIT = 60_000
"""Characters; GitHub refuses a body of more than 65,536."""

Action = Literal["opened", "updated", "closed", "nothing to do", "left closed, because somebody has closed it"]


class IssueError(ExplainedError):
    """``gh`` failed or is not installed; the message names the command, never the token."""


@dataclass(frozen=True)
class Issues:
    """The issues of a repository that have our label: only those who may triage can set one."""

    repository: str  # [host/]owner/name
    token: str  # needs issues: write and nothing else

    @classmethod
    def of_job(cls, environ: Mapping[str, str]) -> Issues:
        """Return the issues of the repository that a job of GitHub Actions runs for.

        Raises:
            IssueError: A variable is not set.
        """
        missing = [key for key in ("GITHUB_REPOSITORY", "GITHUB_TOKEN") if not environ.get(key)]
        if missing:
            fix = "Set `env: GITHUB_TOKEN: ${{ github.token }}` in the step."
            raise IssueError(f"{', '.join(missing)} not set", fix)
        host = environ.get("GITHUB_SERVER_URL", "https://github.com").partition("://")[2]
        return cls(f"{host}/{environ['GITHUB_REPOSITORY']}", environ["GITHUB_TOKEN"])

    def update(self, failing: bool, title: str, body: str) -> Action:
        """Keep one issue with this text open while ``failing``; close it otherwise.

        A changed title is also a comment, which notifies followers. An issue that a person closed stays closed until
        the title changes; we close with another title.

        Raises:
            IssueError: ``gh`` failed.
        """
        title, body = truncate.line(title, 250), body[:BODY_LIMIT]
        latest = self._latest("open")
        if latest is None:
            return self._opened(title, body) if failing else "nothing to do"
        number = str(latest["number"])
        if latest["title"] != title:
            self._gh("issue", "comment", number, "--body-file=-", text=title if failing else body)
        if failing:
            self._gh("issue", "edit", number, f"--title={title}", "--body-file=-", text=body)
            return "updated"
        self._gh("issue", "edit", number, f"--title={title}")
        self._gh("issue", "close", number, "--reason=completed")
        return "closed"

    def _opened(self, title: str, body: str) -> Action:
        closed = self._latest("closed")
        if closed is not None and closed["title"] == title:
            return "left closed, because somebody has closed it"
        self._gh("label", "create", LABEL, "--force", "--color=b60205", "--description=State of the export nights")
        self._gh("issue", "create", f"--title={title}", "--body-file=-", f"--label={LABEL}", text=body)
        return "opened"

    def _latest(self, state: str) -> dict[str, Any] | None:
        """Return number and title of the newest issue; ``gh`` leaves out pull requests."""
        fields = ("--limit=1", "--json=number,title")
        output = self._gh(
            "issue", "list", f"--label={LABEL}", f"--state={state}", "--search=sort:created-desc", *fields
        )
        found: list[dict[str, Any]] = json.loads(output)
        return found[0] if found else None

    def _gh(self, *arguments: str, text: str = "") -> str:
        """Run ``gh`` with ``text`` as its input, and return its output."""
        command = ["gh", *arguments, f"--repo={self.repository}"]
        tokens = dict.fromkeys(("GH_TOKEN", "GH_ENTERPRISE_TOKEN"), self.token)
        called = f"`gh {' '.join(arguments[:2])}` in {self.repository}"
        try:
            done = subprocess.run(
                command,
                input=text,
                capture_output=True,
                encoding="utf-8",
                errors="replace",
                timeout=SECONDS,
                check=False,
                env={**os.environ, **tokens},
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise IssueError(f"{called}: {error}", "Install the GitHub CLI, `gh`.") from None
        if done.returncode:
            raise IssueError(f"{called} failed: {truncate.line(done.stderr, 300)}")
        return done.stdout
