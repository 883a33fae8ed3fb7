"""Find parameters that forward reads and that are not registered: kept in a class, a set, another module."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import torch
from torch import nn

from pytest_exportready.analysis.execution.call import Call
from pytest_exportready.analysis.execution.pytree import distinct, flatten
from pytest_exportready.analysis.module.snapshot import preserved
from pytest_exportready.analysis.torch_internals.tensors import each_operator


def unregistered_parameters(module: nn.Module, call: Call) -> list[nn.Parameter]:
    """Return the parameters, other than those of ``module``, that operators receive in ``call``.

    The module is restored. Parameters behind code that cannot be observed, such as compiled code, are not seen.
    """
    own = {id(parameter) for parameter in module.parameters()}
    found: dict[int, nn.Parameter] = {}

    def run(operator: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        for leaf in flatten((args, dict(kwargs)))[0]:
            if isinstance(leaf, nn.Parameter) and id(leaf) not in own:
                found[id(leaf)] = leaf
        return operator(*args, **kwargs)

    args, kwargs = distinct((tuple(call[0]), dict(call[1])))
    with preserved(module), torch.no_grad(), suppress(Exception), each_operator(run):
        module(*args, **kwargs)
    return list(found.values())
