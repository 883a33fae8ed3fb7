"""Input variants: random inputs are of the kind of the example and differ from it; resized ones keep their format."""

from __future__ import annotations

import pytest
import torch

from pytest_exportready.analysis.execution.input_variants import resized, variations

KINDS = {
    "float": lambda: torch.randn(4, 3),
    "half": lambda: torch.randn(4, 3).half(),
    "bfloat16": lambda: torch.randn(4, 3).bfloat16(),
    "float8": lambda: torch.randn(4, 3).to(torch.float8_e4m3fn),
    "large half": lambda: torch.full((4, 3), 60000.0).half(),
    "complex": lambda: torch.randn(4, 3, dtype=torch.complex64),
    "conjugated": lambda: torch.randn(4, 3, dtype=torch.complex64).conj(),
    "constant": lambda: torch.ones(4, 3),
    "zeros": lambda: torch.zeros(4, 3),
    "indices": lambda: torch.tensor([[0, 5, 2, 7]]),
    "constant indices": lambda: torch.full((2, 8), 3),
    "attention mask": lambda: torch.ones(2, 8, dtype=torch.long),
    "bool mask": lambda: torch.tensor([True, False, True, True, False, True]),
    "constant bool": lambda: torch.ones(2, 8, dtype=torch.bool),
    "0-dim": lambda: torch.tensor(2.5),
    "requires grad": lambda: torch.randn(4, 3, requires_grad=True),
    "channels last": lambda: torch.randn(2, 3, 4, 4).to(memory_format=torch.channels_last),
    "expanded": lambda: torch.randn(1, 3).expand(4, 3),
    "byte image": lambda: torch.arange(12, dtype=torch.uint8).reshape(3, 4),
}


@pytest.mark.parametrize("kind", KINDS)
def test_random_inputs_are_of_the_same_kind(kind: str) -> None:
    """Shape, dtype, memory format and gradient flag are kept; integers stay within the range of the example."""
    example = KINDS[kind]()
    kept = example.detach().clone()
    ((fresh,), _) = next(iter(variations(((example,), {}), seed=1)))
    assert (fresh.shape, fresh.dtype, fresh.requires_grad) == (
        example.shape,
        example.dtype,
        example.requires_grad,
    )
    if kind == "channels last":
        assert fresh.is_contiguous(memory_format=torch.channels_last)
    comparable = fresh.detach().float() if not fresh.is_complex() else fresh.detach()
    before = kept.float() if not kept.is_complex() else kept
    assert comparable.isfinite().all()
    assert not torch.equal(comparable, before)
    if not example.is_floating_point() and not example.is_complex():
        assert set(fresh.flatten().tolist()) <= set(range(int(example.max()) + 1))
    assert torch.equal(example.detach().float() if not kept.is_complex() else example.detach(), before)


def test_infinite_masks_stay() -> None:
    """An additive attention mask keeps its -inf."""
    mask = torch.zeros(4, 4).masked_fill(torch.ones(4, 4).triu(1).bool(), float("-inf"))
    for (fresh,), _ in variations(((mask,), {}), seed=1):
        assert torch.equal(fresh.isinf(), mask.isinf())
        assert not fresh.isnan().any()


def test_all_then_floats_then_each() -> None:
    """Nested inputs keep their structure; tensors that are not varied are those of the example."""
    x, ids, flag = torch.randn(3), torch.tensor([0, 1, 2]), "mode"
    calls = list(variations((([x, {"ids": ids}], flag), {"y": x}), seed=1))
    assert len(calls) == 5
    (([a, b], c), kwargs) = calls[0]
    assert c == "mode"
    assert not torch.equal(a, x)
    assert not torch.equal(kwargs["y"], x)
    assert not torch.equal(kwargs["y"], a)
    assert calls[1][0][0][1]["ids"] is ids
    assert calls[2][1]["y"] is x
    assert set(b) == {"ids"}


@pytest.mark.parametrize(
    "example",
    [
        torch.empty(0, 3),
        torch.zeros(3, dtype=torch.long),
        torch.eye(2).to_sparse(),
        torch.ones(2, device="meta"),
        3,
        None,
    ],
    ids=["empty", "zero indices", "sparse", "meta", "number", "none"],
)
def test_what_cannot_be_varied(example: object) -> None:
    """There are no random inputs, instead of ones that equal the example, or an exception."""
    assert list(variations(((example,), {}), seed=1)) == []


def test_seed() -> None:
    """The same seed gives the same inputs, whatever the state of the global generator."""
    call = ((torch.randn(3),), {})
    first = next(iter(variations(call, seed=1)))[0][0]
    torch.rand(5)
    assert torch.equal(first, next(iter(variations(call, seed=1)))[0][0])
    assert not torch.equal(first, next(iter(variations(call, seed=2)))[0][0])


@pytest.mark.parametrize(
    "example", [torch.randn(4, 3), torch.arange(8).reshape(4, 2), torch.randn(4, 3).to(torch.float8_e4m3fn)]
)
@pytest.mark.parametrize("size", [1, 3, 9])
def test_resized(example: torch.Tensor, size: int) -> None:
    """Cut, or repeated from the start; other dimensions and the tensor of the caller are kept."""
    (grown,), _ = resized(((example,), {}), {(0, 0): size})
    assert grown.shape == (size, *example.shape[1:])
    assert grown.dtype == example.dtype
    assert torch.equal(grown[size - 1].float(), example[(size - 1) % 4].float())
    assert example.shape[0] == 4


def test_resized_edges() -> None:
    """From sizes 1 and 0, several dimensions together; memory format and gradient flag are kept."""
    image = torch.randn(2, 3, 4, 4).to(memory_format=torch.channels_last).requires_grad_()
    (grown, _), kwargs = resized(((image, "a"), {"e": torch.empty(0, 2)}), {(0, 0): 5, (0, 2): 6, (0, 3): 2, (2, 0): 3})
    assert grown.shape == (5, 3, 6, 2)
    assert grown.is_contiguous(memory_format=torch.channels_last)
    assert grown.requires_grad
    assert kwargs["e"].shape == (3, 2)
    assert resized(((torch.ones(1, 2),), {}), {(0, 0): 4})[0][0].shape == (4, 2)
