"""Every tensor that the program contains has a form that `torch.export.save` can write.

Why it matters:
    Strided tensors can be written, including complex and 8-bit floating-point ones. A program with a sparse
    or MKL-DNN buffer exports and then cannot be saved; a quantized or nested buffer cannot be traced. Neither
    message names the tensor.

Example:
    class Graph(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("adjacency", torch.eye(3).to_sparse())

        def forward(self, x):
            return self.adjacency @ x

    export_ready_check(Graph(), (torch.ones(3, 2),))

Instead:
    class Graph(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("adjacency", torch.eye(3))

        def forward(self, x):
            return self.adjacency @ x

    export_ready_check(Graph(), (torch.ones(3, 2),))

Severity:
    error: a sparse, MKL-DNN, quantized or nested parameter, buffer or attribute that `forward` reads.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import torch
from torch import nn

from pytest_exportready.analysis.module.plain_tensor_attributes import plain_tensor_attributes
from pytest_exportready.case.finding import Finding, Rule
from pytest_exportready.case.wording import few
from pytest_exportready.checks._check import Check, Subject

RULE = Rule("ER212", "tensors_can_be_saved")

FIXES = {
    "sparse": "Store indices and values as buffers and build the sparse tensor in `forward`, or call `.to_dense()`.",
    "quantized": "Store `int_repr()` and the scale as buffers and dequantize in `forward`, or quantize with torchao.",
    "nested": "Store values and offsets as two buffers.",
    "MKL-DNN": "Call `.to_dense()`.",
}


def inspect(subject: Subject) -> Iterator[Finding]:
    model = subject.module
    tensors = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    tensors |= {entry.name: entry.tensor for entry in plain_tensor_attributes(model) if not entry.handled}
    kinds = {name: kind for name, tensor in tensors.items() if (kind := _kind(tensor))}
    for kind in dict.fromkeys(kinds.values()):
        names = [name for name in kinds if kinds[name] == kind]
        yield RULE.error(names[0], f"`torch.export` cannot save {kind} tensors: {few(names)}.", FIXES[kind])


def _kind(tensor: torch.Tensor) -> str:
    if tensor.is_nested:
        return "nested"
    if tensor.is_quantized:
        return "quantized"
    if tensor.layout is torch.strided:
        return ""
    return "sparse" if "sparse" in str(tensor.layout) else "MKL-DNN"


def _quantized() -> torch.Tensor:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # newer torch deprecates these tensors
        return torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.qint8)


def _net(buffer: torch.Tensor) -> Subject:
    model = nn.Linear(2, 2).eval()
    model.register_buffer("table", buffer)
    return Subject(model, (torch.ones(1, 2),))


CHECK = Check(
    rule=RULE,
    inspect=inspect,
    good=(lambda: _net(torch.ones(2, dtype=torch.complex64)), lambda: _net(torch.ones(2).to(torch.float8_e4m3fn))),
    bad=(
        lambda: _net(torch.eye(2).to_sparse()),
        lambda: _net(_quantized()),
    ),
)
