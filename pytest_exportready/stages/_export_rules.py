"""The rules of the stage export."""

from __future__ import annotations

from pytest_exportready.case.finding import Rule

FAKES_LEFT = Rule(
    "ER120",
    "export_leaves_no_trace",
    """torch.export leaves no FakeTensors on the module.

    Why it matters:
        `forward` stores tensors without data in caches and attributes while it is traced. The next call
        fails, or the next export records them. The plugin restores the module; your own export script does
        not.

    Example:
        class Net(nn.Module):
            def forward(self, x):
                self.last = x * 2
                return self.last + 1

        export_ready_check(Net().eval(), (torch.randn(2, 4),))

    Instead:
        class Net(nn.Module):
            def forward(self, x):
                return x * 2 + 1

        export_ready_check(Net().eval(), (torch.randn(2, 4),))

    Severity:
        warning: always.
    """,
)
FAKE_CONSTANT = Rule(
    "ER121",
    "no_fake_constant",
    """No constant of the program is a FakeTensor, a tensor without data.

    Why it matters:
        The program returns tensors without values.

    Severity:
        error: always. Strict export of a NumPy scalar, for example, can cause it.
    """,
)
DYNAMIC_SHAPES = Rule(
    "ER122",
    "dynamic_shapes_fit",
    """The dynamic shapes fit the example inputs.

    Why it matters:
        Strict export ignores a dimension that an input does not have.

    Example:
        class Half(nn.Module):
            def forward(self, x):
                return x / 2

        export_ready_check(Half().eval(), (torch.tensor(3.0),), dynamic_batch=True)

    Instead:
        class Half(nn.Module):
            def forward(self, x):
                return x / 2

        export_ready_check(Half().eval(), (torch.tensor([3.0, 4.0]),), dynamic_batch=True)

    Severity:
        error: a dimension does not exist, or no input has a batch dimension.
    """,
)
WEIGHTS = Rule(
    "ER123",
    "weights_not_constants",
    """Every weight that `forward` reads is a registered parameter.

    Why it matters:
        A parameter in a plain list, dict or attribute becomes an anonymous constant of the program: loading
        new weights by name does not change it. A layer in a plain list is not in `parameters()`, so it is not
        trained or saved.

    Example:
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.layers = [nn.Linear(4, 4), nn.Linear(4, 4)]

            def forward(self, x):
                for layer in self.layers:
                    x = layer(x)
                return x

        export_ready_check(Net().eval(), (torch.randn(2, 4),))

    Instead:
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.layers = nn.ModuleList([nn.Linear(4, 4), nn.Linear(4, 4)])

            def forward(self, x):
                for layer in self.layers:
                    x = layer(x)
                return x

        export_ready_check(Net().eval(), (torch.randn(2, 4),))

    Severity:
        error: a weight that is read through an alias; an unregistered weight that requires a gradient.
        warning: an unregistered weight that does not require a gradient.
    """,
)
AUTOCAST = Rule(
    "ER124",
    "no_autocast_around",
    """The export is not called inside torch.autocast.

    Why it matters:
        torch.export does not record an autocast context around it. The program computes in the dtypes of the
        weights.

    Example:
        with torch.autocast("cpu", torch.bfloat16):
            export_ready_check(nn.Linear(4, 2).eval(), (torch.randn(2, 4),))

    Instead:
        class Net(nn.Linear):
            def forward(self, x):
                with torch.autocast("cpu", torch.bfloat16):
                    return super().forward(x)

        export_ready_check(Net(4, 2).eval(), (torch.randn(2, 4),))

    Severity:
        error: always.
    """,
)
IDENTIFIERS = Rule(
    "ER125",
    "names_are_identifiers",
    """Names of submodules and parameters can be written as Python code.

    Why it matters:
        torch generates Python code from an exported program. With a keyword or a quote in a name, which
        `add_module` and `nn.ModuleDict` accept, the code cannot be compiled and the program cannot run.

    Example:
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.heads = nn.ModuleDict({"class": nn.Linear(4, 2)})

            def forward(self, x):
                return self.heads["class"](x)

        export_ready_check(Net().eval(), (torch.randn(2, 4),))

    Instead:
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.heads = nn.ModuleDict({"classes": nn.Linear(4, 2)})

            def forward(self, x):
                return self.heads["classes"](x)

        export_ready_check(Net().eval(), (torch.randn(2, 4),))

    Severity:
        error: always.
    """,
)
UNUSED_STATE = Rule(
    "ER143",
    "no_unused_state",
    """Lists parameters and buffers that the program keeps in its state dict and never reads.

    Why it matters:
        They cost memory: a head that is used in training only, or a layer that was left out.

    Example:
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.body, self.head = nn.Linear(4, 2), nn.Linear(4, 8)

            def forward(self, x):
                return self.body(x)

        export_ready_check(Net().eval(), (torch.randn(2, 4),))

    Instead:
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.body = nn.Linear(4, 2)

            def forward(self, x):
                return self.body(x)

        export_ready_check(Net().eval(), (torch.randn(2, 4),))

    Severity:
        note: always.
    """,
)
