from __future__ import annotations

import gc

import pytest

from pytest_exportready.report.gc_pause import paused


@pytest.mark.parametrize("enabled", [True, False])
def test_the_collector_is_as_it_was(enabled: bool) -> None:
    before = gc.isenabled()
    try:
        (gc.enable if enabled else gc.disable)()
        with paused():
            assert not gc.isenabled()
        assert gc.isenabled() == enabled
        with pytest.raises(ZeroDivisionError):
            paused()(lambda: 1 / 0)()
        assert gc.isenabled() == enabled
    finally:
        (gc.enable if before else gc.disable)()
