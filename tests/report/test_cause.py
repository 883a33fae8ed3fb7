from __future__ import annotations

from dataclasses import replace

import pytest

from pytest_exportready.case.finding import Finding
from pytest_exportready.case.readiness import Readiness, StageResult
from pytest_exportready.report.cause import FailureCause, cause_of, causes, causes_of, normalized, of_finding
from pytest_exportready.report.run import TestResult

FAILED = "RuntimeError: shapes [4, 3, 64] and [4, 5] cannot be multiplied in aten.mm.default"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("shape [4, 3] in aten.mm", "shape [16, 3, 64] in aten.mm"),
        ("torch.Size([4])", "torch.Size([8, 2])"),
        ("(s0, 3)", "(s77, 12)"),
        ("a 4x64 matrix", "a 12x128x3 matrix"),
        ("is 4 and not 1e-05", "is 12 and not 3.5"),
        ("at 0x7f3a12 in <Net object at 0xdeadbeef>", "at 0x1 in <Net object at 0x2>"),
        ("commit a1b2c3d4e5f6", "commit 0f9e8d7c6b5a"),
        ("id 123e4567-e89b-12d3-a456-426614174000", "id 00000000-1111-2222-3333-444444444444"),
        ("/tmp/tmpab12cd34/model.pt2 is gone", "/tmp/tmpzz99zz99/model.pt2 is gone"),
        ("/tmp/pytest-of-root/pytest-3/test_x0", "/tmp/pytest-of-ana/pytest-12/test_y1"),
        ("no room in tmpa1b2c3d4.pt2", "no room in tmpx9y8z7w6.pt2"),
        ("/home/ana/repo/model.py:12", "/builds/ci/model.py:240"),
        ('File "/a/b/model.py", line 3', 'File "/c/d/model.py", line 44'),
        ("layers.0.attn and add_12", "layers.11.attn and add_7"),
        ("p_layers_3_weight, arg3_1, u0", "p_layers_12_weight, arg14_1, u9"),
        ("torch 2.16.0.dev20261128+cu126", "torch 2.16.0.dev20261129+cu128"),
        ("took 12.5 ms, 16MiB, 3s", "took 8 ms, 2MiB, 40s"),
        ("rank 1 lost on cuda:1", "rank 3 lost on cuda:0"),
    ],
)
def test_what_varies_from_run_to_run_does_not_make_a_cause(one: str, other: str) -> None:
    assert normalized(one) == normalized(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("float16", "float32"),
        ("float8_e4m3fn", "float8_e5m2"),
        ("int8", "uint8"),
        ("aten.conv2d.default", "aten.conv1d.default"),
        ("aten.add_2", "aten.add_3"),
        ("mylib::op_2 has no fake", "mylib::op_3 has no fake"),
        ("nn.BatchNorm1d", "nn.BatchNorm2d"),
        ("sm_90", "sm_80"),
        ("is True", "is False"),
        ("/tmp/tmpab12cd34/model.pt2", "/tmp/tmpab12cd34/weights.safetensors"),
        ("/srv/a/model.py:12", "/srv/a/layers.py:12"),
        ("expected [4]", "expected None"),
        ("blocks.attn", "blocks.mlp"),
    ],
)
def test_what_a_message_is_about_does(one: str, other: str) -> None:
    assert normalized(one) != normalized(other)


@pytest.mark.parametrize(
    "text", ["[" * 5_000, "/" * 5_000, "a_1" * 3_000, "(1," * 3_000, "0" * 9_000, "/a" * 4_000, "tmp" * 3_000]
)
def test_no_message_takes_long(text: str) -> None:
    """A pattern that runs away would not come back from these in an hour."""
    assert isinstance(normalized(text), str)


def finding(message: str = FAILED, **more: str) -> Finding:
    return Finding("ER401", "traces", "error", "net.fc", message, "mend it", stage="export", **more)  # type: ignore[arg-type]


def failed(
    *findings: Finding, stages: tuple[StageResult, ...] = (), name: str = "m", outcome: str = "failed"
) -> TestResult:
    record = Readiness(name, "plain", stages, findings)
    return TestResult(f"t.py::{name}", "t", name, outcome=outcome, message="at fault", readiness=record)  # type: ignore[arg-type]


def test_a_finding_is_a_cause_whatever_module_it_is_at() -> None:
    first = failed(finding(file="models/net.py"))
    other = failed(Finding("ER401", "traces", "error", "enc.proj", FAILED, "", "models/net.py", 3, stage="export"))
    cause = FailureCause(
        "export",
        "ER401",
        "RuntimeError: shapes <shape> and <shape> cannot be multiplied in aten.mm.default",
        "models/net.py",
    )
    assert cause_of(first) == cause_of(other) == cause


def test_a_stage_without_a_finding_tells_its_exception() -> None:
    broke = failed(stages=(StageResult("reload", "infra", reason="OSError: 28 no space"),), outcome="infra")
    assert cause_of(broke) == FailureCause("reload", "OSError", "OSError: N no space")


def test_a_result_without_a_record_tells_its_message() -> None:
    result = TestResult("t.py::x", "t", "x", outcome="failed", message="torch.cuda.OutOfMemoryError: tried 3 GiB")
    assert cause_of(result) == FailureCause("", "OutOfMemoryError", "torch.cuda.OutOfMemoryError: tried N GiB")


@pytest.mark.parametrize("outcome", ["passed", "skipped", "missing"])
def test_what_did_not_fail_has_no_cause(outcome: str) -> None:
    assert cause_of(TestResult("t.py::x", "t", "x", outcome=outcome, message="TypeError: 1")) is None  # type: ignore[arg-type]


def test_an_ignored_finding_and_a_warning_are_no_cause() -> None:
    warning = Finding("ER305", "no_residual_gradients", "warning", "fc", "holds a gradient", "")
    both = failed(finding().ignored_because("known"), warning, finding("other"))
    assert [cause.message for cause in causes_of(both)] == ["other"]


def test_both_modes_of_an_export_are_one_cause() -> None:
    assert len(causes_of(failed(finding(), finding()))) == 1


def test_most_hit_first_and_every_result_under_each_of_its_causes() -> None:
    """A failed export behind a forgotten eval() is a cause too, and not the only case of its kind that is hidden."""
    rare, often = finding("rare"), finding("often")
    results = [
        failed(rare, name="a"),
        failed(often, name="b"),
        failed(often, name="e"),
        failed(often, rare, name="c"),
        TestResult("t.py::d", "t", "d"),
    ]
    assert [(cause.message, [one.name for one in hit]) for cause, hit in causes(results)] == [
        ("often", ["b", "e", "c"]),
        ("rare", ["a", "c"]),
    ]


def test_another_fix_is_no_other_cause_but_another_error_of_torch_is() -> None:
    """Scenarios give different advice for one problem; one message can stand for several errors."""
    one = finding("does not run", torch_says="KeyError: a")
    assert of_finding(replace(one, fix="another", patch="--- a\n+++ a")) == of_finding(one)
    assert of_finding(replace(one, torch_says="KeyError: b")) != of_finding(one)
    assert of_finding(replace(one, torch_says="")) == of_finding(finding("does not run"))
