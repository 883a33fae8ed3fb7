"""The rules of the stage reload."""

from __future__ import annotations

from pytest_exportready.case.finding import Rule

SAVES = Rule(
    "ER701",
    "program_saves",
    """torch.export.save writes the program.

    Why it matters:
        A program that cannot be saved cannot be shipped. Saving runs in a child, because it can abort the
        process.

    Example:
        from typing import NamedTuple

        class Pair(NamedTuple):
            first: torch.Tensor
            second: torch.Tensor

        class Net(nn.Module):
            def forward(self, x):
                return Pair(x + 1, x * 2)

        export_ready_check(Net().eval(), (torch.randn(2, 4),))

    Instead:
        class Net(nn.Module):
            def forward(self, x):
                return {"first": x + 1, "second": x * 2}

        export_ready_check(Net().eval(), (torch.randn(2, 4),))

    Severity:
        error: saving fails.
    """,
)
LOADS = Rule(
    "ER702",
    "program_loads",
    """torch.export.load reads the program in a process that does not have the model's code.

    Why it matters:
        The consumer of the program has torch and the file, not the training code.

    Severity:
        error: loading or running fails, also after importing the modules of the model.
    """,
)
AGREES = Rule(
    "ER703",
    "agrees_after_reload",
    """The loaded program gives the outputs of the eager module.

    Why it matters:
        A constant or a buffer that saving changes makes the shipped program differ from the tested one.

    Severity:
        error: an output differs.
    """,
)
NAMES = Rule(
    "ER704",
    "names_are_kept",
    """The program's state dict has the names of the module's state dict, before and after saving.

    Why it matters:
        Weights are later replaced by name.

    Example:
        class Net(nn.Linear):
            def state_dict(self, *args, **kwargs):
                return {**super().state_dict(*args, **kwargs), "ema.weight": torch.ones(1)}

        export_ready_check(Net(4, 2).eval(), (torch.randn(2, 4),))

    Instead:
        export_ready_check(nn.Linear(4, 2).eval(), (torch.randn(2, 4),))

    Severity:
        error: a name is missing.

    Not reported:
        Names of training wrappers, which other rules report.
    """,
)
NEEDS_IMPORT = Rule(
    "ER705",
    "loads_without_imports",
    """Lists the modules that must be imported before the program can be loaded.

    Why it matters:
        Classes of inputs and outputs, and custom operators, must be registered before torch.export.load reads
        them.

    Severity:
        note: always. The consumer of the program needs the import.
    """,
)
