"""On the device where it is to run, the trained module does what it did here, where the program is made.

Runs for a case that names a ``target_device`` of another kind; that device is not needed. What forward makes on a
device of its own, the check devices_follow_inputs finds.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch

from pytest_exportready.analysis.execution.compare import Tolerance, compare
from pytest_exportready.analysis.execution.detectors.device_branches import Branch, branches
from pytest_exportready.analysis.execution.detectors.hardcoded_devices import home, is_at
from pytest_exportready.analysis.execution.run_on_device import answer_on, is_there
from pytest_exportready.analysis.execution.trial import Observation, Trial
from pytest_exportready.analysis.program.autocast import enabled_regions
from pytest_exportready.analysis.program.nodes import owner, source
from pytest_exportready.case.facts import BRANCHES, RAN_THERE
from pytest_exportready.case.finding import Finding, Rule
from pytest_exportready.case.sanitize import exception_text
from pytest_exportready.stages._stage import SkipStage, Stage
from pytest_exportready.transforms.devices import DeviceBaked, purify_devices

SAME_WAY = Rule(
    "ER650",
    "no_device_branches",
    "Forward must do the same on every device: `if x.is_cuda:`, `x.device.type == ...`, `x.get_device()` and "
    "`torch.cuda.is_available()` are answered once, at the export, and the program keeps the way taken here. The "
    "module is run again where it is, told that its tensors are on the target_device, and the runs are compared. An "
    "error where the answers differ, a warning where the other way does not run here, a note where other operators "
    "give the same answer. Healthy are `device=x.device`, `torch.autocast(x.device.type)` and comparing two devices.",
)
MOVES = Rule(
    "ER651",
    "program_is_device_independent",
    "The exported program can be freed of the device that torch.export wrote into it "
    "(`pytest_exportready.purify_devices`), so that one .pt2 runs here and on the target_device. A warning names the "
    "node that holds a device which no input can give. Where the target_device is there, the freed program runs on it "
    "and must give there what the trained module gives here, up to 1e-3 of the output's rms.",
)
_ELSEWHERE = Tolerance(relative=1e-3)  # kernels of another device add in another order; a fault is of another size
_FIX = "write one way for every device, or export on {target}, where the program will run"


def run(trial: Trial) -> Iterator[Observation]:
    own, target = home(trial.reference.module), torch.device(str(trial.case.target_device))
    if is_at(own, target):
        raise SkipStage(f"the model is on {own}, which is where it is to run")
    found = branches(trial.reference.module, (trial.case.args, trial.case.kwargs), own, target)
    yield {BRANCHES: len(found)}
    for branch in found:
        yield _told(branch, own, target)
    if not found:
        yield from _moved(trial, target)


def _moved(trial: Trial, target: torch.device) -> Iterator[Observation]:
    assert trial.program is not None
    try:
        freed = purify_devices(trial.program)
    except DeviceBaked as baked:
        if not any(enabled_regions(trial.program)):  # of those autocast_regions_fit tells
            file, line = source(baked.node)
            yield MOVES.warning(owner(baked.node), baked.what, baked.fix, file=file, line=line)
        return
    yield {RAN_THERE: is_there(target)}
    if not is_there(target):
        return
    call = trial.case.args, trial.case.kwargs
    try:
        given = answer_on(freed, call, target)
    except Exception as error:
        fix = "export on that device, and look at what forward does there"
        yield MOVES.error("", f"the program does not run on {target}", fix, torch_says=exception_text(error))
        return
    compared = compare(trial.reference.output(call), given, _ELSEWHERE)
    if not compared.agree:
        message = f"on {target} the program gives something else than the module here: {compared.problem}"
        yield MOVES.error(compared.where, message, "look for operators that differ between devices")


def _told(branch: Branch, own: torch.device, target: torch.device) -> Finding:
    asked = branch.asked if branch.asked.startswith("torch.") else f"x.{branch.asked}"
    told, what = {
        "answers": (SAME_WAY.error, "on {target} the answer is another one than the program's"),
        "fails": (
            SAME_WAY.warning,
            "the way taken on {target} cannot be tried here, and the program has the other one",
        ),
        "operators": (SAME_WAY.note, "on {target} other operators run, with the same answer"),
    }[branch.outcome]
    message = f"forward asks for the device ({asked}), and {what.format(target=target)}"
    says = branch.detail if branch.outcome == "fails" else ""
    message += "" if says else f": {branch.detail}"
    return told("", message, _FIX.format(target=target), file=branch.file, line=branch.line, torch_says=says)


STAGE = Stage(
    run,
    rules=(SAME_WAY, MOVES),
    after=("eager", "export"),
    every_mode=False,
    asked=lambda trial: trial.case.target_device is not None,
)
