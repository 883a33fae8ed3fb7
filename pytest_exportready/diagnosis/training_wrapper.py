"""No wrapper of training, such as DistributedDataParallel or torch.compile, is inside the model.

Why it matters:
    torch.export fails inside the wrapper, and its message is about hooks, loggers or DTensors instead of the model.
    Pass the module inside: `Net(encoder=encoder.module)` for a model in DistributedDataParallel.

Severity:
    error: the export fails in a wrapper; the parameters are still sharded.

Not reported:
    Wrappers around the whole model, which are removed before the export.
"""

from __future__ import annotations

from torch import nn

from pytest_exportready.analysis.module.sharding import sharding_modules
from pytest_exportready.analysis.module.wrappers import inner_attribute, inner_wrappers, wrapped_module
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
_SIGNS = r"set_runtime_stats_and_log|setStorage: sizes .* storage of size 0|mixed torch\.Tensor and DTensor"


def explain(failure: Failure) -> Finding | None:
    wrappers = dict(inner_wrappers(failure.module))
    if wrapped_module(failure.module) is not None:
        wrappers[""] = failure.module
    if not ("" in wrappers or failure.comes_through(*_FILES) or failure.says(_SIGNS)):
        return None
    sharded = sharding_modules(failure.module)
    found = {**wrappers, **sharded}
    kinds = few(sorted({type(module).__name__ for module in found.values()})) or "A wrapper of distributed training"
    where = few(sorted(found)) if found else ""
    if sharded:
        return failure.finding(
            RULE,
            f"The parameters are still sharded ({kinds}).",
            "Load `get_model_state_dict(model, options=StateDictOptions(full_state_dict=True))` into a new module.",
            where=where,
        )
    return failure.finding(RULE, f"{kinds} still wraps the module.", _fix(wrappers), where=where)


def _fix(wrappers: dict[str, nn.Module]) -> str:
    name, wrapper = next(iter(wrappers.items()), ("", None))
    inner = inner_attribute(wrapper) if wrapper is not None else "module"
    return f"Set `model.{name} = model.{name}.{inner}` before exporting." if name else f"Export `model.{inner}`."


DIAGNOSIS = Diagnosis(RULE, explain, turn="first")
