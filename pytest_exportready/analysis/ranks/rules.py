"""The rules about ranks."""

from __future__ import annotations

from pytest_exportready.case.finding import Rule

SAME_STATE = Rule(
    "ER801",
    "ranks_agree",
    """Every rank has the same module after training: structure, parameters, buffers, modes and dtypes.

    Why it matters:
        Otherwise what ships depends on which rank exports. DistributedDataParallel copies the running statistics of
        rank 0 to all ranks before each forward, so after healthy training they differ by one step.

    Severity:
        error: structure, parameters or modes; running statistics by more than one step; buffers and outputs.
        warning: parameters by rounding only; running statistics by one step; persistent buffers.
        note: non-persistent buffers.

    Not reported:
        Sharded parameters. Ranks that have different parts on purpose (pipeline stages): pass
        `skip_ddp_validation=True` to `export_ready_check`.
    """,
)
SAME_OUTPUTS = Rule(
    "ER802",
    "rank_outputs_match",
    """Every rank gives the same outputs for the same inputs in eval mode.

    Why it matters:
        A rank that `forward` reads, a cache, or a Python attribute that only one rank has changed makes the program
        depend on which rank exports.

    Severity:
        error: outputs differ beyond the tolerance, although no parameter differs.
    """,
)
RULES = (SAME_STATE, SAME_OUTPUTS)
