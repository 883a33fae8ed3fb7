"""fingerprint: equal for equal values in any memory layout, different for anything else, of every kind of tensor."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from pytest_exportready.analysis.program import tensor_hash as module
from pytest_exportready.analysis.ranks.state_hash import fingerprint

X = torch.arange(24.0).reshape(2, 3, 4)


@pytest.mark.parametrize(
    "same",
    [
        lambda: X.clone(),
        lambda: X.transpose(0, 2).contiguous().transpose(0, 2),
        lambda: torch.cat([X, X])[:2],
        lambda: torch.stack([X, -X], -1)[..., 0],
        lambda: torch.nn.Parameter(X.clone()),
    ],
)
def test_the_layout_in_memory_does_not_matter(same: Callable[[], Tensor]) -> None:
    assert fingerprint(same()) == fingerprint(X)


@pytest.mark.parametrize(
    "other",
    [
        lambda: X.flatten(),
        lambda: X.flip(0),
        lambda: X.double(),
        lambda: torch.nextafter(X, X + 1),
        lambda: X.clone().index_put_((torch.tensor(1), torch.tensor(2), torch.tensor(3)), torch.tensor(9.0)),
        lambda: torch.zeros_like(X),
        lambda: X.view(torch.int32),
    ],
)
def test_one_value_its_place_shape_or_dtype_do(other: Callable[[], Tensor]) -> None:
    assert fingerprint(other()) != fingerprint(X)


def test_nan_equals_itself() -> None:
    assert fingerprint(torch.tensor([float("nan")])) == fingerprint(torch.tensor([float("nan")]))


def test_what_an_xor_would_not_see() -> None:
    """Order, and pairs of equal values."""
    assert fingerprint(torch.tensor([1.0, 2.0])) != fingerprint(torch.tensor([2.0, 1.0]))
    assert fingerprint(torch.tensor([1.0, 1.0])) != fingerprint(torch.tensor([3.0, 3.0]))


@pytest.mark.parametrize("piece", [1, 16, 40])
def test_pieces_do_not_matter(piece: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pieces of any size, contiguous or not, give the same hash, and none is too large."""
    whole, turned = fingerprint(X), X.permute(2, 0, 1).contiguous().permute(1, 2, 0)
    monkeypatch.setattr(module, "_PIECE", piece)
    assert not turned.is_contiguous()
    assert fingerprint(X) == fingerprint(turned) == whole
    assert max(p.numel() * 4 for p in module.pieces(turned)) <= max(piece, 4)


def _quantized(scale: float = 0.1) -> Tensor:
    return torch.quantize_per_tensor(X, scale, 0, torch.qint8)


KINDS: dict[str, tuple[Callable[[], Tensor], Callable[[], Tensor]]] = {
    "bool": (lambda: X > 3, lambda: X > 4),
    "complex": (lambda: torch.complex(X, X), lambda: torch.complex(X, -X)),
    "conjugate view": (lambda: torch.complex(X, X).conj(), lambda: torch.complex(X, X)),
    "bfloat16": (lambda: X.bfloat16(), lambda: (X + 1).bfloat16()),
    "float8": (lambda: X.to(torch.float8_e4m3fn), lambda: (X + 2).to(torch.float8_e4m3fn)),
    "quantized": (_quantized, lambda: _quantized(0.2)),
    "sparse coo": (lambda: X[0].to_sparse(), lambda: X[1].to_sparse()),
    "sparse csr": (lambda: X[0].to_sparse_csr(), lambda: (X[0] + 1).to_sparse_csr()),
    "sparse csc": (lambda: X[0].to_sparse_csc(), lambda: (X[0] + 1).to_sparse_csc()),
    "jagged": (
        lambda: torch.nested.nested_tensor([X[0], X[0, :2]], layout=torch.jagged),
        lambda: torch.nested.nested_tensor([X[0, :2], X[0]], layout=torch.jagged),
    ),
    "no element": (lambda: X[:0], lambda: X[:, :0]),
    "scalar": (lambda: torch.tensor(1), lambda: torch.tensor(2)),
    "expanded": (lambda: X[:1].expand(5, 3, 4), lambda: X[1:].expand(5, 3, 4)),
}


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning")
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_tensor(kind: str) -> None:
    one, other = KINDS[kind]
    assert len(fingerprint(one())) == 32
    assert fingerprint(one()) == fingerprint(one())
    assert fingerprint(one()) != fingerprint(other())


@pytest.mark.parametrize(
    ("tensor", "phrase"),
    [(torch.empty(2, device="meta"), "no values (meta)"), (torch.nn.UninitializedParameter(), "no values yet")],
)
def test_tensors_without_values_say_so(tensor: Tensor, phrase: str) -> None:
    assert fingerprint(tensor) == phrase
