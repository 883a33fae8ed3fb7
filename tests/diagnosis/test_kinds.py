"""Every kind of failed export: the diagnosis that it gets, in both modes, and the place that is named."""

from __future__ import annotations

import copy
import io
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim
from torch.nn import functional
from torch.nn.parallel import DataParallel
from torch.utils.checkpoint import checkpoint

from pytest_exportready.diagnosis import UNCLASSIFIED, all_diagnoses

X = torch.linspace(0.1, 1.0, 12).reshape(3, 4)
Diagnosed = Callable[..., Any]


class Net(nn.Module):
    def __init__(self, function: Callable[..., Any], **attributes: Any) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.function = function
        for name, value in attributes.items():
            setattr(self, name, value)

    def forward(self, *inputs: Any) -> Any:
        return self.function(self, *inputs)


def net(function: Callable[..., Any], **attributes: Any) -> nn.Module:
    return Net(function, **attributes).eval()


def with_backward_hook() -> nn.Module:
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    model[0].register_full_backward_hook(lambda *_: None)
    return model.eval()


@torch.inference_mode()
def within_inference_mode() -> nn.Module:
    return net(lambda s, x: s.linear(x))


class Record:
    def __init__(self, x: Tensor) -> None:
        self.x = x


@torch.library.custom_op("exportready_test::no_fake", mutates_args=())
def no_fake(x: Tensor) -> Tensor:
    return x * 2


@torch.library.custom_op("exportready_test::bad_fake", mutates_args=())
def bad_fake(x: Tensor) -> Tensor:
    return x * 2


@bad_fake.register_fake
def _(x: Tensor) -> Tensor:
    return torch.empty_like(x) if x.data_ptr() else x


def saved(self: Any, x: Tensor) -> Tensor:
    file = io.BytesIO()
    torch.save(x, file)
    return x


def gradient(self: Any, x: Tensor) -> Tensor:
    x = x.detach().requires_grad_()
    return torch.autograd.grad(x.square().sum(), x)[0]


def layer_gradient(self: Any, x: Tensor) -> Tensor:
    x = x.clone().requires_grad_()
    return torch.autograd.grad(self.linear(x).sum(), x, create_graph=True)[0]


def written(self: Any, x: Tensor) -> Tensor:
    self.linear.weight.data = self.linear.weight.data * 2
    return self.linear(x)


def new_parameter(self: Any, x: Tensor) -> Tensor:
    self.scale = nn.Parameter(torch.ones(4))
    return x * self.scale


def missing_package(self: Any, x: Tensor) -> Tensor:
    import no_such_package_at_all  # noqa: F401

    return x


@dataclass
class Kind:
    """A failure: its model, the code in non-strict and in strict mode (empty where the export succeeds), the place."""

    build: Callable[[], nn.Module]
    free: str
    strict: str
    where: str = ""
    line: bool = True
    args: tuple[Any, ...] = (X,)
    shapes: Any = None


KINDS = {
    "wrapper inside": Kind(
        lambda: nn.Sequential(DataParallel(nn.Linear(4, 4))).eval(), "", "", line=False
    ),
    "compiled with dynamic shapes": Kind(
        lambda: torch.compile(nn.Linear(4, 4), backend="eager").eval(),
        "ER410", "ER410", "(root)", line=False, shapes={"input": {0: Dim("batch")}},
    ),
    "scripted": Kind(
        lambda: net(lambda s, x: s.part(x), part=torch.jit.script(nn.Linear(4, 4))), "ER411", "ER411", "part"
    ),
    "lazy": Kind(lambda: nn.Sequential(nn.LazyLinear(4)).eval(), "ER412", "", "0", line=False),
    "backward hook": Kind(with_backward_hook, "", "ER413", "0", line=False),
    "scaler": Kind(lambda: net(lambda s, x: s.scaler.scale(x), scaler=torch.amp.GradScaler("cpu")), "", "ER414"),
    "checkpointing": Kind(lambda: net(lambda s, x: checkpoint(s.linear, x, use_reentrant=False)), "", "ER404"),
    "device of an attribute": Kind(
        lambda: net(lambda s, x: x + s.table[0], table=[torch.ones(4, device="meta")]),
        "ER415", "ER415", "table[0] (meta)",
    ),
    "device of a factory": Kind(lambda: net(lambda s, x: x + torch.ones(4, device="meta")), "ER415", "ER415"),
    "dtypes of a product": Kind(lambda: net(lambda s, x: x[None] @ s.linear.weight[None].half()), "ER416", "ER416"),
    "dtypes of attention": Kind(
        lambda: net(lambda s, x: functional.scaled_dot_product_attention(x[None], x[None].half(), x[None])),
        "ER416", "ER416",
    ),
    "dtypes of a scatter": Kind(
        lambda: net(lambda s, x: torch.zeros(3, 4).half().scatter(0, torch.zeros(1, 4).long(), x)), "ER416", "ER416"
    ),
    "dtype of a recurrent net": Kind(lambda: net(lambda s, x: s.part(x.double())[0], part=nn.GRU(4, 4)), "ER416", ""),
    "dtype of indices": Kind(lambda: net(lambda s, x: s.part(x), part=nn.Embedding(4, 4)), "ER416", "ER416"),
    "sorted tensors": Kind(lambda: net(lambda s, x: torch.stack(sorted(x.flatten().unbind()))), "ER401", "ER401"),
    "no fake kernel": Kind(lambda: net(lambda s, x: no_fake(x)), "ER417", "ER417", "exportready_test::no_fake"),
    "quantised": Kind(
        lambda: net(lambda s, x: x + torch.nested.nested_tensor([x, x]).to_padded_tensor(0.0)[0]), "ER417", "ER417"
    ),
    "fake kernel reads data": Kind(lambda: net(lambda s, x: bad_fake(x)), "ER418", "ER418"),
    "operator not loaded": Kind(lambda: net(lambda s, x: torch.ops.nowhere.op(x)), "ER419", "ER419", "nowhere::op"),
    "numpy": Kind(lambda: net(lambda s, x: torch.from_numpy(x.numpy())), "ER420", ""),
    "pickle": Kind(lambda: net(saved), "ER420", "ER427"),
    "pointer": Kind(lambda: net(lambda s, x: x * x.data_ptr()), "ER420", "ER427"),
    "data of a parameter": Kind(lambda: net(written), "ER421", "", line=False),
    "new parameter": Kind(lambda: net(new_parameter), "", "ER421"),
    "gradients": Kind(lambda: net(gradient), "", "ER422"),
    "gradients of a layer": Kind(lambda: net(layer_gradient), "ER422", "ER422", line=False),
    "branches of other dtypes": Kind(
        lambda: net(lambda s, x: torch.cond(x.sum() > 0, lambda t: t.double(), lambda t: t * 1, (x,))), "ER423", "ER423"
    ),
    "package": Kind(lambda: net(missing_package), "ER424", "ER424"),
    "output class": Kind(
        lambda: net(lambda s, x: {"y": x * 2, "past": [Record(x)]}),
        "ER426", "ER426", "output['past'][0] (class Record)",
        line=False,
    ),
    "output set": Kind(lambda: net(lambda s, x: {x * 2}), "ER426", "ER426", "(class set)", line=False),
    "input class": Kind(
        lambda: net(lambda s, batch: batch["a"][0].x * 2), "ER402", "ER402", "class Record", line=False,
        args=({"a": [Record(X)]},),
    ),
    "inference mode": Kind(within_inference_mode, "ER431", "", "linear.weight, linear.bias", line=False),
    "clock": Kind(lambda: net(lambda s, x: x + time.time() * 0), "", "ER427"),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("name", KINDS)
def test_the_kind_and_its_place(name: str, strict: bool, diagnosed: Diagnosed) -> None:
    """Code, module or operator or argument, the line in this file, something to write, and no tensor contents."""
    kind = KINDS[name]
    code = kind.strict if strict else kind.free
    finding = diagnosed(kind.build(), *kind.args, strict=strict, dynamic_shapes=kind.shapes)
    if not code:
        assert finding is None or finding.code != UNCLASSIFIED.code
        return
    assert finding is not None
    assert finding.code == code
    assert kind.where in finding.where
    assert finding.fix
    assert "tensor(" not in str(finding)
    if kind.line or strict:
        assert finding.file == __file__ or not kind.line


@pytest.mark.filterwarnings("ignore")
def test_fakes_of_an_earlier_trace(diagnosed: Diagnosed) -> None:
    """A FakeTensor left on the module is named."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        left = torch.zeros(4)
    finding = diagnosed(net(lambda s, x: x + s.cache, cache=left), X)
    assert finding is None or (finding.code, finding.where) == ("ER425", "cache")


def test_an_unknown_failure_comes_with_its_reproducer(diagnosed: Diagnosed) -> None:
    """unclassified, the line, and the call that raises it, with zeros for the inputs."""

    def odd(self: Any, x: Tensor) -> Tensor:
        if torch.compiler.is_exporting():
            return functional.interpolate(x[None], size=3, mode="odd")
        return x

    finding = diagnosed(net(odd), X)
    assert finding.code == UNCLASSIFIED.code
    assert finding.message.startswith("torch.export (non-strict) raised NotImplementedError")
    assert finding.torch_says.startswith("NotImplementedError: Input Error")
    assert finding.file == __file__
    assert finding.fix.endswith("`torch.export.export(model, (torch.zeros(3, 4),), {}, strict=False)`.")


def test_weights_in_an_error_message_stay_out(diagnosed: Diagnosed) -> None:
    """A message of the user's that prints a parameter, or its numbers, is told without them."""
    weight = torch.full((4,), 0.12345)

    def complains(self: Any, x: Tensor) -> Tensor:
        if torch.compiler.is_exporting():
            raise ValueError(f"bad weights {weight} {weight.tolist()} {nn.Parameter(weight)}")
        return x

    assert "0.1234" not in str(diagnosed(net(complains), X))


def test_what_hides_others_is_asked_first() -> None:
    """Wrappers before everything else; any Python that cannot be traced at the very end."""
    names = list(all_diagnoses())
    assert set(names[:4]) >= {"training_wrapper", "scripted_module"}
    assert names[-1] == "untraceable_python"


def test_a_healthy_copy_has_no_diagnosis(diagnosed: Diagnosed) -> None:
    assert diagnosed(copy.deepcopy(net(lambda s, x: s.linear(x))), X, dynamic_shapes=None) is None
