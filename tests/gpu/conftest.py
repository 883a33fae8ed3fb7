"""A machine with GPUs: the real ones of this machine, or pretended ones for checks that can run with them."""

from __future__ import annotations

import os

import pytest
from gpu_machine import Machine
from user_project import Project

from exportready_fixtures.gpus import NotEnoughGpus, visible


@pytest.fixture
def machine(request: pytest.FixtureRequest, project: Project) -> Machine:
    marker = request.node.get_closest_marker("gpu")
    (count,) = marker.args
    try:
        there = len(visible())
    except NotEnoughGpus as error:
        there, why = 0, str(error)
    else:
        why = f"There are {there} GPUs."
    if there >= count:
        return Machine(dict(os.environ), True, project)
    if not marker.kwargs.get("pretended"):
        pytest.skip(f"This check needs {count} real GPUs. {why}")
    environment = request.getfixturevalue("pretended_cuda").environment(count, nvml=True)
    return Machine(environment, False, project)
