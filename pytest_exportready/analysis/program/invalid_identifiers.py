"""Names that cannot be written in the Python code of a program: keywords, and names with quotes."""

from __future__ import annotations

import keyword
import re

from torch.export import ExportedProgram


def invalid_identifiers(program: ExportedProgram) -> list[str]:
    """Return names of modules and weights that make ``program.module()`` a syntax error; empty if there are none."""
    names = {*program.state_dict, *program.constants}
    for node in program.graph.nodes:
        names |= {path for path, _ in (node.meta.get("nn_module_stack") or {}).values()}
    odd = sorted({part for name in names for part in name.split(".") if part and not _plain(part)})
    if odd:
        try:
            program.module()
        except SyntaxError:
            return odd
        except Exception:
            return []  # for another reason, which later stages report
    return []


def _plain(name: str) -> bool:
    return re.fullmatch(r"\w+", name) is not None and not keyword.iskeyword(name)
