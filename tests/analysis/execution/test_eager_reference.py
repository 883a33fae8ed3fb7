"""Eager reference: outputs of the trained module in its own eval mode; the module is restored."""

from __future__ import annotations

import subprocess
import sys

import torch
from pretended_cuda import PretendedCuda
from torch import Tensor, nn

from pytest_exportready.analysis.execution.call import run
from pytest_exportready.analysis.execution.eager_reference import EagerReference
from pytest_exportready.analysis.module.snapshot import preserved

X = torch.linspace(-1.0, 1.0, 12).reshape(4, 3)


class Merging(nn.Module):
    """eval() merges weights, as LoRA does; a counter counts the calls."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(3))
        self.delta = nn.Parameter(torch.ones(3))
        self.merged, self.switches = False, 0

    def train(self, mode: bool = True) -> Merging:
        super().train(mode)
        self.switches += 1
        if not mode and not self.merged:
            self.weight.data += self.delta.data
            self.merged = True
        return self

    def forward(self, x: Tensor) -> Tensor:
        return x * self.weight + (0 if self.merged else x * self.delta) + (100 if self.training else 0)


def test_the_users_own_eval_with_side_effects_undone() -> None:
    """An overridden train() decides what eval does; weights, flags and modes are restored."""
    net = Merging()
    with preserved(net) as state:
        reference = EagerReference(net)
        for _ in range(2):
            assert torch.equal(reference.output(((X,), {})), X * 2)
        assert state.changes() == []
    assert (net.training, net.merged, net.switches) == (True, False, 0)
    assert (net.weight == 1).all()


def test_mixed_modes_and_statistics() -> None:
    """BatchNorm and dropout in training mode do not change, submodules keep their modes."""
    net = nn.Sequential(nn.BatchNorm1d(3), nn.Dropout(0.5), nn.Linear(3, 3))
    net[2].eval()
    reference = EagerReference(net)
    first, second = reference.output(((X,), {})), reference.output(((X,), {}))
    assert torch.equal(first, second)
    assert [m.training for m in net.modules()] == [True, True, True, False]
    assert int(net[0].num_batches_tracked) == 0


def test_under_the_wrappers() -> None:
    """The module that training wrapped, not the wrapper."""
    net = nn.Linear(3, 3)
    assert EagerReference(nn.DataParallel(net)).module is net


class Cache(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen", torch.zeros(3))
        self.calls = 0

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        self.seen += x.sum(0)
        return self.seen


def test_a_sequence_keeps_the_state() -> None:
    """Each call starts from the state that the call before left; outputs are copies, although they are one buffer."""
    net = Cache()
    call = ((torch.ones(1, 3),), {})
    first, second = EagerReference(net).outputs([call, call])
    assert (first == 1).all()
    assert (second == 2).all()
    assert not net.seen.any()
    assert net.calls == 0


def test_observe() -> None:
    """Changes are named; those of the mode are omitted."""
    outputs, changes = EagerReference(Cache()).observe([((X,), {})])
    assert len(outputs) == 1
    assert {change.where for change in changes} == {"calls", "seen"}


def test_inputs_are_copies_and_distinct() -> None:
    """A forward that modifies its input modifies a copy; one object passed twice is two."""
    x = X.clone().requires_grad_()
    seen = []

    def forward(a: Tensor, b: Tensor, *, nested: dict[str, list[Tensor]]) -> Tensor:
        seen.extend([a, b, nested["k"][0]])
        return a.detach().mul_(0) + b

    (output,) = run(forward, [((x, x), {"nested": {"k": [x]}})])
    assert len({t.data_ptr() for t in (*seen, x)}) == 4
    assert all(t.requires_grad for t in seen)
    assert torch.equal(x, X)
    assert not output.requires_grad or output.is_leaf


def test_gradients_are_off_and_on_again() -> None:
    """Outputs have no graph; the mode of the caller is restored."""
    assert torch.is_grad_enabled()
    assert EagerReference(nn.Linear(3, 3)).output(((X,), {})).grad_fn is None
    assert torch.is_grad_enabled()


ON_A_GPU = """
import torch
from torch import nn
from pytest_exportready.analysis.execution import eager_reference
from pytest_exportready.analysis.execution.eager_reference import EagerReference
from pytest_exportready.analysis.execution.machine_faults import MachineFault

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.table, self.head = nn.Embedding(1000, 256), nn.Linear(256, 4)
    def forward(self, x):
        return self.head(self.table(x))

def call(size):
    return (torch.tensor([size], device="cuda"),), {}

reference = EagerReference(Net().cuda())
reference.output(call(1))  # the snapshot is made
held = torch.cuda.memory_allocated()
torch.cuda.reset_peak_memory_stats()
reference.try_on_host([call(2)])
print("more memory of the GPU:", torch.cuda.max_memory_allocated() - held > 2048)
try:
    reference.output(call(2000))
except IndexError as error:
    print(error)
print(reference.output(call(3)).device)

def no_memory(*_):
    raise MachineFault("the machine has too little free memory", "")

reference._on_host.outputs = no_memory
print(reference.output(call(4)).device)
"""


def test_a_call_on_a_gpu_is_made_on_the_host_first(pretended_cuda: PretendedCuda) -> None:
    """Without a second copy on the GPU; a host that has less memory than the GPU does not matter."""
    done = subprocess.run(
        [sys.executable, "-c", ON_A_GPU], env=pretended_cuda.environment(1), capture_output=True, text=True, check=True
    )
    expected = ["more memory of the GPU: False", "index out of range in self", "cuda:0", "cuda:0"]
    assert done.stdout.splitlines() == expected
