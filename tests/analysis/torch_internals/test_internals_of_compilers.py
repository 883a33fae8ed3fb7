"""What is private to torch about compilers: there in 2.13 to 2.15; what a newer torch has lost fails here."""

from __future__ import annotations

from pytest_exportready.analysis.torch_internals.compilers import compile_settings


def test_aot_inductor() -> None:
    """Torch 2.13, 2.14 and 2.15 have the entries and the options; tests/stages/test_stage_aotinductor.py runs them."""
    import torch._inductor as inductor

    assert {"aot_inductor.precompile_headers", "compile_threads"} <= set(inductor.list_options())
    assert callable(inductor.aoti_compile_and_package)
    assert callable(inductor.aoti_load_package)


def test_compile_settings() -> None:
    """Torch 2.13, 2.14 and 2.15 tell them; what is set is another value."""
    import torch._inductor.config as inductor

    before = compile_settings()
    assert before == compile_settings()
    assert len(before["inductor"]) > 100
    assert before["functorch"]
    with inductor.patch(epilogue_fusion=not inductor.epilogue_fusion):
        assert compile_settings() != before
