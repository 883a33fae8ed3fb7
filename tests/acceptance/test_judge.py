"""The judge survives cases that end or block their processes, and reports what happened."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

JUDGE = Path(__file__).with_name("judge.py")
HEAD = "import os, time, torch\nfrom torch import nn\n"
TWO_RANKS = (
    "def build():\n    return nn.Linear(4, 2).eval(), (torch.randn(3, 4),), {}, {'world_size': 2, 'timeout_s': 20}\n"
)
CASES = {
    "01_exits_zero": HEAD
    + TWO_RANKS
    + "def train(rank, size):\n    os._exit(0) if rank else None\n    return build()[0]\n",
    "02_killed": HEAD
    + TWO_RANKS
    + "def train(rank, size):\n    os.kill(os.getpid(), 9) if rank else None\n    return build()[0]\n",
    "03_hangs": HEAD
    + TWO_RANKS.replace("20", "4")
    + "def train(rank, size):\n    time.sleep(3600) if rank else None\n    return build()[0]\n",
    "04_no_build": HEAD + "x = 1\n",
    "05_floods": HEAD
    + "class Net(nn.Linear):\n    def forward(self, x):\n"
    + "        print('x' * 50_000_000)\n        return super().forward(x)\n"
    + "def build():\n    return Net(4, 2).eval(), (torch.randn(3, 4),), {}, {}\n",
    "06_port_taken": HEAD
    + "def build():\n    os.environ.update(MASTER_ADDR='127.0.0.1', MASTER_PORT='1')\n"
    + "    return nn.Linear(4, 2).eval(), (torch.randn(3, 4),), {}, {'world_size': 2}\n"
    + "def train(rank, size):\n    torch.distributed.barrier()\n    return build()[0]\n",
}
EXPECTED = {
    "case_01_exits_zero": ("not_ready", "rank 1", "exit code 0"),
    "case_02_killed": ("not_ready", "rank 1", "SIGKILL"),
    "case_03_hangs": ("not_ready", "rank 1", "did not end in time"),
    "case_04_no_build": ("not_ready", "rank 0", "has no attribute 'build'"),
    "case_05_floods": ("ready", "", ""),
    "case_06_port_taken": ("ready", "", ""),
}


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, object]]:
    folder = tmp_path_factory.mktemp("cases")
    for name, text in CASES.items():
        (folder / f"case_{name}.py").write_text(text)
    command = [sys.executable, str(JUDGE), str(folder), "--json", str(folder / "out.json")]
    subprocess.run(command, check=True, capture_output=True, timeout=300)
    return {result["case"]: result for result in json.loads((folder / "out.json").read_text())}


@pytest.mark.parametrize("case", EXPECTED)
def test_a_case_cannot_end_the_judge(case: str, results: dict[str, dict[str, object]]) -> None:
    verdict, where, message = EXPECTED[case]
    findings = json.dumps(results[case]["findings"])
    assert results[case]["verdict"] == verdict, findings
    assert where in findings
    assert message in findings
