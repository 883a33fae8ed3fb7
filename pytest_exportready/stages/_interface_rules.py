"""The rules of the stage interface."""

from __future__ import annotations

from pytest_exportready.case.finding import Rule

MUTATES = Rule(
    "ER151",
    "inputs_not_mutated",
    """`forward` does not modify its inputs.

    Why it matters:
        The caller's tensor is changed after the call, so a second call with it gives a different output. The
        program may drop the write, or not see it through inputs that share memory.

    Example:
        class Net(nn.Module):
            def forward(self, x):
                return x.sub_(x.mean())

        export_ready_check(Net().eval(), (torch.randn(2, 4),))

    Instead:
        class Net(nn.Module):
            def forward(self, x):
                return x - x.mean()

        export_ready_check(Net().eval(), (torch.randn(2, 4),))

    Severity:
        error: the program modifies the input differently; an input that shares its memory with another is
            modified.
        warning: module and program modify the input in the same way; entries of a dict or list input are
            changed.
        note: the case is declared with `allow_mutation=True`.
    """,
)
OVERWRITES = Rule(
    "ER152",
    "outputs_not_overwritten",
    """A later call does not overwrite an output that an earlier call returned.

    Why it matters:
        An output that is memory of the module changes while its caller still uses it.

    Example:
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.register_buffer("work", torch.zeros(2, 4))

            def forward(self, x):
                return self.work.copy_(x * 2)

        export_ready_check(Net().eval(), (torch.randn(2, 4),))

    Instead:
        class Net(nn.Module):
            def forward(self, x):
                return x * 2

        export_ready_check(Net().eval(), (torch.randn(2, 4),))

    Severity:
        error: the next call overwrites an output.
        note: an output shares memory with the module or an input; the case is declared with
            `allow_mutation=True`.
    """,
)
ORDER = Rule(
    "ER153",
    "keyword_order_irrelevant",
    """The program does not confuse keyword inputs, or entries of dict inputs, that are passed in another
    order.

    Why it matters:
        Inputs of the same shape would be exchanged without an error.

    Example:
        class Net(nn.Module):
            def forward(self, features):
                user, item = features.values()
                return user - 2 * item

        export_ready_check(Net().eval(), ({"user": torch.randn(2), "item": torch.randn(2)},))

    Instead:
        class Net(nn.Module):
            def forward(self, features):
                return features["user"] - 2 * features["item"]

        export_ready_check(Net().eval(), ({"user": torch.randn(2), "item": torch.randn(2)},))

    Severity:
        error: the program exchanges inputs that the eager module does not exchange.
        warning: the output of the eager module depends on the order, and the program keeps the order of the
            example.
    """,
)
CONSTANT = Rule(
    "ER154",
    "outputs_follow_inputs",
    """Lists outputs that are constant in the program.

    Why it matters:
        Anchors and positions are meant to be constant. A Python number that was computed from a size or a
        value keeps the value that it had for the example.

    Example:
        class Net(nn.Module):
            def forward(self, x):
                return x * 2, len(x)

        export_ready_check(Net().eval(), (torch.randn(2, 4),))

    Instead:
        class Net(nn.Module):
            def forward(self, x):
                return x * 2

        export_ready_check(Net().eval(), (torch.randn(2, 4),))

    Severity:
        note: always.

    Not reported:
        A program in which every output is constant. Python numbers in programs with dynamic shapes.
    """,
)
