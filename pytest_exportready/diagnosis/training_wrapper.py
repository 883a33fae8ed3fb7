"""A module of training still wraps a part of the model, and torch.export fails inside the wrapper.

Whatever it says then, of hooks, loggers, structures or DTensors, is about the wrapper and not about the model.
Bad: ``Net(encoder=DistributedDataParallel(encoder))``. Good: ``Net(encoder=encoder.module)``.
"""

from __future__ import annotations

import re

from pytest_exportready.analysis.module.sharding import sharding_modules
from pytest_exportready.analysis.module.wrappers import inner_wrappers, way_in, wrapped_module
from pytest_exportready.case.finding import Finding, Rule
from pytest_exportready.case.wording import few
from pytest_exportready.diagnosis._diagnosis import Diagnosis, Failure

RULE = Rule("ER410", "no_training_wrapper_inside", __doc__ or "")

_FILES = (
    "nn/parallel/distributed.py",
    "nn/parallel/data_parallel.py",
    "fsdp/fully_sharded_data_parallel.py",
    "fsdp/_runtime_utils.py",
    "fsdp/_fully_shard/_fsdp_state.py",
    "fsdp/_fully_shard/_fsdp_param_group.py",
    "distributed/tensor/_dispatch.py",
)
_SIGNS = re.compile(r"set_runtime_stats_and_log|setStorage: sizes .* storage of size 0|mixed torch\.Tensor and DTensor")


def explain(failure: Failure) -> Finding | None:
    wrappers = dict(inner_wrappers(failure.module))
    if wrapped_module(failure.module) is not None:
        wrappers[""] = failure.module
    sharded = sharding_modules(failure.module)
    if not ("" in wrappers or failure.comes_through(*_FILES) or failure.says(_SIGNS)):
        return None
    found = {**wrappers, **sharded}
    kinds = few(sorted({type(module).__name__ for module in found.values()})) or "a wrapper of distributed training"
    where = few(sorted(found)) if found else ""
    if sharded:
        return failure.finding(
            RULE,
            where,
            f"the parameters are still sharded ({kinds}), and the export fails there",
            "load get_model_state_dict(model, options=StateDictOptions(full_state_dict=True)) into a fresh module",
        )
    name = next(iter(wrappers), "")
    inner = way_in(wrappers[name]) if wrappers else "module"
    fix = f"model.{name} = model.{name}.{inner} before the export" if name else f"export model.{inner}"
    return failure.finding(RULE, where, f"{kinds} still wraps it, and the export fails there", fix)


DIAGNOSIS = Diagnosis(RULE, explain, turn="first")
