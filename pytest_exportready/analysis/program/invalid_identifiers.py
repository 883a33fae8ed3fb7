"""Names of modules and weights that are not valid in the Python code that torch generates for a program."""

from __future__ import annotations

import keyword
import re

from torch.export import ExportedProgram


def invalid_identifiers(program: ExportedProgram) -> list[str]:
    """Return names (keywords, names with quotes) for which ``program.module()`` raises SyntaxError."""
    names = {*program.state_dict, *program.constants}
    for node in program.graph.nodes:
        names |= {path for path, _ in (node.meta.get("nn_module_stack") or {}).values()}
    invalid = sorted({part for name in names for part in name.split(".") if part and not _is_identifier(part)})
    if invalid:
        try:
            program.module()
        except SyntaxError:
            return invalid
        except Exception:
            return []  # another reason, which later stages report
    return []


def _is_identifier(name: str) -> bool:
    return re.fullmatch(r"\w+", name) is not None and not keyword.iskeyword(name)
