"""Deselect the cases of other shards, and record which shard ran here."""

from __future__ import annotations

from dataclasses import asdict
from hashlib import sha256

import pytest

from pytest_exportready.report.shard import RanShard
from pytest_exportready.session.options import OPTIONS

SHARD = "exportready_shard"
"""The key under which a worker of xdist sends the shard that it collected."""

RAN = pytest.StashKey[RanShard]()
"""The shard that this process collected."""


def split_by_shard(config: pytest.Config, cases: list[pytest.Item]) -> tuple[list[pytest.Item], list[pytest.Item]]:
    """Return the cases that run here, and those of other shards.

    Raises:
        pytest.UsageError: the file of times cannot be read; without it each machine would make other shards.
    """
    options = config.stash[OPTIONS]
    if options.shard is None:
        return cases, []
    seconds = {}
    if options.shard_times is not None:
        from pytest_exportready.report.junit import JUnitError, read_junit

        try:
            earlier = read_junit(options.shard_times)
        except JUnitError as error:
            raise pytest.UsageError(f"--export-ready-shard-times: {error}") from error
        seconds = {result.nodeid: result.seconds for result in earlier.results if result.seconds}
    nodeids = [case.nodeid for case in cases]
    whole = sha256(repr((sorted(nodeids), sorted(seconds.items()))).encode()).hexdigest()[:12]
    ran = config.stash[RAN] = RanShard(options.shard.number, options.shard.of, len(nodeids), whole)
    if hasattr(config, "workeroutput"):
        config.workeroutput[SHARD] = asdict(ran)
    selected = options.shard.share(nodeids, seconds)
    return [c for c in cases if c.nodeid in selected], [c for c in cases if c.nodeid not in selected]
