"""Collect the bundled reference models: if no path is given, or if they are named."""

from __future__ import annotations

from collections.abc import Generator
from importlib.util import find_spec
from pathlib import Path

import pytest

from pytest_exportready.session.options import OPTIONS

PACKAGE = "exportready_reference_models"


class ReferenceModel(pytest.Module):
    """A module of reference models; the user's ``python_functions`` does not apply to it."""

    def funcnamefilter(self, name: str) -> bool:
        return name.startswith("test_")


class ReferenceModels:
    """The hooks that collect the reference models, registered if their package is installed."""

    def __init__(self, config: pytest.Config, folder: Path) -> None:
        self.folder = folder
        if not (config.invocation_params.dir / PACKAGE).exists():
            prefix = f"{PACKAGE}/"  # a node id from a report works on the command line
            config.args = [f"{folder.parent}/{arg}" if arg.startswith(prefix) else arg for arg in config.args]
        given = config.args_source is config.ArgsSource.ARGS
        wanted = config.stash[OPTIONS].reference_models
        if wanted == "always" or (wanted == "auto" and not given):
            config.args.append(str(folder))

    @pytest.hookimpl(wrapper=True)
    def pytest_collect_file(
        self, file_path: Path, parent: pytest.Collector
    ) -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
        collectors = yield
        if not collectors:  # pytest collects a file that its patterns match or that the command line names
            module = self.pytest_pycollect_makemodule(file_path, parent)
            return [] if module is None else [module]
        return collectors

    def pytest_pycollect_makemodule(self, module_path: Path, parent: pytest.Collector) -> pytest.Module | None:
        folder = module_path.parent
        if folder.name != PACKAGE or folder.resolve() != self.folder.resolve():
            return None
        if module_path.suffix != ".py" or module_path.name.startswith("_"):
            return None
        # the same id wherever the package is installed: it identifies the case in reports of other machines
        nodeid = f"{PACKAGE}/{module_path.name}"
        return ReferenceModel.from_parent(parent, path=module_path, nodeid=nodeid)


def installed_at() -> Path | None:
    """Return the folder of the reference models; None if they are not installed."""
    spec = find_spec(PACKAGE)
    return Path(spec.origin).parent if spec and spec.origin else None
