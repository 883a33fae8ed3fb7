"""Tensors that meet in one operator are on one device.

Why it matters:
    Eager mode accepts some mixed calls, such as a CPU scalar with a CUDA tensor; torch.export is stricter. A tensor
    that is not a registered buffer stays behind when the module moves: use `register_buffer` or `device=x.device`.

Severity:
    error: the export fails.
"""

from __future__ import annotations

from collections import Counter

from pytest_exportready.case.finding import Finding, Rule
from pytest_exportready.case.wording import few
from pytest_exportready.diagnosis._diagnosis import Diagnosis, Failure

RULE = Rule("ER415", "one_device", __doc__ or "")

_SIGNS = (
    r"FakeTensorDeviceMismatchError|Tensor device mismatch|is not on the expected device"
    r"|(?:Expected|expected) all tensors (?:to be )?on the same device|found two different devices"
    r"|Cannot copy out of meta tensor|Unhandled FakeTensor Device Propagation"
)
_TWO = r"at least two devices, ([\w:]+)(?: \w+)? and ([\w:]+)|found two different devices ([\w:]+), ([\w:]+)"
_SYNC = r"SyncBatchNorm expected input tensor to be on"


def explain(failure: Failure) -> Finding | None:
    if failure.says(_SYNC):
        return failure.finding(
            RULE,
            "SyncBatchNorm is in training mode, which it supports on GPUs only.",
            "Call `model.eval()` before exporting, or convert it to `nn.BatchNorm2d` to train on a CPU.",
        )
    if not failure.says(_SIGNS):
        return None
    devices = {name: str(tensor.device) for name, tensor in failure.tensors.items()}
    usual = Counter(devices.values()).most_common(1)[0][0] if devices else ""
    odd = [f"{name} ({device})" for name, device in devices.items() if device != usual]
    two = failure.says(_TWO)
    which = f": {' and '.join(filter(None, two.groups()))}" if two else ""
    return failure.finding(
        RULE,
        f"An operator received tensors on different devices{which}.",
        "Register the tensor (`register_buffer`), so that it moves with the module."
        if odd
        else "Create the tensor on the device of the input: `device=x.device`.",
        where=few(odd),
    )


DIAGNOSIS = Diagnosis(RULE, explain)
