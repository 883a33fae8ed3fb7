"""AOTInductor and its settings."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch.export import ExportedProgram


def aot_compiled(program: ExportedProgram, path: str) -> str:
    """Compile ``program`` with AOTInductor to a ``.pt2`` package at ``path``, and return its path.

    The documented function is in a private module. Precompiled headers, which pay from the third compile on, are off.

    Raises:
        AttributeError: This torch does not have it.
    """
    import torch._inductor

    known = {name: value for name, value in _AOT_CONFIGS.items() if name in torch._inductor.list_options()}
    return str(torch._inductor.aoti_compile_and_package(program, package_path=path, inductor_configs=known))


_AOT_CONFIGS = {"aot_inductor.precompile_headers": False, "compile_threads": 1}


def compile_settings() -> dict[str, Any]:
    """Return every setting of ``aot_compiled``: those of inductor and functorch, including custom passes.

    They are in private modules.

    Raises:
        AttributeError, ImportError: This torch does not have them.
    """
    from torch._functorch import config as functorch
    from torch._inductor import config as inductor

    return {"inductor": inductor.get_config_copy(), "functorch": functorch.get_config_copy(), "ours": _AOT_CONFIGS}


def aot_loaded(path: str) -> Callable[..., Any]:
    """Return the callable of a package of ``aot_compiled``. The documented function is in a private module."""
    import torch._inductor

    loaded: Callable[..., Any] = torch._inductor.aoti_load_package(path)
    return loaded
