from __future__ import annotations

import logging

import pytest

from pytest_exportready.session.trace_log import without_structured_trace


def test_takes_pytests_handlers_off_and_puts_them_back(caplog: pytest.LogCaptureFixture) -> None:
    logger = logging.getLogger("torch.__trace")
    before = list(logger.handlers)
    own = logging.NullHandler()
    logger.addHandler(own)
    logger.addHandler(caplog.handler)
    try:
        with pytest.raises(KeyError), without_structured_trace():  # noqa: PT012
            assert caplog.handler not in logger.handlers
            assert own in logger.handlers
            raise KeyError
        assert caplog.handler in logger.handlers
    finally:
        logger.handlers = before
