"""torchvision's resnet18, declared as a user does: it passes, and each training mistake is found and fixed."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

from pytest_exportready.report.junit import read_junit
from pytest_exportready.report.run import TestResult

if find_spec("torchvision") is None:
    pytest.skip("torchvision is not installed", allow_module_level=True)

CASES = """\
import pytest
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torchvision.models import resnet18

from pytest_exportready import export_ready, prepare_for_export

pytestmark = pytest.mark.export_ready(dynamic_batch=True)
INPUTS = (torch.randn(4, 3, 64, 64),)


@pytest.fixture
def group(tmp_path):
    store = dist.FileStore(str(tmp_path / "store"), 1)
    dist.init_process_group("gloo", store=store, rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def test_healthy():
    return resnet18().eval(), INPUTS


def test_left_in_train():
    return resnet18().train(), INPUTS


def test_wrapped(group):
    return DistributedDataParallel(resnet18()).eval(), INPUTS


def test_left_in_train_prepared():
    return prepare_for_export(resnet18().train()).module, INPUTS


def test_wrapped_prepared(group):
    return prepare_for_export(DistributedDataParallel(resnet18())).module, INPUTS
"""


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, TestResult]:
    import subprocess
    import sys

    folder: Path = tmp_path_factory.mktemp("user")
    (folder / "test_resnet.py").write_text(CASES)
    command = [sys.executable, "-m", "pytest", "--export-ready", "-p", "no:cacheprovider", "test_resnet.py"]
    subprocess.run(command, cwd=folder, capture_output=True, timeout=600)
    return {result.name: result for result in read_junit(folder / "exportready" / "junit.xml").results}


@pytest.mark.parametrize("name", ["test_healthy", "test_left_in_train_prepared", "test_wrapped_prepared"])
def test_ready(name: str, results: dict[str, TestResult]) -> None:
    assert results[name].outcome == "passed", results[name].text
    readiness = results[name].readiness
    assert readiness is not None
    assert {stage.name for stage in readiness.stages if stage.outcome == "passed"} >= {"parity", "shapes", "reload"}


@pytest.mark.parametrize(
    ("name", "found"),
    [("test_left_in_train", {"batchnorm_frozen", "no_training_mode"}), ("test_wrapped", {"ddp_hooks_emptied"})],
)
def test_not_ready(name: str, found: set[str], results: dict[str, TestResult]) -> None:
    assert results[name].outcome == "failed"
    readiness = results[name].readiness
    assert readiness is not None
    assert {finding.name for finding in readiness.errors} == found
    if name == "test_left_in_train":
        assert all("bn1" in finding.where for finding in readiness.errors)
