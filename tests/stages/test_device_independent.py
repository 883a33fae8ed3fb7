"""Baked devices, each in a module of its own, and clean twins: each fault is found, no twin is accused."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from torch import nn

import tests.stages.device_independent_more  # noqa: F401 (adds to the lists)
from pytest_exportready import export_ready_check
from tests.stages.device_independent import CLEAN, FAULTS, X

OF_DEVICES = {"ER141", "ER201", "ER210", "ER650", "ER651"}


@pytest.mark.parametrize("build", [build for _, build in FAULTS], ids=[name for name, _ in FAULTS])
def test_found(build: Callable[[], nn.Module]) -> None:
    verdict = export_ready_check(build(), (X,), target_device="cuda", stages=["portability"])
    assert {finding.code for finding in verdict.findings if finding.blocks} & OF_DEVICES


@pytest.mark.parametrize("build", [build for _, build in CLEAN], ids=[name for name, _ in CLEAN])
def test_not_accused(build: Callable[[], nn.Module]) -> None:
    verdict = export_ready_check(build(), (X,), target_device="cuda", stages=["portability"])
    assert [str(finding) for finding in verdict.findings if finding.blocks] == []
