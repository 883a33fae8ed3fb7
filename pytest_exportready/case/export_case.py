"""Define what a user declares: a model, its example inputs, and what else is known about them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeAlias

from pytest_exportready.case.explained import ExplainedError
from pytest_exportready.case.prepared import Prepared
from pytest_exportready.case.sanitize import shown

if TYPE_CHECKING:
    from torch import nn

    Inputs: TypeAlias = tuple[Any, ...] | list[Any]
    Returned: TypeAlias = (
        "ExportCase | tuple[nn.Module, Inputs] | tuple[nn.Module, Inputs, Mapping[str, Any]] | list[Any]"
    )
    """What a case function returns."""


class CaseError(ExplainedError):
    """A case or its marker cannot be understood; the problem names the argument and the accepted ones."""


@dataclass(frozen=True)
class ExportCase:
    """A model, its example inputs, and what else is known about them.

    Attributes:
        model: The trained module, in the mode in which it would be exported (call ``.eval()``).
        args: Positional example inputs of ``model.forward``.
        kwargs: Keyword example inputs of ``model.forward``.
        more_inputs: Further ``(args, kwargs)`` pairs of the same kind, on which the outputs are compared too.
        checkpoint: The state dict that will ship; its names must be those of the program.
        golden: The output recorded at the end of training for the example inputs, which the module must still give.
        golden_tolerance: Largest error accepted for ``golden``, relative to its rms.
        training_state: ``{"scaler": ..., "optimizer": ..., "step": ...}``, as objects or as their state dicts.
        target_device: Where the program will run, such as ``"cuda"``.
        stateful_calls: The module has state: ``args`` and then ``more_inputs`` are compared as one sequence of calls.
        allow_mutation: The module may change its own state in eval mode, such as a cache; otherwise that is reported.
        trainable: The program will be trained, so its gradients are compared with those of the module.
        loss: ``loss(output) -> scalar`` for the scenarios that train; by default the mean square of every
            floating-point output.
    """

    model: nn.Module
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    more_inputs: Sequence[tuple[tuple[Any, ...], Mapping[str, Any]]] = ()
    checkpoint: Mapping[str, Any] | None = None
    golden: Any = None
    golden_tolerance: float = 1e-3
    training_state: Mapping[str, Any] = field(default_factory=dict)
    target_device: str | None = None
    stateful_calls: bool = False
    allow_mutation: bool = False
    trainable: bool = False
    loss: Callable[[Any], Any] | None = None

    @property
    def carries_training(self) -> bool:
        """Whether the case has results of a real training, which further steps would invalidate."""
        return self.golden is not None or self.checkpoint is not None or bool(self.training_state)


def as_case(returned: object) -> ExportCase:
    """Return the ExportCase for what a case function returned: ``(model, args[, kwargs])`` or an ExportCase.

    Raises:
        CaseError: It returned something else.
    """
    import torch

    if isinstance(returned, Prepared):
        raise CaseError("The case returned no inputs", "Return `prepared.module, (x,)`.")
    if not isinstance(returned, ExportCase):
        if not isinstance(returned, (tuple, list)) or len(returned) not in (2, 3):
            problem = (
                f"The case returned {_shape_of(returned)}, not (model, args), (model, args, kwargs) or an ExportCase"
            )
            raise CaseError(problem)
        returned = ExportCase(*returned)
    if not isinstance(returned.model, torch.nn.Module) or isinstance(returned.model, torch.jit.ScriptModule):
        problem = f"The model is {_shape_of(returned.model)}, not a Python torch.nn.Module"
        raise CaseError(problem, _as_module(returned.model))
    if isinstance(returned.model, torch.fx.GraphModule) and "eval" in vars(returned.model):
        raise CaseError("The model is an exported program", _FROM_EXPORT)
    if isinstance(returned.args, torch.Tensor):
        raise CaseError("The example inputs are one tensor, not a tuple of inputs", "Write `(x,)` instead of `x`.")
    if not isinstance(returned.args, (tuple, list)):
        raise CaseError(f"The example inputs are {_shape_of(returned.args)}, not a tuple")
    if not isinstance(returned.kwargs, Mapping):
        raise CaseError(f"The example keyword inputs are {_shape_of(returned.kwargs)}, not a dict")
    if not all(isinstance(name, str) for name in returned.kwargs):
        raise CaseError("The keys of the example keyword inputs are not names of parameters of `forward`")
    for position, pair in enumerate(returned.more_inputs):
        if not _is_call(pair):
            raise CaseError(f"`more_inputs[{position}]` is {_shape_of(pair)}, not a pair (args, kwargs)")
    for name in ("checkpoint", "training_state"):
        stated = getattr(returned, name)
        if not isinstance(stated, Mapping) and (stated is not None or name == "training_state"):
            raise CaseError(f"`{name}` is {_shape_of(stated)}, not a dict", "Load it first if it is a file.")
    if returned.target_device is not None:
        try:
            torch.device(returned.target_device)
        except (RuntimeError, TypeError) as error:
            given = shown(returned.target_device)
            raise CaseError(f'`target_device={given}` is not a torch device, such as "cuda"') from error
    return replace(returned, args=tuple(returned.args))


_FROM_EXPORT = "Return the module that it was exported from."


def _as_module(model: Any) -> str:
    """Return how to return a module instead of ``model``."""
    import torch

    name = getattr(model, "__name__", "it")
    if isinstance(model, Prepared):
        return "Return `prepare_for_export(model).module`."
    if isinstance(model, type):
        return f"Return an instance, `{name}(...)`, instead of the class."
    if isinstance(getattr(model, "__self__", None), torch.nn.Module):
        return f"Return the module itself instead of its `{name}`."
    if isinstance(model, torch.jit.ScriptModule):
        return "Return the Python module that was passed to `torch.jit.script` or `torch.jit.trace`."
    if type(model).__name__ == "ExportedProgram":
        return _FROM_EXPORT
    if isinstance(model, Mapping):
        return "Build the module and load the state dict into it: `model.load_state_dict(state)`."
    if not callable(model):
        return "Return the module first, then its inputs: `(model, (x,))`."
    function = "function"
    if isinstance(model, torch.jit.ScriptFunction):
        function = "function before `torch.jit`"
    elif hasattr(model, "get_compiler_config"):
        function = "function before `torch.compile`"
    return f"Call the {function} in a `torch.nn.Module`: `def forward(self, x): return {name}(x)`."


def _is_call(pair: object) -> bool:
    if not isinstance(pair, (tuple, list)) or len(pair) != 2:
        return False
    return isinstance(pair[0], (tuple, list)) and isinstance(pair[1], Mapping)


def _shape_of(value: object) -> str:
    if isinstance(value, Prepared):
        return "the result of prepare_for_export"
    if isinstance(value, (tuple, list)):
        return f"a {type(value).__name__} of {len(value)} ({', '.join(type(v).__name__ for v in value)})"
    kind = type(value).__name__ if not isinstance(value, type) else f"class {value.__name__}"
    return "None" if value is None else f"{'an' if kind[0].lower() in 'aeiou' else 'a'} {kind}"
