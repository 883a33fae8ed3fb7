from __future__ import annotations

import subprocess
import sys

import pytest

from pytest_exportready import __version__, cli
from pytest_exportready.cli import main
from pytest_exportready.discover import module_names


def test_every_module_is_a_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["--help"])
    assert stop.value.code == 0
    output = capsys.readouterr().out
    assert all(f"    {name} " in output for name in module_names(cli))


@pytest.mark.parametrize("arguments", [[], ["nothing"], ["report"]])
def test_wrong_use_exits_with_2(arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(arguments)
    assert stop.value.code == 2


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--version"])
    assert capsys.readouterr().out == f"pytest-exportready {__version__}\n"


def test_reports_and_help_never_need_torch() -> None:
    code = (
        "import sys; from pytest_exportready.cli import main\n"
        "import pytest_exportready.report.html, pytest_exportready.report.junit\n"
        "import pytest_exportready.report.collect_results, pytest_exportready.report.terminal\n"
        "try: main(['--help'])\n"
        "except SystemExit: sys.exit('torch' in sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)
