"""The rules of the stage parity."""

from __future__ import annotations

from pytest_exportready.case.finding import Rule

AGREES = Rule(
    "ER501",
    "program_agrees",
    """The exported program gives the outputs of the eager module, on the example, on `more_inputs` and on
    random inputs.

    Structure, shapes, dtypes, devices, integers and the positions of NaN and Inf must be equal.
    Floating-point outputs must be equal within `tolerance=`, or within a default tolerance for their dtype.
    Beyond the default tolerance the program may be up to 3 times as far from the module in float64 as the
    eager module is.

    Why it matters:
        torch.export records the operations for one example. A Python side effect, a branch on Python state or
        a code path for compilers makes the program differ without an error.

    Example:
        class Net(nn.Module):
            def forward(self, x):
                return x.relu() if torch.compiler.is_compiling() else x.abs()

        export_ready_check(Net().eval(), (torch.randn(2, 4),))

    Instead:
        class Net(nn.Module):
            def forward(self, x):
                return x.abs()

        export_ready_check(Net().eval(), (torch.randn(2, 4),))

    Severity:
        error: an output differs.
    """,
)
RUNS = Rule(
    "ER502",
    "program_runs",
    """The exported program runs on every input on which the eager module runs.

    Why it matters:
        A size that the trace fixed, or an exception that `forward` catches, fails only when the program is
        used.

    Example:
        more = [((torch.randn(3, 4),), {})]
        export_ready_check(nn.Linear(4, 2).eval(), (torch.randn(2, 4),), more_inputs=more)

    Instead:
        more = [((torch.randn(3, 4),), {})]
        export_ready_check(nn.Linear(4, 2).eval(), (torch.randn(2, 4),), more_inputs=more, dynamic_batch=True)

    Severity:
        error: the program fails, or the eager module fails on `more_inputs`.
    """,
)
NOT_VACUOUS = Rule(
    "ER503",
    "comparison_can_fail",
    """The comparison with the eager module would reject a wrong output.

    An all-zero output, and the outputs for other inputs, must fail the same comparison.

    Why it matters:
        If a wrong output passes the comparison, agreement proves nothing.

    Example:
        model = nn.Embedding(8, 4, padding_idx=0).eval()
        export_ready_check(model, (torch.zeros(1, 3, dtype=torch.long),))

    Instead:
        model = nn.Embedding(8, 4, padding_idx=0).eval()
        export_ready_check(model, (torch.tensor([[5, 1, 0]]),))

    Severity:
        error: a wrong output passes.
        warning: a wrong output passes, and with other weights, where it does not, the program agrees.
    """,
)
