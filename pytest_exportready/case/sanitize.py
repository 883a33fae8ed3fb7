"""Make text from exceptions and names safe to show in a terminal, XML or HTML."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")
# Everything XML 1.0 cannot hold: control characters, surrogates, non-characters.
_ILLEGAL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]")
_NUMBER = r"(?:[-+]?(?:\d|\.\d)|[-+]?(?:nan|inf)\b|True\b|False\b)"
# tensor(3.) and tensor([..., array([..., MyTensor([...; but not torch.Size([4, 3]) and no "tensor(s)" in
# prose.
_TENSOR = re.compile(
    rf"\b(?:(?:tensor|(?:masked_)?array)\((?=\s*(?:data=)?\s*(?:\[|{_NUMBER}))"
    rf"|[A-Z]\w*(?<!Size)\((?=\s*\[+\s*{_NUMBER}))"
)
_PART = re.compile(
    r"(?P<open>(?:\bnp\.\w+)?[\[({])|(?P<close>[\])}])|\s+|,|--|(?P<dots>\.\.\.)"
    r"|[-+.\de]+\Z|(?<![\w.])(?P<number>[-+]?(?:(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?|nan|inf)|True|False)(?:j|(?![\w.])|(?=\.\.\.))"
)
_MANY = 8  # numbers: a shape or a list of indices, all of which a reader can use
_LONGEST = 20_000  # characters of a message that are looked at
_LONGEST_TEXT = 16_000  # characters of a text in JSON data
_DEEPEST = 8  # levels of JSON data


def plain(text: str, limit: int = 0) -> str:
    """Return ``text`` without terminal escapes and characters illegal in XML, which become U+FFFD.

    Args:
        limit: Characters; a longer text keeps its head and tail. 0 for no limit.
    """
    clean = _ILLEGAL.sub("\ufffd", _ANSI.sub("", text))
    if limit and len(clean) > limit:
        tail = limit // 4
        clean = f"{clean[: limit - tail - 5]} ... {clean[-tail:]}"
    return clean


def without_tensors(text: str) -> str:
    """Return ``text`` without the printed contents of tensors: weights do not belong in logs.

    Lists of at least three numbers with a decimal point, and of more than eight numbers, count as contents. Only the
    beginning of a long text is kept.
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
    return _without_numbers("".join([*kept, text[end:]]))


def _without_numbers(text: str) -> str:
    """Return ``text`` without lists of numbers that are not shapes or indices.

    Lists may be nested, cut off, or on several lines, in the notation of Python or NumPy.
    """
    opened: list[int] = []
    lists: list[tuple[int, int]] = []

    def close(start: int, end: int) -> None:
        while lists and lists[-1][0] > start:
            lists.pop()
        lists.append((start, end))

    end = 0
    for part in _PART.finditer(text):
        if part.start() != end:
            opened.clear()  # not only numbers
        end = part.end()
        if part["open"]:
            opened.append(part.start())
        elif part["close"] and opened:
            close(opened.pop(), end)
    if opened and end == len(text):
        close(opened[0], end)
    for start, end in reversed(lists):
        if _are_contents(text[start:end]):
            text = f"{text[:start]}<numbers>{text[end:]}"
    return text


def _are_contents(numbers: str) -> bool:
    found = [part["number"] for part in _PART.finditer(numbers) if part["number"]]
    broken = any(not number.lstrip("+-").isdigit() and number not in ("True", "False") for number in found)
    few = 1 if "," not in numbers or "..." in numbers else 2  # numpy writes no commas
    return len(found) > _MANY or (broken and len(found) > few) or ("..." in numbers and len(found) > 2)


def exception_text(error: BaseException, limit: int = 400) -> str:
    """Return ``TypeName: first paragraph of the message``, safe to show and without tensor contents."""
    try:
        message = str(error)
    except Exception as broken:
        message = f"(message cannot be read: {type(broken).__name__})"
    paragraph = without_tensors(message).strip().split("\n\n")[0]
    line = " ".join(paragraph.split())
    return plain(f"{type(error).__name__}: {line}" if line else type(error).__name__, limit)


def shown(value: object) -> str:
    """Return a value in at most 80 characters for a message, without tensor contents."""
    return plain(without_tensors(repr(value)), 80)


def json_safe(value: Any, depth: int = 0) -> Any:
    """Return ``value`` as finite, clean JSON data of exact built-in types, which reads back equal.

    What JSON does not have becomes text: infinity and NaN, large integers, objects. Long text keeps its head and tail,
    and below the eighth level, where a structure may hold itself, there is "...".
    """
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else str(float(value))
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return int(value) if -(2**63) <= value < 2**64 else plain(hex(value), 100)
    if isinstance(value, (dict, list, tuple, Mapping)) and depth == _DEEPEST:
        return "..."
    if isinstance(value, (dict, Mapping)):  # the exact class first: an abstract one takes long to ask
        return {plain(_printed(key), 200): json_safe(item, depth + 1) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [json_safe(item, depth + 1) for item in value]
    return plain(_printed(value), _LONGEST_TEXT)


def _printed(value: object) -> str:
    if isinstance(value, str):
        return str.__str__(value)
    try:
        return str(value)
    except Exception:
        return f"(a {type(value).__name__} that cannot be printed)"
