"""The devices that cases are moved to: the option ``--export-ready-device``, and the marker's ``devices``."""

from __future__ import annotations

import os
from functools import cached_property
from typing import TYPE_CHECKING

import pytest

from pytest_exportready.case.devices import AUTO, allows, is_device, is_gpu
from pytest_exportready.session.marker import arguments_of
from pytest_exportready.session.options import OPTIONS
from pytest_exportready.session.ranks import in_rank

if TYPE_CHECKING:
    from _pytest.mark import ParameterSet

DEVICE = "export_ready_device"
_CHOSEN = "EXPORTREADY_AUTO_DEVICE"
"""What ``auto`` means in this run: the first process decides, and all others inherit the variable."""


def _name(parameter: str | ParameterSet) -> str:
    """Return the device of a parameter; empty if the case is skipped there."""
    if isinstance(parameter, str):
        return parameter
    return "" if parameter.marks else str(parameter.values[0])


class Devices:
    """The devices of a run."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.chosen = config.stash[OPTIONS].devices
        if self.chosen == (AUTO,):
            first = not (hasattr(config, "workerinput") or in_rank(config))
            if first or _CHOSEN not in os.environ:
                os.environ[_CHOSEN] = "cpu" if self.why_no_gpu() else "cuda"
            self.chosen = (os.environ[_CHOSEN],)
        if any(map(is_gpu, self.chosen)):
            config.option.export_ready_require_gpu = True

    def names(self, item: pytest.Item) -> list[str]:
        """Return the devices that a case runs on in this run."""
        return [name for one in self.of(item) if (name := _name(one))]

    def of(self, item: pytest.Item) -> list[str | ParameterSet]:
        """Return the parameters of a case: its devices, skipped if its marker does not name them. Empty: none given."""
        given = arguments_of(item).get("devices")
        own = [given] if isinstance(given, str) else given
        if not isinstance(own, (list, tuple)) or not all(map(is_device, own)):
            own = []  # none, or a wrong argument, which is reported
        if not self.chosen or not own:
            return list(dict.fromkeys(self.chosen or own))
        skip = pytest.mark.skip(reason=f"the marker's devices are {', '.join(own)}")
        return [pytest.param(name, marks=() if allows(own, name) else skip) for name in self.chosen]

    def gpus(self, device: str, ranks: int) -> int | list[int]:
        """Return the GPUs for ``ranks`` ranks of a case on ``device``: how many, or which ones."""
        if not is_gpu(device):
            return 0
        _, _, index = device.partition(":")
        return [int(index)] if index else max(1, min(ranks, self._listed[0]))

    def why_no_gpu(self) -> str:
        """Return why no GPU can be used, as shown by a kernel that runs in another process; empty if one can."""
        count, why = self._listed
        if not count:
            return why
        from pytest_exportready.analysis.processes.gpu_trial import GpuFails, tried

        try:
            tried()
        except GpuFails as error:
            return str(error)
        return ""

    @cached_property
    def _listed(self) -> tuple[int, str]:
        """The number of GPUs, and why it is 0; listing them takes a second on a large machine."""
        found: tuple[int, str] | None = self.config.hook.pytest_exportready_gpus()
        return found or (0, "No plugin lists GPUs.")
