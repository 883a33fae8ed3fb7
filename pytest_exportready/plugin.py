"""The hooks of every pytest run. Without ``--export-ready`` they skip cases and do not import torch."""

from __future__ import annotations

import pytest

from pytest_exportready.session.options import MARKER, OPTIONS, add_options, is_enabled, read_options


def pytest_addoption(parser: pytest.Parser) -> None:
    add_options(parser)


def pytest_addhooks(pluginmanager: pytest.PytestPluginManager) -> None:
    from pytest_exportready.session import hookspecs

    pluginmanager.add_hookspecs(hookspecs)


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    if is_enabled(early_config, early_config.known_args_namespace):  # before any file of the user does
        from pytest_exportready.analysis.torch_internals.first_import import import_torch

        import_torch()


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", f"{MARKER}(**arguments): mark a function that returns an export case, which --export-ready runs"
    )
    options = config.stash[OPTIONS] = read_options(config)
    if options.enabled:
        from pytest_exportready.session.judge_items import register

        register(config)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.stash[OPTIONS].enabled:
        return
    for item in items:
        if item.get_closest_marker(MARKER) is not None:
            item.add_marker(pytest.mark.skip(reason="export cases run only with --export-ready"))
