"""Real models: the distance of ``to_precision`` from float32 and from autocast, and what is said about devices.

Run by hand, with the extra ``zoo``: ``python tests/zoo/precision_and_devices.py``. A line a model: relative L2 distance
to float32 in float16 and bfloat16 (limits 2e-3 and 2e-2 for resnet18 and bert), ``autocast`` if the output is
autocast's to the bit, ``reloaded`` where it is the same after saving; then the lines that take another way on cuda and
the tensors that stay behind (there are none), and whether the freed program runs on the meta device.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterator

import torch
import torchvision
from torch import Tensor, nn
from transformers import BertConfig, BertModel

from pytest_exportready import precision_report, purify_devices, to_precision
from pytest_exportready.analysis.execution.detectors.device_branches import branches
from pytest_exportready.analysis.execution.detectors.hardcoded_devices import hardcoded_tensors

CPU, CUDA = torch.device("cpu"), torch.device("cuda")


class Bert(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        sizes = {"hidden_size": 64, "num_hidden_layers": 4, "num_attention_heads": 4, "intermediate_size": 128}
        self.bert = BertModel(BertConfig(vocab_size=99, **sizes))

    def forward(self, ids: Tensor) -> Tensor:
        return self.bert(ids).last_hidden_state


def models() -> Iterator[tuple[str, nn.Module, Tensor]]:
    for name in ("resnet18", "mobilenet_v3_small", "swin_t"):
        yield name, calibrated(torchvision.models.get_model(name)), torch.randn(2, 3, 224, 224)
    yield "bert", Bert(), torch.arange(24).reshape(2, 12)


def calibrated(model: nn.Module) -> nn.Module:
    """With statistics of its own in place of those that no training has set: the outputs would vanish."""
    for norm in (m for m in model.modules() if isinstance(m, nn.BatchNorm2d)):
        norm.momentum = None
    with torch.no_grad():
        for _ in range(2):
            model.train()(torch.randn(8, 3, 224, 224))
    return model


def line(name: str, model: nn.Module, x: Tensor) -> str:
    program = torch.export.export(model.eval(), (x,))
    exact = model(x)
    words = [f"{name:20}"]
    for dtype in (torch.float16, torch.bfloat16):
        lowered = to_precision(program, dtype)
        file = io.BytesIO()
        torch.export.save(lowered, file)
        file.seek(0)
        given = lowered.module()(x)
        with torch.autocast("cpu", dtype):
            autocast = model(x).float()
        words.append(f"{dtype} {float((given - exact).norm() / exact.norm()):.2e}")
        words.append("autocast" if torch.equal(given, autocast) else "")
        words.append("reloaded" if torch.equal(given, torch.export.load(file).module()(x)) else "NOT RELOADED")
        words.append(f"at risk {len(precision_report(program, dtype).at_risk)}")
    away = [branches(model, ((x,), {}), CPU, CUDA), hardcoded_tensors(model, (x,), {}, CUDA)]
    moved = purify_devices(program).module().to("meta")(x.to("meta"))
    return "  ".join([*words, str(away), f"freed: {moved.device}"])


if __name__ == "__main__":
    torch.manual_seed(0)
    warnings.simplefilter("ignore")
    with torch.no_grad():
        for each in models():
            print(line(*each), flush=True)
