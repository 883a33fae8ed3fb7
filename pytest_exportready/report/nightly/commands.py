"""Shell commands: run a failure again with the wheel of the night, bisect, make tonight the baseline."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from pathlib import Path

from pytest_exportready.report.nightly.attribution import Whose

_INDEX = "https://download.pytorch.org/whl"
_VERSION = re.compile(r"(?P<version>\d[\w.]*)(?:\+(?P<build>\w+))?")
_REVISION = re.compile(r"[0-9a-f]{40}")


def install(torch: str) -> str:
    """Return the command that installs this wheel of torch; empty for a build from source."""
    found = _VERSION.fullmatch(torch)
    if not found or (found["build"] or "").startswith("git"):
        return ""
    nightly, build = "dev" in found["version"], found["build"] or ""
    index = "/".join(part for part in (_INDEX, "nightly" if nightly else "", build) if part)
    options = f" --index-url {index}" if nightly or build else ""
    return f"pip install {'--pre ' if nightly else ''}torch=={torch}{options}"


def again(nodeid: str, torch: str) -> str:
    """Return the command that runs one case again."""
    run = f"pytest --export-ready {shlex.quote(nodeid)}"
    return " && ".join(part for part in (install(torch), run) if part)


def bisect(whose: Whose, was: Mapping[str, str], now: Mapping[str, str], nodeid: str) -> str:
    """Return commands that find the commit between two nights; empty without two different commits.

    For torch they run in a checkout of PyTorch, with the shell variable ``YOURS`` set to the user's repository.
    """
    key = {"torch": "torch.git_version", "yours": "commit"}.get(whose, "")
    good, bad = was.get(key, ""), now.get(key, "")
    if good == bad or not (_REVISION.fullmatch(good) and _REVISION.fullmatch(bad)):
        return ""
    test = "pytest --export-ready"
    if whose == "torch":
        build = "git submodule update --init --recursive && pip install --no-build-isolation -e . || exit 125"
        test = f"""sh -c '{build}; cd "$YOURS" && {test} "$0"'"""
    return f"git bisect start {bad} {good} && git bisect run {test} {shlex.quote(nodeid)}"


def rebaseline(last: Path, tonight: Path) -> str:
    """Return the command that makes tonight the baseline of the next night."""
    old, new = shlex.quote(str(last)), shlex.quote(str(tonight))
    return f"rm -r {old} && cp -r {new} {old}" if tonight.is_dir() else f"cp {new} {old}"
