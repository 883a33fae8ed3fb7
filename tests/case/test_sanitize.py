"""text: what other people's exceptions say is safe to show, and shows no tensor contents."""

from __future__ import annotations

import json

import pytest
import torch

from pytest_exportready.case.sanitize import exception_text, json_safe, plain, without_tensors


@pytest.mark.parametrize(
    "bad", ["\x1b[31mred\x1b[0m", "\x1b]0;title\x07", "a\x00b", "\ud800", "\ufffe", "\x9b31m", "\x7f"]
)
def test_plain_is_legal_xml_without_escapes(bad: str) -> None:
    """Terminal escapes vanish; characters that XML cannot hold are replaced."""
    clean = plain(f"<{bad}>")
    assert not set(clean) & set("\x00\x1b\x07\x7f\x9b\ud800\ufffe")
    assert clean.startswith("<")
    assert clean.endswith(">")


def test_plain_keeps_head_and_tail() -> None:
    """A longer text is cut in the middle, to the limit exactly."""
    assert plain("a" * 50 + "end", 20).endswith("end")
    assert len(plain("a" * 5000, 100)) == 100
    assert plain("line\n\ttab é 中") == "line\n\ttab é 中"


CONTENTS = [
    torch.tensor(3.25),
    torch.tensor(float("nan")),
    torch.tensor(True),
    torch.randn(3),
    torch.randn(40, 40),
    torch.nn.Parameter(torch.randn(2, 2)),
    torch.randn(2, requires_grad=True) * 2,
    torch.tensor([1 + 2j]),
    torch.randn(2).numpy() if torch.backends.cpu else None,
    torch.randn(3).tolist(),
    torch.randn(2, 3).tolist(),
    tuple(torch.randn(5).tolist()),
    {0.25, 0.5, 0.75},
    torch.randn(3, 4).numpy(),
    torch.randn(60, 60).numpy(),
    torch.randn(2000).numpy(),
    torch.randn(2000),
    torch.randn(20, 20).tolist(),
    torch.randn(4).double().mul(1e-9).numpy(),
    list(range(9)),
    torch.arange(12).reshape(3, 4).numpy(),
    torch.arange(12).reshape(3, 4).tolist(),
    [float("nan"), float("inf"), 1.0],
    torch.ones(3, 4, dtype=torch.bool).numpy(),
]


@pytest.mark.parametrize("value", CONTENTS, ids=range(len(CONTENTS)))
def test_tensor_contents_are_left_out(value: object) -> None:
    """str, repr and tolist of a tensor or an array lose their values, on one line or many; what is around stays."""
    for shown in (str(value), repr(value), str(value).replace(", ", ",\n"), str([value, value])):
        text = without_tensors(f"before {shown} after")
        assert text.startswith("before ")
        assert text.endswith(" after")
        assert not any(character.isdigit() for character in text)
        assert "True" not in text


def test_a_list_that_is_cut_off_is_left_out() -> None:
    for end in range(100, 130):
        assert without_tensors(f"weights {torch.randn(100).tolist()}"[:end]) == "weights <numbers>"


@pytest.mark.parametrize(
    "text",
    [
        "Expected tensor(s) of torch.Size([4, 3]), got [4, 3, 64]",
        "FakeTensor(..., size=(4, 3))",
        "tensor(..., device='meta', size=(3,))",
        "the range [0.5, 2.0]",
        "Dim(3)",
        "L['x'].size()[0] == 4",
        "shape (4, 3, 64, 64), strides [12288, 4096, 64, 1], indices [0, 1, 2, 3, 4, 5, 6, 7]",
        "[[4, 3], [3, 5]] and betas (0.9, 0.999)",
        "versions (2.13.0, 2.14.1, 2.15.0)",
        "[2026-01-31 10:11:12,123]",
        "f32[4, 3] at net.py:31",
    ],
)
def test_what_is_no_contents_stays(text: str) -> None:
    """Shapes, ranges and prose are what the reader needs."""
    assert without_tensors(text) == text


class Unreadable(Exception):
    def __str__(self) -> str:
        raise ValueError


def test_exception_text() -> None:
    """Type and first paragraph on one line; an unreadable or empty message does no harm."""
    assert exception_text(ValueError("first\nline\n\nsecond")) == "ValueError: first line"
    assert exception_text(ValueError()) == "ValueError"
    assert exception_text(Unreadable()) == "Unreadable: (message cannot be read: ValueError)"
    assert "1.5" not in exception_text(ValueError(f"bad {torch.tensor([1.5])}"))


@pytest.mark.parametrize("piece", ["tensor([1.0])", "[", "[0.1, ", "\x1b[", "tensor([1,(", "[1.0,,"])
def test_huge_messages_take_no_time(piece: str) -> None:
    """50 MiB of hostile text in a message: a short result (quadratic work would take hours)."""
    assert len(exception_text(ValueError(piece * (50 * 2**20 // len(piece))))) <= 400


class Float(float):
    pass


class Unprintable:
    def __str__(self) -> str:
        raise RuntimeError


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (Float(1.5), 1.5),
        (float("inf"), "inf"),
        (float("nan"), "nan"),
        (2**70, hex(2**70)),
        (True, True),
        (None, None),
        ("a\udcffb\x00", "a\ufffdb\ufffd"),
        (("a", [Float(2.0)]), ["a", [2.0]]),
        ({1: {3}}, {"1": [3]}),
        (torch.Size([2]), [2]),
        (torch.float16, "torch.float16"),
        (Unprintable(), "(a Unprintable that cannot be printed)"),
    ],
)
def test_json_safe(given: object, expected: object) -> None:
    """Exact built-in types that JSON writes and reads back equal."""
    got = json_safe(given)
    assert got == expected
    assert type(got) is type(expected)
    assert json.loads(json.dumps(got, allow_nan=False)) == got


def test_json_safe_ends_where_data_holds_itself() -> None:
    holds: list[object] = []
    holds.append(holds)
    assert json.dumps(json_safe(holds)) == f'{"[" * 8}"..."{"]" * 8}'
    assert len(json_safe("x" * 100_000)) < 20_000
