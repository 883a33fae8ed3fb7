"""Every check passes its own examples and has the form that all checks have."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

from pytest_exportready import checks
from pytest_exportready.case.finding import Finding
from pytest_exportready.checks import all_checks
from pytest_exportready.checks._check import Check, Subject
from pytest_exportready.discover import module_names

NAMES = module_names(checks)


def _examples(kind: str) -> list[object]:
    return [
        pytest.param(check, build, id=f"{name}-{kind}{number}")
        for name, check in all_checks().items()
        for number, build in enumerate(getattr(check, kind))
    ]


def _findings(check: Check, subject: Subject) -> list[Finding]:
    found = list(check.inspect(subject))
    if check.inspect_program is not None and not found:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            program = torch.export.export(subject.model, subject.args, dict(subject.kwargs))
        found = list(check.inspect_program(program, subject))
    return found


@pytest.mark.parametrize(("check", "build"), _examples("good"))
def test_good_example_is_clean(check: Check, build: Callable[[], Subject]) -> None:
    assert [str(f) for f in _findings(check, build()) if f.severity != "note"] == []


@pytest.mark.parametrize(("check", "build"), _examples("bad"))
def test_bad_example_is_found_with_a_fix(check: Check, build: Callable[[], Subject]) -> None:
    serious = [f for f in _findings(check, build()) if f.severity != "note"]
    assert serious
    for finding in serious:
        assert (finding.code, finding.name) == (check.rule.code, check.rule.name)
        assert finding.message
        assert finding.fix
        assert "tensor(" not in str(finding)


@pytest.mark.parametrize(("check", "build"), _examples("bad"))
def test_remedy_leaves_no_error_of_its_own(check: Check, build: Callable[[], Subject]) -> None:
    subject = build()
    if check.remedy is None or not list(check.inspect(subject)):
        pytest.skip("no remedy, or nothing to fix")
    if check.remedy(subject):
        assert [str(f) for f in check.inspect(subject) if f.severity == "error"] == []
        assert check.remedy(subject) == []


def _odd_tensors() -> nn.Module:
    model = nn.Sequential(nn.BatchNorm1d(2)).eval()
    model.register_buffer("sparse", torch.eye(3).to_sparse())
    model.register_buffer("none", None)
    model.loose = [torch.eye(3).to_sparse(), torch.empty(0), None]
    return model


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "build",
    [
        nn.Module,
        _odd_tensors,
        lambda: nn.Sequential(nn.LazyLinear(2), nn.LazyBatchNorm1d()).eval(),
        lambda: nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2)).to("meta").eval(),
        lambda: torch.fx.symbolic_trace(nn.Sequential(nn.Linear(2, 2), nn.Dropout()).eval()),
        lambda: torch.export.export(nn.Linear(2, 2), (torch.ones(1, 2),)).module(),
    ],
    ids=["bare", "odd", "lazy", "meta", "traced", "program"],
)
def test_unusual_modules_do_not_break_a_check(name: str, build: Callable[[], nn.Module]) -> None:
    subject = Subject(build(), target_device="cuda", checkpoint={})
    codes = {f.code for f in all_checks()[name].inspect(subject)}
    assert codes <= {all_checks()[name].rule.code}


def test_sharded_parameters_do_not_break_a_check(tmp_path: Path) -> None:
    store = dist.FileStore(str(tmp_path / "store"), 1)
    dist.init_process_group("gloo", store=store, rank=0, world_size=1)
    try:
        model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2)).eval()
        fully_shard(model, mesh=init_device_mesh("cpu", (1,)))
        model(torch.ones(2, 2)).sum().backward()
        found = [f for check in all_checks().values() for f in check.inspect(Subject(model))]
    finally:
        dist.destroy_process_group()
    assert [f.severity for f in found if f.severity != "note"] == ["warning", "warning", "error"]
    assert [f.name for f in found if f.severity == "error"] == ["parameters_not_sharded"]


@pytest.mark.parametrize("name", NAMES)
def test_check_has_the_form_of_all_checks(name: str) -> None:
    check = all_checks()[name]
    assert check.rule.name == name
    assert re.fullmatch(r"ER\d{3}", check.rule.code)
    assert check.good
    assert check.bad


def test_codes_are_unique() -> None:
    codes = [check.rule.code for check in all_checks().values()]
    assert len(set(codes)) == len(codes)


def test_required_checks_exist() -> None:
    for check in all_checks().values():
        assert set(check.requires) <= set(NAMES)
