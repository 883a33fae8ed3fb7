"""preserve: after the block the module is what it was, whatever happened to it."""

from __future__ import annotations

import copy
from collections import Counter, OrderedDict, deque
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
from torch import nn

from pytest_exportready.analysis.module.snapshot import preserved


@dataclass
class Cache:
    steps: int = 0
    keys: list[torch.Tensor] = field(default_factory=list)


class Net(nn.Module):
    """Everything that a module can carry."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(3, 3)
        self.second = nn.Linear(3, 3)
        self.second.weight = self.first.weight
        self.norm = nn.BatchNorm1d(3)
        self.hidden = [nn.Linear(3, 3)]
        self.aliases = [self.first.weight, self.norm.running_mean]
        self.register_buffer("table", torch.arange(6.0).reshape(2, 3))
        self.row = self.table[1]
        self.calls, self.ratio, self.label = 0, 0.5, "a"
        self.seen = {"a", "b"}
        self.order = OrderedDict(a=1, b=2)
        self.counts = Counter(a=1)
        self.last = deque([1, 2], maxlen=2)
        self.cache = Cache(keys=[torch.zeros(2)])
        self.derived = self.first.weight * 2

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(self.second(self.first(x)))


def picture(value: Any, seen: dict[int, Any] | None = None) -> Any:
    """Everything that can be seen of a module, with identities and in order."""
    seen = {} if seen is None else seen
    if id(value) in seen:
        return ("again", id(value))
    seen[id(value)] = value
    if isinstance(value, torch.Tensor):
        grad = value.grad if value.is_leaf else None
        own = (
            type(value),
            id(value),
            value.data_ptr(),
            value.stride(),
            value.detach().tolist(),
            value.requires_grad,
        )
        return (*own, picture(grad, seen), {k: picture(v, seen) for k, v in value.__dict__.items()})
    if isinstance(value, dict):
        return (type(value), id(value), [(key, picture(item, seen)) for key, item in value.items()])
    if isinstance(value, (list, tuple, deque)):
        return (type(value), id(value), [picture(item, seen) for item in value])
    if isinstance(value, set):
        return (id(value), sorted(value))
    if isinstance(value, (nn.Module, Cache)):
        return (type(value), id(value), {key: picture(item, seen) for key, item in value.__dict__.items()})
    return value


def train(net: Net) -> None:
    net.train()
    for parameter in net.parameters():
        parameter.requires_grad_(True)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    net(torch.randn(4, 3)).sum().backward()
    optimizer.step()


def clear(net: Net) -> None:
    for container in (
        net.hidden,
        net.aliases,
        net.seen,
        net.order,
        net.counts,
        net.last,
        net._buffers,
        net._modules,
    ):
        container.clear()


def replace_modules(net: Net) -> None:
    net.first, net.norm = nn.Linear(3, 5), nn.Identity()
    del net.second
    net.extra = nn.ReLU()


CHANGES = {
    "training": train,
    "modes": lambda net: net.hidden[0].train(not net.hidden[0].training),
    "data written": lambda net: net.first.weight.data.fill_(7),
    "data re-assigned": lambda net: setattr(net.first.weight, "data", torch.ones(3, 3)),
    "data transposed in place": lambda net: setattr(net.first.weight, "data", net.first.weight.data.t()),
    "data of another dtype": lambda net: net.half(),
    "data of another shape": lambda net: setattr(net.first.weight, "data", net.first.weight.data[:2]),
    "buffer re-assigned": lambda net: setattr(net, "table", torch.zeros(1)),
    "buffer written": lambda net: net.norm.running_mean.add_(1),
    "buffer with a graph": lambda net: net.norm.running_var.mul_(net.first.weight.sum()),
    "view written": lambda net: net.row.fill_(9),
    "view re-assigned": lambda net: setattr(net.row, "data", torch.zeros(3)),
    "plain attributes": lambda net: net.__dict__.update(calls=3, ratio=1.0, label="b", new=1),
    "attribute deleted": lambda net: delattr(net, "calls"),
    "tie broken": lambda net: setattr(net.second, "weight", nn.Parameter(torch.zeros(3, 3))),
    "hidden module": lambda net: net.hidden[0].weight.data.zero_(),
    "list": lambda net: net.aliases.reverse(),
    "set": lambda net: net.seen.add("c"),
    "dict order": lambda net: net.order.move_to_end("a"),
    "counter": lambda net: net.counts.update("aab"),
    "deque": lambda net: net.last.append(3),
    "all containers emptied": clear,
    "cache object": lambda net: (
        setattr(net.cache, "steps", 5),
        net.cache.keys[0].fill_(1),
        net.cache.keys.append(1),
    ),
    "non-leaf attribute": lambda net: net.derived.detach().zero_(),
    "forward patched": lambda net: setattr(net, "forward", lambda x: x),
    "class changed": lambda net: setattr(net.first, "__class__", nn.Bilinear),
    "modules replaced": replace_modules,
    "gradient set": lambda net: setattr(net.first.weight, "grad", torch.ones(3, 3)),
    "gradient accumulated": lambda net: net.first.bias.grad.add_(1),
    "gradient dropped": lambda net: net.zero_grad(set_to_none=True),
    "requires_grad": lambda net: net.requires_grad_(False),
    "attribute of a tensor": lambda net: setattr(net.first.weight, "_dynamo_dynamic_indices", {0}),
    "attribute of a tensor written": lambda net: net.norm.weight.marks.add(1),
}


@pytest.mark.parametrize("change", CHANGES)
def test_every_change_is_undone(change: str) -> None:
    """Identity, order, data, memory, gradients, flags: all as before."""
    net = Net()
    net.first.bias.grad = torch.zeros(3)
    net.norm.weight.marks = set()
    net.norm.weight.scale = torch.ones(2)
    before = copy.deepcopy(picture(net, {}), {id(net): net})
    with preserved(net):
        CHANGES[change](net)
        assert picture(net, {}) != before
    assert picture(net, {}) == before


def test_after_an_exception_and_nested() -> None:
    """The inner block restores to what it found, the outer one to what came before, whatever is raised."""
    net = nn.Linear(2, 2)
    start = net.weight.detach().clone()

    def change() -> None:
        with preserved(net):
            net.weight.data.fill_(1)
            with preserved(net):
                net.weight.data.fill_(2)
            assert (net.weight == 1).all()
            raise KeyError

    with pytest.raises(KeyError):
        change()
    assert torch.equal(net.weight, start)


def test_freed_storage_is_filled_again() -> None:
    """A sharding library frees the memory behind a parameter: it comes back, elsewhere, with its data."""
    net = nn.Linear(2, 2)
    start = net.weight.detach().clone()
    with preserved(net):
        net.weight.untyped_storage().resize_(0)
    assert torch.equal(net.weight, start)


def test_hooks_come_and_go() -> None:
    """Hooks registered inside are gone, hooks removed inside are back: of modules and of tensors."""
    net = Net()
    calls: list[str] = []
    net.first.register_forward_hook(lambda *_: calls.append("forward"))
    net.first.weight.register_hook(lambda _: calls.append("old"))
    with preserved(net):
        net.first._forward_hooks.clear()
        net.second.register_forward_pre_hook(lambda *_: calls.append("new"))
        net.first.weight._backward_hooks.clear()
        net.first.bias.register_hook(lambda _: calls.append("new"))
        net.first.bias.register_post_accumulate_grad_hook(lambda _: calls.append("new"))
    net(torch.randn(2, 3)).sum().backward()
    assert calls == ["forward", "old"]


def test_fake_tensors_of_an_export_are_removed() -> None:
    """Non-strict export leaves a FakeTensor on this module: changes() reports it, the block removes it."""

    class Caching(nn.Module):
        last = None

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.last = x * 2
            return self.last + 1

    net = Caching()
    with preserved(net) as state:
        with pytest.warns(UserWarning, match="last"):
            torch.export.export(net, (torch.randn(2),))
        net.seen = torch.zeros(1)
        assert "seen" in [change.where for change in state.changes()]
    assert "last" not in vars(net)
    assert "seen" not in vars(net)


def test_changes_are_reported_by_name() -> None:
    """Written, set, added and removed, each with its qualified name; nothing when nothing changed."""
    net = Net()
    with preserved(net) as state:
        assert state.changes() == []
        net.norm.running_mean.add_(1)
        net.calls += 1
        net.cache.steps += 1
        net.new = 1
        del net.ratio
        net.last.append(3)
        reported = {(change.where, change.what) for change in state.changes()}
    named = {
        ("calls", "set"),
        ("cache.steps", "set"),
        ("new", "added"),
        ("ratio", "removed"),
        ("last", "set"),
    }
    assert named <= reported
    assert any(what == "written" for _, what in reported)
