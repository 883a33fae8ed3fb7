"""Find lines in the source of ``forward`` that depend on values or write state, and that the export did not name."""

from __future__ import annotations

from collections.abc import Iterator

from pytest_exportready.analysis.execution.trial import Trial
from pytest_exportready.analysis.module.wrappers import unwrap
from pytest_exportready.analysis.source.user_frames import user_place
from pytest_exportready.analysis.source.value_dependent_lines import Suspect, suspects
from pytest_exportready.case.finding import Finding, Rule
from pytest_exportready.case.sanitize import exception_text

RULE = Rule(
    "ER130",
    "no_value_dependent_source",
    """Lists lines of `forward`, and of the functions it calls, that depend on tensor values or write state.

    Such a line branches on tensor values, converts them to Python numbers, or writes state that outlives the
    call. It is found in the source, without running it.

    Why it matters:
        If the export failed, these lines may fail next. If it passed, `more_inputs` should cover each branch
        on values.

    Example:
        class Net(nn.Module):
            def forward(self, x):
                if x.sum() > 0:
                    x = x + 1
                if x.max() > 2:
                    x = x * 2
                return x

        export_ready_check(Net().eval(), (torch.ones(2, 4),))

    Instead:
        class Net(nn.Module):
            def forward(self, x):
                x = torch.where(x.sum() > 0, x + 1, x)
                return torch.where(x.max() > 2, x * 2, x)

        export_ready_check(Net().eval(), (torch.ones(2, 4),))

    Severity:
        note: always. The export and the stages after it decide whether the line is a fault.
    """,
)
MOST = 8


def other_lines(trial: Trial) -> Iterator[Finding]:
    """Yield a note for each such line. Failing to read the source is a note, too."""
    passed = trial.program is not None
    if not passed and trial.error is None:
        return
    named = user_place(trial.error) if trial.error is not None else ("", 0)
    try:
        lines = suspects(unwrap(trial.case.model)[0], *trial.call)
    except Exception as error:
        message = "The source of `forward` cannot be analyzed."
        yield RULE.note("", message, "Report this as a bug of pytest-exportready.", torch_says=exception_text(error))
        return
    found = [line for line in lines if line.sure and _matters(line, passed) and (line.file, line.line) != named]
    for line in found[:MOST]:
        message = f"{line.words[:1].upper()}{line.words[1:]}. The export {'passed' if passed else 'failed'}."
        yield RULE.note("", message, _fix(line), file=line.file, line=line.line)


def _matters(suspect: Suspect, passed: bool) -> bool:
    """Return whether to report a line. A program keeps numbers taken from tensors, and sizes, as symbols."""
    return suspect.what in (("branch", "state") if passed else ("branch", "number", "state"))


def _fix(suspect: Suspect) -> str:
    if suspect.what == "state":
        return "Write to a registered buffer in place, or write it outside `forward`."
    return "Use `torch.where(condition, a, b)` or `torch.cond`, or pass the value as an input of `forward`."
