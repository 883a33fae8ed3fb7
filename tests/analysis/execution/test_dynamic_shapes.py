"""Dynamic shapes: every form that torch.export accepts is read, dimension by dimension."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim, ShapesCollection

from pytest_exportready import export_ready_check
from pytest_exportready.analysis.execution.dynamic_shapes import UNBOUNDED, arguments, by_name, declared, dynamic_shapes
from pytest_exportready.case.export_case import CaseError
from pytest_exportready.case.options import CaseOptions

X, Y = torch.randn(4, 3), torch.randn(4, 5)
BATCH = Dim("batch", max=64)


class Net(nn.Module):
    def forward(self, x: Any, y: Any = None, *, z: Any = None) -> Any:
        return x


class Star(nn.Module):
    def forward(self, first: Tensor, *rest: Tensor, **named: Tensor) -> Tensor:
        return first * 2 + rest[0] + named["z"]


class Inner(nn.Module):
    def forward(self, hidden: Tensor, step: Tensor, extra: Tensor | None = None) -> Tensor:
        return hidden * 2 + step


def wrapped() -> nn.Module:
    """A transparent wrapper around forward, as accelerate uses."""
    net = Inner().eval()
    plain = net.forward
    net.forward = lambda *args, **kwargs: plain(*args, **kwargs)  # type: ignore[method-assign]
    return net


def found(spec: Any, *args: Any, module: nn.Module | None = None, **kwargs: Any) -> list[tuple[int, int, str]]:
    return [(d.leaf, d.dim, d.where) for d in declared(module or Net(), (args, kwargs), spec)]


@pytest.mark.parametrize("hint", [BATCH, Dim.AUTO, Dim.DYNAMIC, Dim.AUTO(min=2), 2 * BATCH], ids=str)
@pytest.mark.parametrize(
    "spec",
    [
        lambda h: {"x": {0: h}, "y": None},
        lambda h: ({0: h}, None),
        lambda h: [{0: h, 1: None}, {}],
        lambda h: {"x": (h, None), "y": (None, 5)},
        lambda h: {"x": [h, Dim.STATIC], "y": {1: Dim.STATIC}},
        lambda h: {"x": {-2: h}, "y": None},
    ],
)
def test_every_form(spec: Callable[[Any], Any], hint: Any) -> None:
    """Dicts, tuples and lists, by name and by position; static dimensions are omitted."""
    assert found(spec(hint), X, Y) == [(0, 0, "x.shape[0]")]


def test_nested_inputs() -> None:
    """Lists, dicts, keywords in another order than in the signature; leaves are numbered as torch flattens them."""
    value = [X, {"b": Y, "a": X}]
    spec = {"x": [None, {"b": {1: BATCH}, "a": {0: BATCH}}], "z": {0: BATCH}, "y": {1: BATCH}}
    assert found(spec, value, z=X, y=Y) == [
        (1, 1, "x[1]['b'].shape[1]"),
        (2, 0, "x[1]['a'].shape[0]"),
        (3, 0, "z.shape[0]"),
        (4, 1, "y.shape[1]"),
    ]


def test_one_object_twice() -> None:
    """Two inputs, two leaves."""
    assert [leaf for leaf, _, _ in found(({0: BATCH}, {0: BATCH}), X, X)] == [0, 1]


def test_numbers_and_none() -> None:
    """Inputs other than tensors have no dimensions, even with a hint."""
    assert found({"x": {0: BATCH}, "y": None, "z": Dim.DYNAMIC}, X, None, z=3) == [(0, 0, "x.shape[0]")]
    assert found(None, X) == []


@pytest.mark.parametrize(
    ("hint", "bounds"),
    [
        (Dim("d"), (1, UNBOUNDED)),
        (Dim("d", min=2, max=9), (2, 9)),
        (Dim.AUTO, (1, UNBOUNDED)),
        (Dim.DYNAMIC(max=9), (1, 9)),
        (2 * Dim("d", min=1, max=9), (2, 18)),
        (2 * Dim("d"), (1, UNBOUNDED)),
    ],
    ids=str,
)
def test_bounds(hint: Any, bounds: tuple[int, int]) -> None:
    """The sizes that the user allows, at least 1."""
    (dim,) = declared(Net(), ((X,), {}), ({0: hint},))
    assert (dim.smallest, dim.largest) == bounds


def test_shapes_collection() -> None:
    """It knows the user's tensors by identity."""
    shapes = ShapesCollection()
    shapes[Y] = {0: BATCH}
    shapes[X] = {0: BATCH}
    spec = dynamic_shapes(Net(), ((X,), {"z": Y}), CaseOptions(dynamic_shapes=shapes))
    assert found(spec, X, z=Y) == [(0, 0, "x.shape[0]"), (1, 0, "z.shape[0]")]

    class Sum(nn.Module):
        def forward(self, x: Tensor, *, z: Tensor) -> Tensor:
            return x * 2 + z.sum(1, keepdim=True)

    readiness = export_ready_check(
        Sum().eval(), (X,), example_kwargs={"z": Y}, dynamic_shapes=shapes, stages=["shapes"]
    )
    assert readiness.ready, readiness
    assert "x.shape[0]=9" in readiness.stages[-1].facts["sizes"]


def batch(module: nn.Module, *args: Any, **kwargs: Any) -> list[str]:
    call = (args, kwargs)
    spec = dynamic_shapes(module, call, CaseOptions(dynamic_batch=True))
    return [d.where for d in declared(module, call, spec)]


def test_dynamic_batch() -> None:
    """Dimension 0 of every tensor that has the size of the first one."""
    assert batch(Net(), [X, {"a": Y, "n": 3}], None, z=X) == [
        "x[0].shape[0]",
        "x[1]['a'].shape[0]",
        "z.shape[0]",
    ]
    assert batch(Net(), X, torch.randn(7, 4)) == ["x.shape[0]"]
    assert batch(Net(), torch.tensor(1.0), X) == ["y.shape[0]"]
    assert batch(Star(), X, X, z=X) == ["first.shape[0]", "rest_0.shape[0]", "z.shape[0]"]
    assert batch(wrapped(), X, step=X) == ["hidden.shape[0]", "step.shape[0]"]
    with pytest.raises(CaseError, match="no example input has a batch dimension"):
        batch(Net(), 3)


CALLS = {
    "positional": ((X, X + 1), {}),
    "keyword": ((), {"hidden": X, "step": X + 1}),
    "keyword, other order": ((), {"step": X + 1, "hidden": X}),
    "mixed": ((X,), {"step": X + 1}),
}
ROWS = {0: BATCH}
SPECS = [
    ("positional", {"hidden": ROWS, "step": ROWS}),
    ("positional", {"args": (ROWS, ROWS)}),
    ("positional", (ROWS, ROWS)),
    ("positional", ((ROWS, ROWS),)),
    ("keyword", {"hidden": ROWS, "step": ROWS}),
    ("keyword", {"kwargs": {"hidden": ROWS, "step": ROWS}}),
    ("keyword, other order", {"hidden": ROWS, "step": ROWS}),
    ("mixed", {"hidden": ROWS, "step": ROWS}),
    ("mixed", {"args": (ROWS,), "kwargs": {"step": ROWS}}),
]


@pytest.mark.parametrize(("call", "spec"), SPECS)
def test_a_transparent_wrapper_around_forward(call: str, spec: Any) -> None:
    """Keyed by the inner names or by args and kwargs: the same dimensions, on every torch."""
    args, kwargs = CALLS[call]
    net = wrapped()
    patched = net.forward
    assert list(by_name(net, CALLS[call], spec)) == list(arguments(net, CALLS[call]))
    readiness = export_ready_check(net, args, example_kwargs=kwargs, dynamic_shapes=spec, stages=["shapes"])
    assert readiness.ready, readiness
    assert "hidden.shape[0]=9" in readiness.stages[-1].facts["sizes"] or call == "keyword, other order"
    assert net.forward is patched


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize(
    "spec",
    [{"first": ROWS, "rest": (ROWS,), "named": {"z": ROWS}}, (ROWS, (ROWS,), {"z": ROWS}), "batch"],
    ids=str,
)
def test_star_arguments(spec: Any, strict: bool) -> None:
    """A forward with *args and **kwargs, which torch 2.13 refuses."""
    given: dict[str, Any] = {"dynamic_batch": True} if spec == "batch" else {"dynamic_shapes": spec}
    readiness = export_ready_check(
        Star().eval(), (X, X + 1), example_kwargs={"z": X + 2}, strict=strict, stages=["shapes"], **given
    )
    assert readiness.ready, readiness
    assert "first.shape[0]=9" in readiness.stages[-1].facts["sizes"]


def test_a_wrapped_forward_that_fails_is_diagnosed() -> None:
    """The dimension is named as the class's forward names it."""

    class Fixed(nn.Module):
        def forward(self, hidden: Tensor) -> Tensor:
            return hidden.reshape(4, 3)

    net = Fixed().eval()
    plain = net.forward
    net.forward = lambda *args, **kwargs: plain(*args, **kwargs)  # type: ignore[method-assign]
    (finding,) = export_ready_check(net, (), example_kwargs={"hidden": X}, dynamic_batch=True).errors
    assert (finding.code, finding.where) == ("ER403", "hidden.shape[0]")


def test_registered_classes() -> None:
    """The fields of a registered dataclass, in order."""

    @dataclass
    class Pair:
        a: Tensor
        b: Tensor

    torch.export.register_dataclass(Pair)

    class Adds(nn.Module):
        def forward(self, pair: Pair) -> Tensor:
            return pair.a * 2 + pair.b

    assert found({"x": [{0: BATCH}, None]}, Pair(X, X)) == [(0, 0, "x[0].shape[0]")]
    assert batch(Net(), Pair(X, X)) == ["x[0].shape[0]", "x[1].shape[0]"]
    readiness = export_ready_check(Adds().eval(), (Pair(X, X + 1),), dynamic_batch=True, stages=["shapes"])
    assert readiness.ready, readiness
