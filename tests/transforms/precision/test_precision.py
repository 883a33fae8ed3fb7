"""A program in lower precision gives what autocast gives, keeps its interface, and tells what runs in what."""

from __future__ import annotations

import io
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from exported_programs import PROGRAMS, Lambda, export
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram

from pytest_exportready.analysis.execution.pytree import flatten
from pytest_exportready.analysis.program.fingerprint import graph_fingerprint
from pytest_exportready.analysis.program.nodes import operator_name
from pytest_exportready.transforms.precision.policy import FLOAT32, LOWER, WIDEST, policy_of
from pytest_exportready.transforms.precision.report import precision_report
from pytest_exportready.transforms.precision.rewriting import to_precision

pytestmark = pytest.mark.filterwarnings("ignore:.*LeafSpec.*:FutureWarning")  # torch's own, when it copies a program
HALVES = (torch.float16, torch.bfloat16)
FARTHEST = {torch.float16: 2e-3, torch.bfloat16: 2e-2}  # relative L2 distance from float32


class Mixed(nn.Module):
    def __init__(self, do: Callable[[Any, Tensor], Any]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.do = do
        self.linear, self.second = nn.Linear(8, 8), nn.Linear(8, 8)
        self.conv, self.norm = nn.Conv1d(4, 4, 3, padding=1), nn.LayerNorm(8)
        self.batch = nn.BatchNorm1d(4)
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, x: Tensor) -> Any:
        return self.do(self, x)


X = torch.randn(2, 4, 8, generator=torch.Generator().manual_seed(1))


def written(m: Any, x: Tensor) -> tuple[Tensor, Tensor]:
    y = x * 2
    view = y[:1]
    first = m.second(view)
    y.relu_()
    return first, m.second(view)


def counted(m: Any, x: Tensor) -> Tensor:
    y = m.linear(x)
    m.seen.add_(y.float().abs().max())
    return y


SAME_AS_AUTOCAST: dict[str, Callable[[Any, Tensor], Any]] = {
    "linear": lambda m, x: m.second(m.linear(x).relu()),
    "convolution": lambda m, x: m.conv(m.conv(x).tanh()) + 1,
    "matmul": lambda m, x: (m.linear(x) @ x.transpose(1, 2)).softmax(-1) @ x,
    "attention": lambda m, x: F.scaled_dot_product_attention(m.linear(x), x, x),
    "residual": lambda m, x: x + m.linear(m.conv(x) + x),
    "normalised": lambda m, x: m.batch(m.conv(x)).relu(),
    "joined": lambda m, x: torch.cat([m.linear(x), x], -1),
    "written": written,
    "counted": counted,
    "several outputs": lambda m, x: {"a": (y := m.linear(x)), "b": [y, y.argmax(-1)], "c": x},
    "a number asked for": lambda m, x: m.linear(x)[:, : x.shape[1] - 1],
}


@cache
def of_corpus(name: str) -> ExportedProgram:
    return export(name)


@cache
def exported(do: Callable[[Any, Tensor], Any], batch: Any = None) -> ExportedProgram:
    return torch.export.export(Mixed(do).eval(), (X,), dynamic_shapes={"x": {0: batch}} if batch else None)


def reloaded(program: ExportedProgram) -> ExportedProgram:
    file = io.BytesIO()
    torch.export.save(program, file)
    file.seek(0)
    return torch.export.load(file)


def answer(of: Any, *args: Any, **kwargs: Any) -> list[Tensor]:
    torch.manual_seed(0)
    with torch.no_grad():
        return [leaf for leaf in flatten(of(*args, **kwargs))[0] if isinstance(leaf, Tensor)]


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("do", SAME_AS_AUTOCAST.values(), ids=SAME_AS_AUTOCAST)
def test_it_is_autocast_to_the_bit_also_reloaded(do: Callable[[Any, Tensor], Any], dtype: torch.dtype) -> None:
    program = exported(do)
    before = graph_fingerprint(program)
    lowered = reloaded(to_precision(program, dtype))
    plain, given = answer(program.module(), X), answer(lowered.module(), X)
    with torch.autocast("cpu", dtype):
        expected = answer(Mixed(do).eval(), X)
    for one, wanted, was in zip(given, expected, plain, strict=True):
        assert one.dtype == was.dtype
        assert torch.equal(one, wanted.to(one.dtype))
    assert not all(torch.equal(one, was) for one, was in zip(given, plain, strict=True))
    assert graph_fingerprint(program) == before


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_any_program_stays_near_float32_with_its_interface(name: str, dtype: torch.dtype) -> None:
    _, args, kwargs, _ = PROGRAMS[name]()
    program = of_corpus(name)
    lowered = to_precision(program, dtype)
    assert lowered.graph_signature.user_inputs == program.graph_signature.user_inputs
    assert lowered.range_constraints.keys() == program.range_constraints.keys()
    given, expected = answer(reloaded(lowered).module(), *args, **kwargs), answer(program.module(), *args, **kwargs)
    for one, was in zip(given, expected, strict=True):
        assert (one.dtype, one.shape) == (was.dtype, was.shape)
        assert float((one - was).double().norm()) <= FARTHEST[dtype] * float(was.double().norm()) + 1e-12


def test_a_dynamic_batch_stays_dynamic() -> None:
    lowered = reloaded(to_precision(exported(SAME_AS_AUTOCAST["residual"], Dim("batch")), torch.bfloat16))
    assert answer(lowered.module(), torch.randn(5, 4, 8))[0].shape == (5, 4, 8)


def test_a_decomposed_program_is_lowered_too() -> None:
    program = exported(SAME_AS_AUTOCAST["linear"]).run_decompositions({})
    lowered = to_precision(program, torch.bfloat16)
    assert torch.equal(answer(reloaded(lowered).module(), X)[0], answer(lowered.module(), X)[0])
    assert any(o.dtype == torch.bfloat16 for o in precision_report(program, torch.bfloat16).operations)


def test_no_value_is_cast_twice_or_up_and_down_again() -> None:
    lowered = to_precision(exported(lambda m, x: m.second(m.linear(x) * 2) + m.second(m.linear(x))), torch.float16)
    casts = [node for node in lowered.graph.nodes if operator_name(node) == "aten::_to_copy"]
    assert len({(node.args[0], node.kwargs["dtype"]) for node in casts}) == len(casts)
    assert not any(node.args[0] in casts for node in casts)


def test_a_value_cast_up_only_to_be_cast_down_stays_down() -> None:
    program = exported(lambda m, x: m.second(m.linear(x).float()))
    lowered = to_precision(program, torch.float16)
    second = [node for node in lowered.graph.nodes if operator_name(node) == "aten::linear"][1]
    assert operator_name(second.args[0]) == "aten::linear"
    with torch.autocast("cpu", torch.float16):
        expected = answer(Mixed(lambda m, x: m.second(m.linear(x).float())).eval(), X)[0]
    assert torch.equal(answer(lowered.module(), X)[0], expected.float())


def test_a_value_cast_up_before_its_source_is_written_is_cast_again() -> None:
    def do(m: Any, x: Tensor) -> Tensor:
        y = m.linear(x)
        raised = y[:1].float()
        y.relu_()
        return m.second(raised)

    with torch.autocast("cpu", torch.bfloat16):
        expected = answer(Mixed(do).eval(), X)[0]
    assert torch.equal(answer(to_precision(exported(do), torch.bfloat16).module(), X)[0], expected.float())


def test_what_takes_no_mixture_or_is_the_users_runs_in_float32() -> None:
    @torch.library.custom_op("exportready_precision::scaled", mutates_args=())
    def scaled(x: Tensor) -> Tensor:
        assert x.dtype == torch.float32
        return x * 2

    scaled.register_fake(lambda x: torch.empty_like(x))
    program = exported(lambda m, x: (scaled(m.linear(x)), torch.lerp(m.linear(x), x, 0.5)))
    report = {o.operator: o.dtype for o in precision_report(program, torch.bfloat16).operations}
    assert report == {
        "aten::linear": torch.bfloat16,
        "exportready_precision::scaled": torch.float32,
        "aten::lerp": torch.float32,
    }
    assert len(answer(to_precision(program, torch.bfloat16).module(), X)) == 2


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int8])
def test_another_dtype_is_refused(dtype: torch.dtype) -> None:
    with pytest.raises(ValueError, match=r"expected one of torch\.float16, torch\.bfloat16"):
        to_precision(exported(SAME_AS_AUTOCAST["linear"]), dtype)


def test_an_overflow_is_told_before_it_happens() -> None:
    program = exported(lambda m, x: m.norm(m.linear(x * 1e6)))
    report = precision_report(program, torch.float16)
    (risk,) = report.at_risk
    assert (risk.operator, risk.headroom < 1) == ("aten::linear", True)
    assert {o.operator: o.dtype for o in report.operations}["aten::layer_norm"] == torch.float32
    assert "linear (aten::linear)" in str(report)
    assert "overflows" in str(report)
    assert not answer(to_precision(program, torch.float16).module(), X)[0].isfinite().all()
    assert precision_report(program, torch.bfloat16).at_risk == ()
    assert precision_report(program, torch.float16, X / 1e6).at_risk == ()


def test_every_operator_of_the_table_exists_and_has_one_policy() -> None:
    assert [name for name in LOWER | FLOAT32 | WIDEST if not hasattr(torch.ops.aten, name)] == []
    assert not LOWER & FLOAT32
    assert not WIDEST & (LOWER | FLOAT32)


CALLS: dict[str, Callable[[Tensor], Tensor]] = {
    "linear": lambda x: F.linear(x, x),
    "matmul": lambda x: x @ x,
    "mm": lambda x: torch.mm(x, x),
    "bmm": lambda x: torch.bmm(x[None], x[None]),
    "addmm": lambda x: torch.addmm(x, x, x),
    "baddbmm": lambda x: torch.baddbmm(x[None], x[None], x[None]),
    "addbmm": lambda x: torch.addbmm(x, x[None], x[None]),
    "conv1d": lambda x: F.conv1d(x[None], x[..., None]),
    "conv2d": lambda x: F.conv2d(x[None, :, :, None], x[..., None, None]),
    "conv_transpose1d": lambda x: F.conv_transpose1d(x[None], x[..., None]),
    "scaled_dot_product_attention": lambda x: F.scaled_dot_product_attention(x[None], x[None], x[None]),
    "prod": lambda x: x.prod(),
    "mse_loss": lambda x: F.mse_loss(x, x + 1),
    "cdist": lambda x: torch.cdist(x, x),
}


@pytest.mark.parametrize("name", CALLS)
def test_the_table_says_what_autocast_does(name: str) -> None:
    """Where the list for the CPU, which runs anywhere, and that for CUDA have the same operator."""
    low = policy_of(f"aten::{name}") == "lower"
    x = torch.ones(4, 4, dtype=torch.float32 if low else torch.bfloat16)
    with torch.autocast("cpu", torch.bfloat16):
        assert CALLS[name](x).dtype == (torch.bfloat16 if low else torch.float32)


def test_a_lambda_of_the_corpus_is_left_as_it_was() -> None:
    program = torch.export.export(Lambda(lambda m, x: x + 1), (X,))
    lowered = to_precision(program, torch.float16)
    assert graph_fingerprint(lowered) == graph_fingerprint(program)
