"""Machine: GPUs, real or pretended, and a project whose cases run on them."""

from __future__ import annotations

import subprocess
import sys
import time
from dataclasses import dataclass

from user_project import Project


@dataclass
class Machine:
    """GPUs, and a project whose cases run on them."""

    environment: dict[str, str]
    real: bool
    project: Project

    def python(self, program: str, **variables: str) -> str:
        """Return what a Python process prints."""
        command = [sys.executable, "-c", program]
        environment = {**self.environment, **variables}
        done = subprocess.run(command, cwd=self.project.path, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def judge(self, cases: str, *arguments: str, **variables: str) -> dict[str, str]:
        """Return the outcomes of cases."""
        self.project.write(cases)
        return self.run("--export-ready", "--export-ready-reference-models=never", *arguments, **variables)

    def run(self, *arguments: str, **variables: str) -> dict[str, str]:
        """Run pytest in the project, print its duration, and return the outcomes of cases."""
        environment = {**self.environment, "EXPORTREADY_GPU_LOCKS": str(self.project.path / "locks"), **variables}
        began = time.monotonic()
        command = [sys.executable, "-m", "pytest", *arguments]
        done = subprocess.run(command, cwd=self.project.path, env=environment, capture_output=True, text=True)
        print(f"{time.monotonic() - began:.1f} s", done.stdout[-3000:], done.stderr[-2000:], sep="\n")
        return self.project.outcomes() if (self.project.path / "exportready" / "junit.xml").exists() else {}
