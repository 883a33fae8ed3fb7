"""Text from other people's exceptions and names, made safe to show in a terminal, XML or HTML."""

from __future__ import annotations

import re

_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")
# Everything XML 1.0 cannot hold: control characters, surrogates, non-characters.
_ILLEGAL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]")
_NUMBER = r"(?:[-+]?(?:\d|\.\d)|[-+]?(?:nan|inf)\b|True\b|False\b)"
# tensor(3.) and tensor([..., array([..., MyTensor([...; but not torch.Size([4, 3]) and no "tensor(s)" in
# prose.
_TENSOR = re.compile(rf"\b(?:(?:tensor|array)\((?=\s*(?:\[|{_NUMBER}))|[A-Z]\w*(?<!Size)\((?=\s*\[+\s*{_NUMBER}))")
_NUMBERS = re.compile(r"(?<!\[)\[[-+\d.,einaf\s\[\]]+(?:\]|$)")
_LONGEST = 20_000  # characters of a message that are looked at


def plain(text: str, limit: int = 0) -> str:
    """``text`` without terminal escapes and without characters illegal in XML.

    Illegal characters become U+FFFD. With a ``limit`` (characters, > 0), a longer text keeps its head and
    tail.
    """
    clean = _ILLEGAL.sub("\ufffd", _ANSI.sub("", text))
    if limit and len(clean) > limit:
        tail = limit // 4
        clean = f"{clean[: limit - tail - 5]} ... {clean[-tail:]}"
    return clean


def without_tensors(text: str) -> str:
    """``text`` with the printed contents of tensors left out: weights do not belong in logs.

    Lists of three and more numbers with a point are contents too. Only the beginning of a long text is kept.
    """
    text = text[:_LONGEST]
    kept: list[str] = []
    end = 0
    while found := _TENSOR.search(text, end):
        kept += [text[end : found.start()], "<tensor>"]
        depth, end = 1, found.end()
        while end < len(text) and depth:
            depth += {"(": 1, ")": -1}.get(text[end], 0)
            end += 1
    return _NUMBERS.sub(_shape_or_contents, "".join([*kept, text[end:]]))


def _shape_or_contents(found: re.Match[str]) -> str:
    return "<numbers>" if "." in found[0] and found[0].count(",") > 1 else found[0]


def exception_text(error: BaseException, limit: int = 400) -> str:
    """``TypeName: first paragraph of the message``, safe to show, tensor contents left out."""
    try:
        message = str(error)
    except Exception as broken:
        message = f"(its message cannot be read: {type(broken).__name__})"
    paragraph = without_tensors(message).strip().split("\n\n")[0]
    line = " ".join(paragraph.split())
    return plain(f"{type(error).__name__}: {line}" if line else type(error).__name__, limit)
