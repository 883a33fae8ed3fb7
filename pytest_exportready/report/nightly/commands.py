"""What to type: run a failure again under the night's own wheel, bisect what broke it, make tonight the baseline."""

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
    """The command that installs this wheel of torch; empty for one that was built from source."""
    found = _VERSION.fullmatch(torch)
    if not found or (found["build"] or "").startswith("git"):
        return ""
    nightly, build = "dev" in found["version"], found["build"] or ""
    index = "/".join(part for part in (_INDEX, "nightly" if nightly else "", build) if part)
    return (
        f"pip install {'--pre ' if nightly else ''}torch=={torch}{f' --index-url {index}' if nightly or build else ''}"
    )


def again(nodeid: str, torch: str) -> str:
    """The command that runs one case again."""
    run = f"pytest --export-ready {shlex.quote(nodeid)}"
    return " && ".join(part for part in (install(torch), run) if part)


def bisect(whose: Whose, was: Mapping[str, str], now: Mapping[str, str], nodeid: str) -> str:
    """Commands that find the commit between two nights; empty where there are no two commits to search between.

    For torch they are run in a checkout of PyTorch, with the shell variable ``YOURS`` naming the user's own.
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
    """The command that makes tonight what the next night is compared with."""
    old, new = shlex.quote(str(last)), shlex.quote(str(tonight))
    return f"rm -r {old} && cp -r {new} {old}" if tonight.is_dir() else f"cp {new} {old}"
