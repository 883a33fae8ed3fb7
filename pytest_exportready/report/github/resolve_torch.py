"""Resolve a requirement once, so that every leg of a night has the same wheel."""

from __future__ import annotations

import json
import subprocess
import sys

SECONDS = 300


class WheelError(Exception):
    """No wheel is available; the message names the requirement and what pip printed."""


def resolve(requirement: str, index: str, *, pre: bool = False) -> str:
    """Return the version of the wheel that pip would install here for ``requirement`` from ``index`` only.

    Args:
        pre: Include pre-releases, such as nightly builds.

    Raises:
        WheelError: There is none, or the index cannot be reached.
    """
    command = [sys.executable, "-m", "pip", "install", "--isolated", "--dry-run", "--ignore-installed", "--no-deps"]
    command += ["--quiet", "--disable-pip-version-check", "--report", "-", "--only-binary", ":all:"]
    command += ["--index-url", index, *(["--pre"] if pre else []), "--", requirement]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    except subprocess.TimeoutExpired:
        raise WheelError(f"{requirement} from {index}: pip did not finish in {SECONDS} s") from None
    if done.returncode:
        errors = [line.strip() for line in done.stderr.splitlines() if line.startswith("ERROR:")]
        raise WheelError(f"{requirement} from {index}: {' '.join(errors) or done.stderr.strip()[-300:]}")
    chosen = json.loads(done.stdout)["install"][0]
    return str(chosen["metadata"]["version"])
