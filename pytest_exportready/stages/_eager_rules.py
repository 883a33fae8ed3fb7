"""The rules of the stage eager."""

from __future__ import annotations

from pytest_exportready.case.finding import Rule

RUNS = Rule(
    "ER110",
    "eager_runs",
    """The trained module runs on the example inputs in eval mode.

    Why it matters:
        Every later comparison needs the output of the eager module.

    Example:
        export_ready_check(nn.Linear(4, 2).eval(), (torch.randn(2, 3),))

    Instead:
        export_ready_check(nn.Linear(4, 2).eval(), (torch.randn(2, 4),))

    Severity:
        error: the module raises an exception.
    """,
)
REPEATS = Rule(
    "ER111",
    "eager_repeats",
    """Two calls with the same inputs give the same output.

    Why it matters:
        Noise, dropout that is always on or a shuffled order make every later comparison meaningless: with a
        seed it is hidden, without one the export seems to be at fault.

    Example:
        class Net(nn.Module):
            def forward(self, x):
                return F.dropout(x, 0.5)

        export_ready_check(Net().eval(), (torch.randn(2, 4),))

    Instead:
        class Net(nn.Module):
            def forward(self, x):
                return F.dropout(x, 0.5, training=self.training)

        export_ready_check(Net().eval(), (torch.randn(2, 4),))

    Severity:
        error: the outputs differ, and no state of the module explains it.

    Not reported:
        A module that is declared to have state: `ExportCase(allow_mutation=True)`.
    """,
)
DETERMINISTIC = Rule(
    "ER115",
    "kernels_deterministic",
    """The kernels that `forward` uses give the same output every time.

    Why it matters:
        Atomic additions on a GPU, such as those of `scatter_add`, run in another order each time. Outputs then differ
        from run to run, also those of the program, and small differences between two versions are not faults.

    Severity:
        warning: two calls differ, and are equal with `torch.use_deterministic_algorithms(True)`.
    """,
)
STATELESS = Rule(
    "ER112",
    "eager_is_stateless",
    """In eval mode the output does not depend on earlier calls.

    Why it matters:
        torch.export records one value of a Python counter, a reassigned buffer or a cache, or drops the
        update.

    Example:
        class Net(nn.Module):
            calls = 0

            def forward(self, x):
                self.calls += 1
                return x * self.calls

        export_ready_check(Net().eval(), (torch.randn(2, 4),))

    Instead:
        class Net(nn.Module):
            calls = 0

            def forward(self, x):
                if self.training:
                    self.calls += 1
                return x * 2

        export_ready_check(Net().eval(), (torch.randn(2, 4),))

    Severity:
        error: the output depends on earlier calls, or will after more calls.

    Not reported:
        State that no output depends on. A module that is declared to have state, such as a KV cache:
        `ExportCase(allow_mutation=True, stateful_calls=True)`.
    """,
)
GOLDEN = Rule(
    "ER113",
    "matches_golden",
    """The module gives the output that was recorded at the end of training (`ExportCase(golden=...)`).

    Why it matters:
        A broken weight tie, a partly loaded checkpoint or an autocast wrapper on `forward` changes the
        output. The exported program agrees with the changed module, so no other comparison shows it.

    Example:
        model, x = nn.Linear(4, 2).eval(), torch.randn(2, 4)
        golden = model(x).detach()
        restored = nn.Linear(4, 2).eval()
        export_ready_check(restored, (x,), golden=golden)

    Instead:
        model, x = nn.Linear(4, 2).eval(), torch.randn(2, 4)
        golden = model(x).detach()
        restored = nn.Linear(4, 2).eval()
        restored.load_state_dict(model.state_dict())
        export_ready_check(restored, (x,), golden=golden)

    Severity:
        error: the output differs by more than `golden_tolerance`, relative to its rms.
    """,
)
NUMBERS = Rule(
    "ER114",
    "eager_has_no_nan",
    """The output of the trained module on the example inputs has no NaN.

    Why it matters:
        A program that returns NaN everywhere would agree with it.

    Example:
        class Log(nn.Module):
            def forward(self, x):
                return x.log()

        export_ready_check(Log().eval(), (torch.tensor([-1.0, 2.0]),))

    Instead:
        class Log(nn.Module):
            def forward(self, x):
                return x.log()

        export_ready_check(Log().eval(), (torch.tensor([1.0, 2.0]),))

    Severity:
        error: an output has a NaN.

    Not reported:
        Infinite values, such as those of a mask.
    """,
)
