"""Tensors of two devices meet in one operator; eager may forgive it, torch.export does not.

Bad: ``x + torch.zeros(4)`` on a GPU, or a tensor that is no buffer. Good: ``x + torch.zeros(4, device=x.device)``.
"""

from __future__ import annotations

import re
from collections import Counter

from pytest_exportready.analysis.module.unregistered_tensors import unregistered_tensors
from pytest_exportready.case.finding import Finding, Rule
from pytest_exportready.case.wording import few
from pytest_exportready.diagnosis._diagnosis import Diagnosis, Failure

RULE = Rule("ER415", "one_device", __doc__ or "")

_SIGNS = re.compile(
    r"FakeTensorDeviceMismatchError|Tensor device mismatch|is not on the expected device"
    r"|(?:Expected|expected) all tensors (?:to be )?on the same device|found two different devices"
    r"|Cannot copy out of meta tensor|Unhandled FakeTensor Device Propagation"
)
_TWO = re.compile(
    r"at least two devices, ([\w:]+)(?: \w+)? and ([\w:]+)|found two different devices ([\w:]+), ([\w:]+)"
)
_SYNC = re.compile(r"SyncBatchNorm expected input tensor to be on")


def explain(failure: Failure) -> Finding | None:
    if failure.says(_SYNC):
        return failure.finding(
            RULE,
            "",
            "SyncBatchNorm trains on a GPU only, and is still in training mode",
            "model.eval() before the export; convert it to nn.BatchNorm2d where it has to train on a CPU",
        )
    if not failure.says(_SIGNS):
        return None
    state = [*failure.module.named_parameters(), *failure.module.named_buffers(), *unregistered_tensors(failure.module)]
    usual = Counter(str(tensor.device) for _, tensor in state).most_common(1)
    odd = [f"{name} ({tensor.device})" for name, tensor in state if [str(tensor.device)] != [d for d, _ in usual]]
    two = failure.says(_TWO)
    devices = f": {' and '.join(filter(None, two.groups()))}" if two else ""
    return failure.finding(
        RULE,
        few(odd),
        f"tensors of two devices meet in one operator{devices}",
        "register the tensor (register_buffer) so that it moves with the module"
        if odd
        else "make the tensor where the input is: device=x.device",
    )


DIAGNOSIS = Diagnosis(RULE, explain)
