"""source: branches written anew where nothing can go wrong, refused where something could."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from pytest_exportready.analysis.source.branch_rewriter import CannotRewrite, rewritten
from pytest_exportready.analysis.source.source_edit import difference, edited, replaced
from pytest_exportready.analysis.source.value_dependent_lines import suspects

X = torch.linspace(-1.0, 1.0, 12).reshape(4, 3)
Forward = Callable[..., Any]


class Base(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(3, 3), nn.Linear(3, 3)
        self.inplace, self.norm = nn.ReLU(inplace=True), nn.BatchNorm1d(3)
        self.drop, self.own = nn.Dropout(), Prints()
        self.history: list[Tensor] = []


class Prints(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        print("here")
        return x


def model(forward: Forward) -> nn.Module:
    made: nn.Module = type("Net", (Base,), {"forward": forward})()
    return made.eval()


def lines(module: nn.Module) -> list[str]:
    """Of forward, with every branch written anew."""
    sites = [suspect for suspect in suspects(module, (X,), {}) if suspect.what == "branch"]
    return edited(sites[0].source, rewritten(sites))


def assigned(self: Any, x: Tensor) -> Tensor:
    if x.sum() > 0:  # noqa: SIM108
        y = x * 2
    else:
        y = x - 1
    return y


def kept(self: Any, x: Tensor) -> Tensor:
    if not x.max() > 3:
        x = -x
    return x


def two_names(self: Any, x: Tensor) -> Any:
    y = x * 0
    if x.min().item() > 0:
        y, x = y + 1, y
    return x, y


def both_names(self: Any, x: Tensor) -> Any:
    y = z = x * 3
    if x.min() > 0:
        y = y + 1
        z = z * 2
    return y, z


def returns(self: Any, x: Tensor) -> Tensor:
    """Several, one behind the other."""
    if x.sum() > 1:
        return torch.relu(x)
    if x.sum() < -1:
        return -x
    return x * 0.5


def chain(self: Any, x: Tensor) -> Tensor:
    if x.sum() > 1 and not x.max() > 9:
        y = x + 1
    elif bool(x.sum() < -1):
        y = x - 1
    else:
        y = x
    return y


def ternary(self: Any, x: Tensor) -> Tensor:
    größe = "é" and 2.0  # bytes are no characters
    return self.first(1.0 * (x if x.mean() > 0 else größe * x))


def division(self: Any, x: Tensor) -> Tensor:
    n = x.sum()
    return x / n if n > 0 else x


def layers(self: Any, x: Tensor) -> Tensor:
    return self.first(x) if x.mean() > 0 else self.norm(self.second(x))


def indexed(self: Any, x: Tensor) -> Tensor:
    return x[:, [0, 1, 1]] if x.mean() > 0 else x


WHERE = {
    assigned: "    y = torch.where(x.sum() > 0, x * 2, x - 1)",
    kept: "    x = torch.where(x.max() > 3, x, -x)",
    both_names: "    z = torch.where(x.min() > 0, z * 2, z)",
    returns: "    return torch.where(x.sum() > 1, torch.relu(x), torch.where(x.sum() < -1, -x, x * 0.5))",
    chain: "    y = torch.where(torch.logical_and(x.sum() > 1, torch.logical_not(x.max() > 9)), x + 1, "
    "torch.where(x.sum() < -1, x - 1, x))",
    ternary: "    return self.first(1.0 * (torch.where(x.mean() > 0, x, größe * x)))",
    division: "    return torch.cond(n > 0, lambda n, x: x / n, lambda n, x: x.clone(), (n, x))",
    layers: "    return torch.cond(x.mean() > 0, lambda x: self.first(x), lambda x: self.norm(self.second(x)), (x,))",
    indexed: "    return torch.cond(x.mean() > 0, lambda x: x[:, [0, 1, 1]], lambda x: x.clone(), (x,))",
}


@pytest.mark.parametrize("forward", WHERE, ids=lambda forward: forward.__name__)
def test_written_anew(forward: Forward) -> None:
    """torch.where for what has a value everywhere, torch.cond for what has not; the same answers both ways."""
    module = model(forward)
    new = lines(module)
    assert WHERE[forward] in "".join(new).splitlines()
    source = suspects(module, (X,), {})[0].source
    inputs = [X, X + 2, X - 2]
    with torch.no_grad():
        expected = [module(x) for x in inputs]
        with replaced(source, new):
            found = [module(x) for x in inputs]
        torch.testing.assert_close(found, expected)
        torch.testing.assert_close([module(x) for x in inputs], expected)  # put back


def attribute_written(self: Any, x: Tensor) -> Tensor:
    if x.sum() > 0:
        self.scale = 2.0
        x = x * 2
    return x


def list_grown(self: Any, x: Tensor) -> Tensor:
    return self.history.append(x) or x if x.sum() > 0 else -x


def in_place(self: Any, x: Tensor) -> Tensor:
    return x.mul_(2) if x.sum() > 0 else x


def augmented(self: Any, x: Tensor) -> Tensor:
    if x.sum() > 0:
        x += 1
    return x


def inplace_module(self: Any, x: Tensor) -> Tensor:
    return self.inplace(x) if x.sum() > 0 else -x


def inplace_argument(self: Any, x: Tensor) -> Tensor:
    return functional.relu(x, inplace=True) if x.sum() > 0 else -x


def random_numbers(self: Any, x: Tensor) -> Tensor:
    return x + torch.rand_like(x) if x.sum() > 0 else x


def dropped(self: Any, x: Tensor) -> Tensor:
    return functional.dropout(x) if x.sum() > 0 else -x


def prints(self: Any, x: Tensor) -> Tensor:
    return self.own(x) if x.sum() > 0 else -x


def raises(self: Any, x: Tensor) -> Tensor:
    if x.isnan().any():
        raise ValueError
    return x


def chained(self: Any, x: Tensor) -> Tensor:
    return x if 0 < x.sum() < 1 else -x


def short_circuit(self: Any, x: Tensor) -> Tensor:
    """The second is asked for only where the first holds."""
    return x if x.sum() > 0 and 1 / x.sum() > 1 else -x


def out_of_a_loop(self: Any, x: Tensor) -> Tensor:
    for layer in (self.first, self.second):
        x = layer(x)
        if x.max() > 0:
            return x
    return x


def dependent(self: Any, x: Tensor) -> Any:
    y = x
    if x.sum() > 0:
        y = x + 1
        x = y * 2
    return x, y


def asserts(self: Any, x: Tensor) -> Tensor:
    assert x.sum() > 0
    return x


def loops(self: Any, x: Tensor) -> Tensor:
    while x.sum() > 1:
        x = x / 2
    return x


REFUSED = [attribute_written, list_grown, in_place, augmented, inplace_module, inplace_argument, random_numbers,
           dropped, prints, raises, chained, short_circuit, out_of_a_loop, dependent, asserts, loops,
           two_names]  # fmt: skip


@pytest.mark.parametrize("forward", REFUSED, ids=lambda forward: forward.__name__)
def test_refused(forward: Forward) -> None:
    with pytest.raises(CannotRewrite):
        lines(model(forward))


def test_modules_in_training_mode_are_refused() -> None:
    module = model(layers)
    lines(module)
    module.norm.train()  # type: ignore[union-attr]
    with pytest.raises(CannotRewrite):
        lines(module)


def test_the_difference_is_one_of_the_file() -> None:
    """Its lines and numbers are those of this file; what it does not touch stays."""
    source = suspects(model(kept), (X,), {})[0].source
    patch_text = difference(source, lines(model(kept)), 1).splitlines()
    first = kept.__code__.co_firstlineno
    assert patch_text[0].startswith("--- ")
    assert patch_text[0].endswith("test_branch_rewriter.py")
    assert patch_text[2] == f"@@ -{first},4 +{first},3 @@"
    assert patch_text[3:] == [
        " def kept(self: Any, x: Tensor) -> Tensor:",
        "-    if not x.max() > 3:",
        "-        x = -x",
        "+    x = torch.where(x.max() > 3, x, -x)",
        "     return x",
    ]


class Parent(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x


def test_a_method_keeps_its_class_and_what_it_closes_over() -> None:
    """super(), private names and variables of the function around."""
    factor = 3.0

    class Child(Parent):
        __hidden = 2.0

        def forward(self, x: Tensor) -> Tensor:
            y = super().forward(x)
            if x.sum() > 0:
                y = y * factor + self.__hidden
            return y

    module = Child().eval()
    source = suspects(module, (X,), {})[0].source
    expected = [module(X + 2), module(X - 2)]
    with replaced(source, lines(module)):
        assert "torch.where" in "".join(lines(module))
        torch.testing.assert_close([module(X + 2), module(X - 2)], expected)
