"""The kinds of the results of methods and functions of torch."""

from __future__ import annotations

import torch

from pytest_exportready.analysis.source.abstract_values import (
    LOOSE,
    MASK,
    NUMBER,
    PYTHON,
    TENSOR,
    TENSORS,
    UNKNOWN,
    Kind,
)

VALUES = {"item": ".item()", "tolist": ".tolist()", "numpy": ".numpy()", "equal": "equal", "allclose": "allclose"}
SIZED_BY_VALUES = frozenset({"nonzero", "argwhere", "unique", "unique_consecutive", "masked_select", "bincount"})
_SIZES = {"size", "dim", "ndimension", "numel", "nelement", "stride", "element_size", "data_ptr", "get_device"}
_SIZES |= {"storage_offset", "type", "typename", "result_type", "can_cast", "promote_types", "finfo", "iinfo"}
_SIZES |= {"get_default_dtype", "broadcast_shapes"}
_SEVERAL = frozenset(
    ("chunk split unbind tensor_split hsplit vsplit dsplit split_with_sizes meshgrid unique_dim").split()  # noqa: SIM905
)
_PAIRS = frozenset(
    ("max min sort topk median mode kthvalue cummax cummin aminmax frexp svd qr eigh slogdet").split()  # noqa: SIM905
)
_MASKS = frozenset(
    ("isnan isinf isfinite isclose eq ne lt le gt ge logical_not logical_and logical_or isin bool").split()  # noqa: SIM905
)
_ATTRIBUTES = frozenset({"T", "mT", "H", "mH", "data", "grad", "real", "imag"})
_MODULES = ("torch", "torch.nn.functional", "torch._C._nn", "torch._C._linalg", "torch.functional", "torch._C._fft")


def attribute(owner: Kind, name: str) -> Kind:
    """Return the kind of an attribute of a tensor."""
    if owner is LOOSE and name == "shape":
        return NUMBER
    if name in _ATTRIBUTES:
        return TENSOR
    return PYTHON if hasattr(torch.Tensor, name) and not callable(getattr(torch.Tensor, name)) else UNKNOWN


def method(name: str, arguments: int, owner: Kind = TENSOR) -> Kind:
    """Return the kind of the result of a tensor method, or of the torch function of that name."""
    if name in VALUES or (owner is LOOSE and name in ("size", "numel", "nelement")):
        return NUMBER
    if name in SIZED_BY_VALUES:
        return LOOSE
    if name in _MASKS:
        return MASK
    if name in _SIZES or name.startswith("is_"):
        return PYTHON
    if name in _SEVERAL or (name in _PAIRS and arguments):
        return TENSORS
    return TENSOR if hasattr(torch.Tensor, name) else UNKNOWN


def function(target: object, arguments: int) -> Kind:
    """Return the kind of the result of a torch function; unknown for anything else."""
    name, module = getattr(target, "__name__", ""), getattr(target, "__module__", None)
    if isinstance(target, type) or not (module in _MODULES or _is_at(torch, name, target)):
        return UNKNOWN
    if hasattr(torch.Tensor, name):
        return method(name, arguments - 1)
    return PYTHON if name in _SIZES or name.startswith(("is_", "get_", "set_")) else TENSOR


def _is_at(namespace: object, name: str, target: object) -> bool:
    return bool(name) and getattr(namespace, name, None) is target
