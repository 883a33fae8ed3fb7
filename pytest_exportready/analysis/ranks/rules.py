"""The rules about ranks."""

from __future__ import annotations

from pytest_exportready.case.finding import Rule

AGREE = Rule(
    "ER801",
    "ranks_agree",
    "Every rank must come out of the training with the same module: structure, parameters, modes, dtypes. Otherwise "
    "what ships depends on which rank exports. Running statistics of norms are the exception: "
    "DistributedDataParallel hands rank 0's to all ranks before each forward, so that they end one step apart, which "
    "is a warning; further apart they were never synchronised. Ranks that hold different parts on purpose (pipeline "
    "stages) are judged with export_ready_check(..., skip_ddp_validation=True).",
)
ALIKE = Rule(
    "ER802",
    "rank_outputs_match",
    "In eval mode and on the same inputs every rank must give the same output. A rank read in forward, a cache, a "
    "buffer or a Python attribute that only one rank has changed makes the program depend on which rank exports.",
)
RULES = (AGREE, ALIKE)
