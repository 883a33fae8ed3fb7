"""Stage parity: a wrong program is found, a right one passes, and a comparison that cannot fail is reported."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from pytest_exportready import export_ready_check
from pytest_exportready.case.readiness import Readiness, StageResult

STAGES = ["parity"]
X = torch.linspace(-1.0, 1.0, 12).reshape(4, 3)


class Net(nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(3))
        self.function = function

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)


def check(function: Callable[..., Any], *inputs: Any, **options: Any) -> Readiness:
    return export_ready_check(Net(function).eval(), inputs or (X,), stages=STAGES, **options)


def codes(readiness: Readiness) -> list[str]:
    return [finding.code for finding in readiness.errors]


def parity(readiness: Readiness) -> StageResult:
    return next(stage for stage in readiness.stages if stage.name == "parity")


def traced(right: Callable[[Tensor], Any], wrong: Callable[[Tensor], Any]) -> Callable[[Tensor], Any]:
    """Return a function that is wrong while it is traced."""
    return lambda x: wrong(x) if torch.compiler.is_exporting() else right(x)


WRONG = {
    "zeros for a tiny output": traced(lambda x: x * 1e-9, lambda x: x * 0.0),
    "twice": traced(lambda x: x, lambda x: 2 * x),
    "shape": traced(lambda x: x[:, :1], lambda x: x[:, :1].expand(4, 4)),
    "dtype": traced(lambda x: x, lambda x: x.double()),
    "structure": traced(lambda x: (x, x), lambda x: (x,)),
    "python number": traced(lambda x: (x, 3), lambda x: (x, 4)),
    "one value in another place": traced(lambda x: x, lambda x: x.flip(0)),
    "NaN": traced(lambda x: x, lambda x: x.log()),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_program(name: str) -> None:
    readiness = check(WRONG[name])
    assert codes(readiness) == ["ER501"]
    assert "example inputs" in readiness.errors[0].message
    assert "tensor(" not in str(readiness)


def test_wrong_on_other_inputs_only() -> None:
    """A branch on a value that tracing resolved for the example: random inputs or more_inputs show it."""
    positive = X.abs() + 1

    def branch(x: Tensor) -> Tensor:
        if torch.compiler.is_exporting():
            return x * 2
        return x * 2 if torch.equal(x, positive) else x * 3

    assert "on random inputs" in check(branch, positive).errors[0].message
    more = [((-positive,), {})]
    assert "more_inputs[0]" in check(branch, positive, more_inputs=more).errors[0].message


def test_a_program_that_fails_where_the_module_runs() -> None:
    """The message names the inputs on which it fails."""

    def grows(x: Tensor) -> Tensor:
        torch._check(bool(x.shape[0] == 4))
        return x + 1

    more = [((torch.randn(5, 3),), {})]

    def tries(x: Tensor) -> Tensor:
        return grows(x) if x.shape[0] == 4 else x + 1

    readiness = check(tries, more_inputs=more)
    assert codes(readiness) == ["ER502"]
    assert "more_inputs[0]" in readiness.errors[0].message


def test_a_program_that_fails_names_operator_module_and_line() -> None:
    """A call that raised an exception while it was traced, and was caught, stays in the program."""

    class Tries(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            try:
                return x.view(7, 7)
            except RuntimeError:
                return x + 1

    model = nn.Sequential(nn.Linear(3, 3), Tries()).eval()
    (finding,) = export_ready_check(model, (torch.randn(4, 3),)).errors
    assert (finding.code, finding.where) == ("ER502", "1")
    assert (finding.file, finding.line) == (__file__, Tries.forward.__code__.co_firstlineno + 2)
    assert "at `aten::view`" in finding.message


VACUOUS = {
    "zeros": (lambda x: x * 0.0, "An all-zero output"),
    "integer zeros": (lambda x: (x > 5).long(), "An all-zero output"),
    "empty": (lambda x: x[:0], "An all-zero output"),
    "independent of the input": (lambda x: x * 0.0 + 1.0, "other inputs"),
}


@pytest.mark.parametrize("name", VACUOUS)
def test_a_comparison_that_cannot_fail(name: str) -> None:
    """The message names the wrong output that passes."""
    function, passes = VACUOUS[name]
    readiness = check(function)
    assert codes(readiness) == ["ER503"]
    assert passes in readiness.errors[0].message


def test_a_tolerance_that_accepts_everything() -> None:
    """The user's tolerance must reject zeros, too."""
    assert codes(check(lambda x: x, tolerance={"atol": 10.0})) == ["ER503"]
    assert codes(check(lambda x: x, tolerance={"atol": 1e-3})) == []


HEALTHY = {
    "tiny": lambda x: x * 1e-9,
    "dominated by a constant": lambda x: x * 1e-6 + 1.0,
    "constants": lambda x: (x, 3, None, torch.ones(2), "name"),
    "nested": lambda x: {"a": [x, (x * 2, {"b": x.sum()})]},
    "integers": lambda x: x.argsort(0),
    "complex": lambda x: torch.complex(x, x * 2),
    "bool": lambda x: x > 0,
    "infinite mask": lambda x: x.masked_fill(x > 0, float("-inf")),
    "the input itself": lambda x: x,
    "in place on the input": lambda x: x.mul_(2),
}


@pytest.mark.parametrize("name", HEALTHY)
def test_no_false_alarm(name: str) -> None:
    """Bitwise equal, on the example and on random inputs; the user's input is not modified."""
    kept = X.clone()
    readiness = check(HEALTHY[name], strict="both" if name in ("nested", "tiny") else False)
    assert readiness.ready, readiness
    equal = {"compared": 2, "bitwise": True, "largest": 0.0, "decibel": None, "cosine": 1.0}
    assert parity(readiness).facts == equal
    assert torch.equal(kept, X)


def test_constant_token_ids() -> None:
    """Random inputs that equal the example prove nothing; a mask of ones gets zeros."""
    table = torch.arange(8.0)
    assert check(lambda ids: table[ids], torch.zeros(2, 3, dtype=torch.long)).errors[0].code == "ER503"
    assert check(lambda ids: table[ids] + 1, torch.zeros(2, 3, dtype=torch.long)).ready
    assert check(lambda x, mask: x * mask, X, torch.ones(4, 3, dtype=torch.long)).ready


def test_dicts_in_another_order() -> None:
    """more_inputs with keys in another order are the same inputs."""
    more = [(({"b": X + 1, "a": X},), {"y": X, "x": X * 3})]

    def function(d: dict[str, Tensor], x: Tensor, y: Tensor) -> Tensor:
        return d["a"] * 2 + d["b"] * 3 + x * 5 + y * 7

    readiness = export_ready_check(
        Net(function).eval(), ({"a": X, "b": X + 2},), example_kwargs={"x": X - 1, "y": X * 2}, more_inputs=more
    )
    assert readiness.ready, readiness


def test_the_same_tensor_twice() -> None:
    """torch.export merges inputs that are one object; here each is copied, and a check reports it."""
    readiness = check(lambda a, b: a * 2 + b * 3, X, X, more_inputs=[((X, X + 1), {})])
    assert codes(readiness) == ["ER150"]
    assert parity(readiness).outcome == "passed"


class Cached(nn.Module):
    """A KV cache in a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("cache", torch.zeros(4, 3))
        self.linear = nn.Linear(3, 3)

    def forward(self, x: Tensor) -> Tensor:
        self.cache.add_(self.linear(x))
        return self.cache * 2


def test_state_is_compared_as_a_sequence() -> None:
    """Each call starts from the state that the call before left; the caches of module and program are restored."""
    net = Cached().eval()
    more = [((X + 1,), {}), ((X - 1,), {})]
    readiness = export_ready_check(net, (X,), more_inputs=more, stateful_calls=True, allow_mutation=True)
    assert readiness.ready, readiness
    assert parity(readiness).facts["compared"] == 3
    assert not net.cache.any()


def test_a_python_counter_in_the_sequence() -> None:
    """Tracing fixed the counter: call 2 differs."""

    class Counting(nn.Module):
        calls = 0

        def forward(self, x: Tensor) -> Tensor:
            self.calls += 1
            return x * self.calls

    options = {"more_inputs": [((X,), {})], "stateful_calls": True, "allow_mutation": True}
    readiness = export_ready_check(Counting().eval(), (X,), stages=STAGES, **options)
    assert codes(readiness) == ["ER501"]
    assert "call 2 of 2" in readiness.errors[0].message


def test_more_inputs_of_another_kind() -> None:
    """The eager module refuses them; the message names them."""
    readiness = check(lambda x: x @ torch.ones(3, 2), more_inputs=[((torch.randn(4, 5),), {})])
    assert codes(readiness) == ["ER502"]
    assert "more_inputs[0]" in readiness.errors[0].message


def test_a_size_that_forward_fixed() -> None:
    """Another input has another size of a dimension that is not dynamic; the finding names the dimension."""
    readiness = check(lambda x: x * math.log(x.shape[1]), X, more_inputs=[((torch.ones(4, 5),), {})])
    (finding,) = (finding for finding in readiness.errors if finding.code == "ER502")
    assert finding.where.endswith(".shape[1]")
    assert "Declare the dimension dynamic" in finding.fix


def test_the_fast_path_of_transformer_encoder() -> None:
    """In eager mode it zeroes padded positions, the program does not; the fix names the argument."""
    torch.manual_seed(0)

    class Encoder(nn.Module):
        def __init__(self, nested: bool) -> None:
            super().__init__()
            layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
            self.encoder = nn.TransformerEncoder(layer, 1, enable_nested_tensor=nested)

        def forward(self, x: Tensor, padding: Tensor) -> Tensor:
            return self.encoder(x, src_key_padding_mask=padding)

    inputs = torch.randn(2, 3, 8), torch.tensor([[False] * 3, [False, False, True]])
    (finding,) = export_ready_check(Encoder(True).eval(), inputs, stages=STAGES).errors
    assert finding.code == "ER501"
    assert "enable_nested_tensor=False" in finding.fix
    assert export_ready_check(Encoder(False).eval(), inputs, stages=STAGES).ready
