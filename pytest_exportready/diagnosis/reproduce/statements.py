"""The lines of a script in the order in which they can run."""

from __future__ import annotations

import re
from collections import Counter

from pytest_exportready.diagnosis.reproduce.values import without_places_in_strings

_WORD = re.compile(r"\b[^\W\d]\w*\b")


class Statements:
    """Definitions, each a paragraph, and statements, each one line."""

    def __init__(self) -> None:
        self.variables: set[str] = set()  # those that are inlined if they are used once
        self._lines: list[str] = []
        self._sources: set[int] = set()

    def __len__(self) -> int:
        return len(self._lines)

    def add(self, line: str) -> None:
        self._lines.append(line)

    def define(self, source: str) -> None:
        """Add source of the project, in which no variable is inlined."""
        if "\n" in source:
            self._sources.add(len(self._lines))
        self._lines.append(without_places_in_strings(source))

    def reserve(self) -> int:
        """Reserve a place for a line that is known later."""
        self._lines.append("")
        return len(self._lines) - 1

    def fill(self, place: int, line: str) -> None:
        self._lines[place] = line

    def text(self) -> str:
        """Return the script, with variables inlined that are used once, except ``model``."""
        uses = Counter(_WORD.findall("\n".join(self._lines)))
        values: dict[str, str] = {}
        text = ""

        def inline(line: str) -> str:
            return _WORD.sub(lambda found: values.pop(found[0], found[0]), line)

        for number, line in enumerate(self._lines):
            name, _, value = line.partition(" = ")
            if number in self._sources:
                text = f"{text.rstrip()}\n\n\n{line}\n\n\n"
            elif name != "model" and name in self.variables and uses[name] == 2:
                values[name] = inline(value)
            else:
                text += inline(line) + "\n"
        return text.strip()
