"""pytest hooks that every run pays for. Without ``--export-ready`` nothing of torch is imported and nothing changes."""

from __future__ import annotations

import pytest

from pytest_exportready.options import OPTIONS, add_options, read_options

MARKER = "export_ready"


def pytest_addoption(parser: pytest.Parser) -> None:
    add_options(parser)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", f"{MARKER}(**arguments): a function that returns an export case; run by --export-ready"
    )
    options = config.stash[OPTIONS] = read_options(config)
    if options.enabled:
        from pytest_exportready.session import ExportReadySession

        config.pluginmanager.register(ExportReadySession(config), "exportready-session")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.stash[OPTIONS].enabled:
        return
    for item in items:
        if item.get_closest_marker(MARKER) is not None:
            item.add_marker(pytest.mark.skip(reason="an export case: run with --export-ready"))
