"""Every block of the README does what it says."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
PYTHON = [text for language, text in BLOCKS if language == "python"]
COMMANDS = [line[2:] for language, text in BLOCKS if language == "console" for line in text.splitlines()]


def run_pytest(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)


def test_the_example_case_is_ready_and_its_fault_is_found_as_printed(tmp_path: Path) -> None:
    (message,) = [text.strip() for language, text in BLOCKS if language == "text"]
    (tmp_path / "test_export.py").write_text(PYTHON[0])
    (tmp_path / "test_forgotten.py").write_text(PYTHON[0].replace("Classifier().eval()", "Classifier()"))
    result = run_pytest(tmp_path, "--export-ready", "test_export.py", "test_forgotten.py")
    assert result.returncode == 1
    assert "1 failed, 1 passed" in result.stdout
    assert message in result.stdout
    assert (tmp_path / "exportready" / "junit.xml").exists()
    assert (tmp_path / "exportready" / "report.html").exists()


def test_the_example_of_devices_runs_on_the_cpu_and_on_a_gpu_if_there_is_one(tmp_path: Path) -> None:
    (tmp_path / "test_head.py").write_text(PYTHON[1])
    result = run_pytest(tmp_path, "--export-ready", "test_head.py")
    assert re.search("1 passed, 1 skipped|2 passed", result.stdout), result.stdout


def test_the_example_script_runs(capsys: pytest.CaptureFixture[str]) -> None:
    exec(compile(PYTHON[2], "README.md", "exec"), {})
    assert "ready" in capsys.readouterr().out


def test_the_example_of_programs_that_are_kept_runs(capsys: pytest.CaptureFixture[str]) -> None:
    exec(compile(PYTHON[3], "README.md", "exec"), {})
    assert [len(line) for line in capsys.readouterr().out.split()] == [32, 32, 32]


def test_the_example_of_ranks_passes(tmp_path: Path) -> None:
    (tmp_path / "test_ranks.py").write_text(PYTHON[4])
    result = run_pytest(tmp_path, "test_ranks.py")
    assert "1 passed" in result.stdout, result.stdout


def test_the_example_of_ranks_passes_under_torchrun(tmp_path: Path) -> None:
    (tmp_path / "test_ranks.py").write_text(PYTHON[4])
    (command,) = [command for command in COMMANDS if command.startswith("torchrun ")]
    options = command.removeprefix("torchrun ").split()
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", *options, "-p", "no:cacheprovider"]
    result = subprocess.run(launch, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert result.returncode == 0, result.stderr
    assert result.stdout.count("1 passed") == 1


def test_both_first_commands_are_what_ci_runs() -> None:
    ci = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert COMMANDS[1] in ci
    assert COMMANDS[0].split(" && ")[1] in ci


@pytest.mark.parametrize("command", [c for c in COMMANDS if c.startswith("exportready ")])
def test_command_lines_work(command: str, tmp_path: Path) -> None:
    (tmp_path / "exportready").mkdir()
    (tmp_path / "test_plain.py").write_text("def test_nothing(): pass\n")
    if "junit.xml" in command:
        run_pytest(tmp_path, "--junitxml=exportready/junit.xml")
    for night in re.findall(r"nights/(\S+)", command):
        run_pytest(tmp_path, f"--junitxml=nights/{night}/junit.xml")
        junit = tmp_path / "nights" / night / "junit.xml"
        junit.write_text(re.sub('timestamp="[^"]*"', f'timestamp="{night}T03:00:00+00:00"', junit.read_text()))
        shutil.copytree(junit.parent, tmp_path / "stable", dirs_exist_ok=True)
    main = "import sys; from pytest_exportready.cli import main; sys.exit(main(sys.argv[1:]))"
    result = subprocess.run(
        [sys.executable, "-c", main, *command.split()[1:]], cwd=tmp_path, capture_output=True, text=True, timeout=120
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout


def test_the_check_of_the_contributing_guide_is_a_check(tmp_path: Path) -> None:
    (text,) = re.findall(r"^```python\n(.*?)^```$", CONTRIBUTING, re.MULTILINE | re.DOTALL)
    scope: dict[str, object] = {"__name__": "no_double_parameters"}
    exec(compile(text, "CONTRIBUTING.md", "exec"), scope)
    check = scope["CHECK"]
    assert not [f for build in check.good for f in check.inspect(build())]  # type: ignore[attr-defined]
    assert [f for build in check.bad for f in check.inspect(build())]  # type: ignore[attr-defined]


def test_every_option_of_the_marker_is_in_the_table() -> None:
    from pytest_exportready.case.options import ACCEPTED

    assert [name for name in ACCEPTED if f"`{name}=" not in README and f", {name}=" not in README] == []


def test_the_workflow_takes_what_the_readme_gives_it() -> None:
    yaml = pytest.importorskip("ruamel.yaml").YAML(typ="safe", pure=True)
    (text,) = [text for language, text in BLOCKS if language == "yaml"]
    job = yaml.load(text)["jobs"]["export-ready"]
    called = yaml.load(ROOT / ".github" / "workflows" / Path(job["uses"].partition("@")[0]).name)
    inputs = called["on"]["workflow_call"]["inputs"]
    python = {"string": str, "number": int, "boolean": bool}
    assert all(isinstance(value, python[inputs[name]["type"]]) for name, value in job["with"].items())
    asked = {item for each in called["jobs"].values() for item in each["permissions"].items()}
    assert asked == set(job["permissions"].items())
