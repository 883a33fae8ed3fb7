"""The module does the same on the target device as here, where the program is exported.

This stage runs for a case whose ``target_device`` is of another type than the model's; that device is not needed. The
check devices_follow_inputs finds tensors that forward creates on a fixed device.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch

from pytest_exportready.analysis.execution.compare import summary
from pytest_exportready.analysis.execution.detectors.device_branches import Branch, branches
from pytest_exportready.analysis.execution.detectors.hardcoded_devices import home, is_at
from pytest_exportready.analysis.execution.float64_reference import compare_by_float64
from pytest_exportready.analysis.execution.pytree import map_tensors
from pytest_exportready.analysis.execution.trial import Observation, Trial
from pytest_exportready.analysis.processes.child import TookTooLong
from pytest_exportready.analysis.processes.loader_client import LoaderGone
from pytest_exportready.analysis.processes.target_device import CannotReload, DoesNotRun, is_available, output_on
from pytest_exportready.analysis.program.autocast import enabled_regions
from pytest_exportready.analysis.program.nodes import owner, source
from pytest_exportready.case.facts import BRANCHES, RAN_THERE
from pytest_exportready.case.finding import Finding, Rule
from pytest_exportready.stages._stage import SkipStage, Stage, StageInfrastructure
from pytest_exportready.transforms.devices import DeviceBaked, purify_devices

NO_BRANCHES = Rule(
    "ER650",
    "no_device_branches",
    """`forward` takes the same branches on the `target_device` as on the device of the export.

    Why it matters:
        `x.is_cuda`, `x.device.type`, `x.get_device()` and `torch.cuda.is_available()` are evaluated once,
        during the export. The program keeps the branch that was taken here.

    Example:
        class Net(nn.Module):
            def forward(self, x):
                return x.half().float() + 1 if x.is_cuda else x

        export_ready_check(Net().eval(), (torch.randn(2, 4),), target_device="cuda")

    Instead:
        class Net(nn.Module):
            def forward(self, x):
                return x + torch.ones(4, device=x.device)

        export_ready_check(Net().eval(), (torch.randn(2, 4),), target_device="cuda")

    Severity:
        error: the outputs differ on the target device.
        warning: the branch for the target device cannot run here.
        note: other operators run there, with the same outputs.

    Not reported:
        `device=x.device`, `torch.autocast(x.device.type)`, and comparisons of two devices.
    """,
)
INDEPENDENT = Rule(
    "ER651",
    "program_is_device_independent",
    """The devices that torch.export writes into the program can be removed (`purify_devices`).

    If this machine has the target device, the program without devices must run on it and give the eager
    output, within the limits for its dtype, or as close to float64 as the eager module is. TF32 is off.

    Why it matters:
        One `.pt2` file then runs here and on the target device.

    Example:
        @torch.library.custom_op("er651::moved", mutates_args=())
        def moved(x: torch.Tensor, device: torch.device) -> torch.Tensor:
            return x.clone()

        moved.register_fake(lambda x, device: torch.empty_like(x))

        class Net(nn.Module):
            def forward(self, x):
                return moved(x, x.device) * 2

        export_ready_check(Net().eval(), (torch.randn(2, 4),), target_device="cuda")

    Instead:
        class Net(nn.Module):
            def forward(self, x):
                return x.to(x.device) * 2

        export_ready_check(Net().eval(), (torch.randn(2, 4),), target_device="cuda")

    Severity:
        error: the program fails, or its output differs, on the target device.
        warning: a node holds a device that cannot be removed.
    """,
)


def run(trial: Trial) -> Iterator[Observation]:
    own, target = home(trial.reference.module), torch.device(str(trial.case.target_device))
    if is_at(own, target):
        raise SkipStage(f"the model is on {own}, which is the target device")
    found = branches(trial.reference.module, trial.call, own, target)
    yield {BRANCHES: len(found)}
    for branch in found:
        yield _reported(branch, target)
    if not found:
        yield from _moved(trial, target)


def _moved(trial: Trial, target: torch.device) -> Iterator[Observation]:
    """Remove the devices from the program, and run it on ``target`` if this machine has that device."""
    assert trial.program is not None
    try:
        purified = purify_devices(trial.program)
    except DeviceBaked as baked:
        if not any(enabled_regions(trial.program)):  # autocast_regions_fit reports those
            file, line = source(baked.node)
            message = f"The program holds a fixed device: {baked.what}."
            yield INDEPENDENT.warning(owner(baked.node), message, baked.fix, file=file, line=line)
        return
    try:
        available = is_available(target)
        yield {RAN_THERE: available}
        if not available:
            return
        actual = output_on(trial, purified, target)
    except CannotReload as error:
        raise SkipStage(
            f"the program runs on {target} from its file, and it cannot be saved and loaded: {error}"
        ) from error
    except LoaderGone as error:
        raise StageInfrastructure(str(error), "Run it again; free memory if this persists.") from error
    except TookTooLong as error:
        raise StageInfrastructure(f"running the program on {target} {error}", "Use a faster machine.") from error
    except DoesNotRun as error:
        yield INDEPENDENT.error(
            "",
            f"The program does not run on {target}.",
            f"Export on {target}, and check what `forward` does there.",
            torch_says=str(error),
        )
        return
    module, expected = trial.reference.module, trial.reference.output(trial.call)
    here = map_tensors(lambda tensor: tensor.to(home(module)), actual)
    compared = compare_by_float64(module, [trial.call], expected, here, trial.tolerance)
    yield summary([compared])
    if not compared.agree:
        yield INDEPENDENT.error(
            compared.where,
            f"On {target}, the program differs from the eager module here: {compared.problem}.",
            "Check the operators for results that depend on the device.",
        )


def _reported(branch: Branch, target: torch.device) -> Finding:
    read = branch.read if branch.read.startswith("torch.") else f"x.{branch.read}"
    fix = f"Use one branch for every device, or export on {target}, where the program will run."
    where = {"file": branch.file, "line": branch.line}
    if branch.outcome == "outputs":
        message = f"`forward` branches on the device (`{read}`). On {target} the output differs: {branch.detail}."
        return NO_BRANCHES.error("", message, fix, **where)
    if branch.outcome == "fails":
        message = f"`forward` branches on the device (`{read}`), and its branch for {target} does not run here."
        return NO_BRANCHES.warning("", message, fix, **where, torch_says=branch.detail)
    message = f"`forward` branches on the device (`{read}`), with the same output on {target}: {branch.detail}."
    return NO_BRANCHES.note("", message, fix, **where)


STAGE = Stage(
    run,
    rules=(NO_BRANCHES, INDEPENDENT),
    after=("eager", "export"),
    every_mode=False,
    asked=lambda trial: trial.case.target_device is not None,
)
