"""Leave the cases of other shards out, and say which part of which whole was run here."""

from __future__ import annotations

from dataclasses import asdict
from hashlib import sha256

import pytest

from pytest_exportready.report.shard import RanShard
from pytest_exportready.session.options import OPTIONS

SHARD = "exportready_shard"
"""Where a worker of xdist leaves which part of which whole it has collected."""

RAN = pytest.StashKey[RanShard]()
"""The same, in the process that has collected it."""


def shared_out(
    config: pytest.Config, cases: list[pytest.Item], problems: list[str]
) -> tuple[list[pytest.Item], list[pytest.Item]]:
    """The cases that run here, and those of other shards.

    A file of times that cannot be read is added to ``problems``: without it each machine would come to other parts.
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
            problems.append(f"--export-ready-shard-times: {error}")
            return [], []
        seconds = {result.nodeid: result.seconds for result in earlier.results if result.seconds}
    nodeids = [case.nodeid for case in cases]
    whole = sha256(repr((sorted(nodeids), sorted(seconds.items()))).encode()).hexdigest()[:12]
    ran = config.stash[RAN] = RanShard(options.shard.number, options.shard.of, len(nodeids), whole)
    if hasattr(config, "workeroutput"):
        config.workeroutput[SHARD] = asdict(ran)
    mine = options.shard.share(nodeids, seconds)
    return [case for case in cases if case.nodeid in mine], [case for case in cases if case.nodeid not in mine]
