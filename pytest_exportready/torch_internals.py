"""Every private torch API in use, each behind one function that says why nothing public serves.

A torch without the API yields the documented unknown value (None, or an empty list), never an exception.
"""

from __future__ import annotations

import logging
import re
import sys
import traceback
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import TYPE_CHECKING, Any, TypeGuard

import torch
from torch import nn
from torch.nn.modules import batchnorm, dropout

if TYPE_CHECKING:
    from torch.export import ExportedProgram

    Norm = batchnorm._NormBase

Hook = Callable[..., Any]


def scaler_states(scaler: object) -> list[Mapping[str, Any]] | None:
    """The state that a GradScaler keeps for each optimizer between ``unscale_`` and ``update``; None if
    unknown.

    ``GradScaler.state_dict()`` leaves it out, and nothing else shows it.
    """
    states = getattr(scaler, "_per_optimizer_states", None)
    if states is None and getattr(scaler, "is_enabled", lambda: True)():
        return None
    return list((states or {}).values())


def comm_hooks(wrapper: nn.Module) -> list[Hook] | None:
    """Communication hooks registered on a DistributedDataParallel; None if unknown.

    ``register_comm_hook`` has no counterpart that reads.
    """
    hooks = getattr(wrapper, "_comm_hooks", None)
    return None if hooks is None else [entry[0] if isinstance(entry, tuple) else entry for entry in hooks]


def compiled_source(module: nn.Module) -> nn.Module | None:
    """The module that ``torch.compile(module)`` wrapped; None for any other module.

    The class that ``torch.compile`` returns for a module has no public name, nor has its inner module.
    """
    optimized = _loaded("torch._dynamo.eval_frame", "OptimizedModule")
    if optimized is None or not isinstance(module, optimized):
        return None
    source = vars(module).get("_orig_mod") or dict(module.named_children()).get("_orig_mod")
    return source if isinstance(source, nn.Module) else None


def is_fake(tensor: torch.Tensor) -> bool:
    """True for a FakeTensor: shape and dtype without values, as a trace leaves behind.

    There is no public class or predicate.
    """
    fake = _loaded("torch._subclasses.fake_tensor", "FakeTensor")
    return fake is not None and isinstance(tensor, fake)


def tracing_mode(program: ExportedProgram) -> AbstractContextManager[Any]:
    """The mode in which operators on the values of a program's nodes (``node.meta["val"]``) give values of new nodes.

    Neither FakeTensor nor its mode is public. Where no node has such a value, a mode that does nothing.
    """
    values = [value for node in program.graph.nodes if is_fake(value := node.meta.get("val"))]
    mode: AbstractContextManager[Any] = values[0].fake_mode if values else nullcontext()
    return mode


def is_dtensor(tensor: torch.Tensor) -> bool:
    """True for a DTensor, without importing ``torch.distributed.tensor``, which takes long and may be
    absent.
    """
    distributed = _loaded("torch.distributed.tensor", "DTensor")
    return distributed is not None and isinstance(tensor, distributed)


def is_fsdp2(module: nn.Module) -> bool:
    """True for a module that ``fully_shard`` took over, without importing ``torch.distributed.fsdp``."""
    sharded = _loaded("torch.distributed.fsdp", "FSDPModule")
    return sharded is not None and isinstance(module, sharded)


def checkpointed_source(module: nn.Module) -> nn.Module | None:
    """The module inside a ``checkpoint_wrapper`` or ``offload_wrapper``; None for any other module.

    Their class has no public name.
    """
    wrapper = _loaded("torch.distributed.algorithms._checkpoint.checkpoint_wrapper", "ActivationWrapper")
    if wrapper is None or not isinstance(module, wrapper):
        return None
    source = dict(module.named_children()).get("_checkpoint_wrapped_module")
    return source if isinstance(source, nn.Module) else None


def is_fsdp1(module: nn.Module) -> bool:
    """True for FullyShardedDataParallel itself, without importing ``torch.distributed.fsdp``, which takes long."""
    wrapper = _loaded("torch.distributed.fsdp", "FullyShardedDataParallel")
    return wrapper is not None and isinstance(module, wrapper)


def is_persistent(module: nn.Module, buffer: str) -> bool:
    """Whether a buffer of this very module is in its state dict; True if unknown.

    ``state_dict()`` would tell, but runs the hooks of users, and under FSDP a collective.
    """
    return buffer not in getattr(module, "_non_persistent_buffers_set", ())


def each_operator(handle: Callable[..., Any]) -> AbstractContextManager[Any]:
    """Within the block ``handle(operator, args, kwargs)`` runs in place of every ATen operator.

    The class to derive such a mode from is documented, but lives in a private module.
    """
    from torch.utils._python_dispatch import TorchDispatchMode

    class Each(TorchDispatchMode):  # type: ignore[no-untyped-call]
        def __torch_dispatch__(self, operator: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return handle(operator, args, kwargs or {})

    mode: AbstractContextManager[Any] = Each()  # type: ignore[no-untyped-call]
    return mode


def traced_frames(error: BaseException) -> list[tuple[str, int]]:
    """Files and lines of the user's program that strict export was tracing when ``error`` was raised, innermost last;
    empty if unknown. The message quotes them for some exceptions only.
    """
    stack = getattr(error, "real_stack", None) or ()
    return [(frame.filename, frame.lineno or 0) for frame in stack if hasattr(frame, "filename")]


def failed_operator(error: BaseException) -> str:
    """The operator that was being traced when ``error`` was raised, such as ``aten.add.Tensor``; empty if none was.

    Some exceptions carry it as ``func``, of others the stack holds it; its class and those have no public names.
    """
    carried = getattr(error, "func", None)
    stack = [frame.f_locals for frame, _ in traceback.walk_tb(error.__traceback__)]
    held = [local for names in reversed(stack) for local in (names.get("func"), names.get("op"), names.get("self"))]
    return next((str(one) for one in (carried, *held) if isinstance(one, torch._ops.OpOverload)), "")


def draft_failures(program: ExportedProgram) -> list[tuple[str, str, int, list[str]]]:
    """What ``draft_export`` met on its way, as ``(kind, file, line, subjects)``; empty if unknown. The report that it
    prints is made for reading only.

    kind: ``DATA_DEPENDENT_ERROR``, ``GUARD_ADDED``, ``MISSING_FAKE_KERNEL``, ``MISMATCHED_FAKE_KERNEL``. file, line: of
    the innermost Python frame of the model. subjects: operators, or sizes such as ``L['x'].size()[0]``.
    """
    report = getattr(program, "_report", None)
    interned = getattr(sys.modules.get("torch._logging.structured"), "INTERN_TABLE", None) or {}
    files = {number: file for file, number in interned.items()}  # the report's own has what it met first
    found: list[tuple[str, str, int, list[str]]] = []
    for failure in getattr(report, "failures", None) or []:
        data = failure.data
        frame = (data.get("user_stack") or data.get("stack") or [{}])[-1]
        subjects = [str(data["op"])] if "op" in data else [str(s) for s in data.get("symbol_to_sources", {}).values()]
        kind = getattr(failure.failure_type, "name", "")
        found.append((kind, str(files.get(frame.get("filename"), "")), int(frame.get("line") or 0), subjects))
    return found


class SizeGuards(logging.Handler):
    """Within the block: what a trace fixes or assumes of the sizes of its inputs.

    found: ``(subject, condition, stack)`` with subjects such as ``L['x'].size()[0]``, and the Python files and lines
    that asked, innermost last; empty if unknown. A program keeps conditions without who asked.
    """

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, str, list[tuple[str, int]]]] = []
        self._subjects: dict[str, str] = {}
        self._logger = logging.getLogger("torch.__trace")

    def __enter__(self) -> SizeGuards:
        self._level = self._logger.level
        self._logger.addHandler(self)
        self._logger.setLevel(logging.DEBUG)
        return self

    def __exit__(self, *error: object) -> None:
        self._logger.removeHandler(self)
        self._logger.setLevel(self._level)

    def emit(self, record: logging.LogRecord) -> None:
        told = getattr(record, "metadata", None) or {}
        for made in filter(None, [told.get("create_symbol")]):
            self._subjects[str(made.get("symbol"))] = str(made.get("source"))
        for fixed in filter(None, [told.get("symbolic_shape_specialization")]):
            self._note([str(source) for source in fixed.get("sources") or ()], f"== {fixed.get('value')}")
        for guard in filter(None, [told.get("guard_added_fast") or told.get("guard_added")]):
            condition = str(guard.get("expr"))
            self._note(
                [of for symbol, of in self._subjects.items() if re.search(rf"\b{symbol}\b", condition)], condition
            )

    def _note(self, subjects: list[str], condition: str) -> None:
        stack = [(frame.filename, frame.lineno or 0) for frame in traceback.extract_stack()]
        self.found += [(subject, condition, stack) for subject in subjects]


def fake_mode() -> tuple[AbstractContextManager[Any], Callable[[torch.Tensor], torch.Tensor]]:
    """A mode in which operators compute shapes and dtypes without data, and what makes a tensor one of its own.

    The class has no public name; meta tensors forget the device, and what is created on the CPU does not fit them.
    """
    from torch._subclasses.fake_tensor import FakeTensorMode

    mode = FakeTensorMode()
    return mode, lambda tensor: mode.from_tensor(tensor, static_shapes=True)


def program_guards(program: ExportedProgram) -> list[str]:
    """Guards of a program as Python expressions, such as ``L['x'].size()[0] % 2 == 0``; empty if unknown.

    ``range_constraints`` omits what is no range, divisibility for one.
    """
    return list(getattr(program, "_guards_code", None) or [])


def backward_hooks(module: nn.Module) -> list[Hook]:
    """Backward and backward-pre hooks of this very module; empty if unknown. Public is only registering
    them.
    """
    return [hook for name in _BACKWARD for hook in _hooks(module, name)]


def forward_hooks(module: nn.Module) -> list[Hook]:
    """Forward and forward-pre hooks of this very module; empty if unknown. Only registering is public."""
    return [hook for name in _FORWARD for hook in _hooks(module, name)]


def forward_hook_tables(module: nn.Module | None) -> dict[str, dict[int, Hook]]:
    """Tables of the forward hooks by ``"before"`` and ``"after"`` the call: of this very module, for None those
    registered for every module (``register_module_forward_hook``); empty if unknown.
    """
    owner, names = (module, _FORWARD) if module is not None else (sys.modules[nn.Module.__module__], _GLOBAL_FORWARD)
    return {kind: _hook_table(owner, name) for kind, name in zip(("before", "after"), names, strict=True)}


def state_dict_hooks(module: nn.Module) -> list[Hook]:
    """Hooks on the saving of this very module's state dict; empty if unknown. Only registering is public."""
    return [hook for name in ("_state_dict_pre_hooks", "_state_dict_hooks") for hook in _hooks(module, name)]


def gradient_hooks(tensor: torch.Tensor) -> list[Hook]:
    """Hooks on the gradient of a tensor; empty if unknown. Public is only registering them."""
    return [hook for name in _GRADIENT for hook in _hooks(tensor, name)]


def clear_backward_hooks(module: nn.Module) -> None:
    """Remove this very module's backward hooks; otherwise only the handle from registering could."""
    for name in _BACKWARD:
        _hook_table(module, name).clear()
    if hasattr(module, "_is_full_backward_hook"):
        module._is_full_backward_hook = None


def clear_gradient_hooks(tensor: torch.Tensor) -> None:
    """Remove the hooks on the gradient of a tensor; otherwise only the handle from registering could."""
    for name in _GRADIENT:
        _hook_table(tensor, name).clear()


def gradient_hook_tables(tensor: torch.Tensor) -> list[dict[int, Hook]]:
    """The tables themselves behind ``gradient_hooks``, to be put back after somebody cleared them."""
    return [_hook_table(tensor, name) for name in _GRADIENT]


def is_norm(module: nn.Module) -> TypeGuard[Norm]:
    """True for BatchNorm, SyncBatchNorm, InstanceNorm and what derives from them.

    Their common base, which other libraries subclass directly, has no public name.
    """
    base = getattr(batchnorm, "_NormBase", None)
    return isinstance(module, base or (*_PUBLIC_BATCHNORMS, nn.InstanceNorm1d, nn.InstanceNorm2d, nn.InstanceNorm3d))


def is_batchnorm(module: nn.Module) -> TypeGuard[Norm]:
    """True for BatchNorm, SyncBatchNorm and what derives from them; their common base has no public name."""
    return isinstance(module, getattr(batchnorm, "_BatchNorm", None) or _PUBLIC_BATCHNORMS)


def is_dropout(module: nn.Module) -> TypeGuard[nn.Dropout]:
    """True for every dropout class, all of which have ``p``; their common base has no public name."""
    base = getattr(dropout, "_DropoutNd", None)
    public = (nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d, nn.AlphaDropout, nn.FeatureAlphaDropout)
    return isinstance(module, base or public)


def plain_attributes(module: nn.Module) -> dict[str, Any]:
    """Instance attributes that ``nn.Module`` does not manage: neither parameters, buffers, children nor
    hooks.

    ``vars(module)`` mixes them with the module's own bookkeeping, whose names are private.
    """
    return {name: value for name, value in vars(module).items() if name not in _OF_EVERY_MODULE}


_OF_EVERY_MODULE = frozenset(vars(nn.Module()))
_PUBLIC_BATCHNORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm)
_FORWARD = ("_forward_pre_hooks", "_forward_hooks")
_GLOBAL_FORWARD = ("_global_forward_pre_hooks", "_global_forward_hooks")
_BACKWARD = ("_backward_pre_hooks", "_backward_hooks")
_GRADIENT = ("_backward_hooks", "_post_accumulate_grad_hooks")


def _hook_table(owner: object, name: str) -> dict[int, Hook]:
    table = getattr(owner, name, None)
    return table if isinstance(table, dict) else {}


def _hooks(owner: object, name: str) -> list[Hook]:
    return list(_hook_table(owner, name).values())


def _loaded(module: str, name: str) -> type | None:
    """A class of a module that is imported already: without it no instance can exist."""
    found = getattr(sys.modules.get(module), name, None)
    return found if isinstance(found, type) else None


def aot_compiled(program: ExportedProgram, path: str) -> str:
    """Compile ``program`` with AOTInductor to a ``.pt2`` package at ``path``; returns its path.

    The documented entry, but below a private module; without the precompiled headers that pay from the third compile
    on. Raises AttributeError where torch has it not, and whatever the compiler raises.
    """
    import torch._inductor

    known = {name: value for name, value in _AOT_CONFIGS.items() if name in torch._inductor.list_options()}
    return str(torch._inductor.aoti_compile_and_package(program, package_path=path, inductor_configs=known))


_AOT_CONFIGS = {"aot_inductor.precompile_headers": False, "compile_threads": 1}


def compile_settings() -> dict[str, Any]:
    """Every setting that ``aot_compiled`` works by: inductor's and functorch's, passes of the user's among them.

    They live in private modules. Raises AttributeError or ImportError where torch has them not.
    """
    from torch._functorch import config as functorch
    from torch._inductor import config as inductor

    return {"inductor": inductor.get_config_copy(), "functorch": functorch.get_config_copy(), "ours": _AOT_CONFIGS}


def aot_loaded(path: str) -> Callable[..., Any]:
    """The callable of a package that ``aot_compiled`` wrote; the documented entry, but below a private module."""
    import torch._inductor

    loaded: Callable[..., Any] = torch._inductor.aoti_load_package(path)
    return loaded


def function_of_node(node: Any) -> type | None:
    """The ``torch.autograd.Function`` that made a node of the backward graph; None for an operator's node.

    A node does not tell its Function in public.
    """
    function = getattr(type(node), "_forward_cls", None)
    return function if isinstance(function, type) else None


def register_group(name: str, group: Any) -> None:
    """Let operators find the process group ``group`` under ``name``; what is public knows torch's own names only."""
    _c10d()._register_process_group(name, group)


def unregister_group(name: str) -> None:
    """Undo ``register_group``; nothing where torch forgot the name already, as when its groups were destroyed."""
    with suppress(RuntimeError):
        _c10d()._unregister_process_group(name)


def _c10d() -> Any:
    from torch._C import _distributed_c10d

    return _distributed_c10d


def functional_collectives() -> Any:
    """The operators that functional collectives are made of, which a program keeps by their group's name."""
    return torch.ops._c10d_functional


def custom_operator(name: str) -> Any:
    """The CustomOpDef that ``torch.library.custom_op`` made for ``namespace::name``; None for any other operator.

    What the decorator returns is kept nowhere in public.
    """
    known = getattr(sys.modules.get("torch._library.custom_ops"), "OPDEFS", {})
    return known.get(name)


def is_custom_operator(thing: object) -> bool:
    """Whether ``thing`` is what ``torch.library.custom_op`` returns, a class that torch does not export to type
    checkers."""
    kind = _loaded("torch._library.custom_ops", "CustomOpDef")
    return kind is not None and isinstance(thing, kind)


def functions_of_operator(operator: Any) -> list[Callable[..., Any]]:
    """The Python functions behind a CustomOpDef, its own first; empty if unknown. They have no public name."""
    found = (getattr(operator, name, None) for name in ("_init_fn", "_abstract_fn"))
    return [function for function in found if function is not None]


def without_bound(program: ExportedProgram) -> set[str]:
    """The names of the sizes of ``program`` that have no upper bound. torch has no public name for infinity."""
    return {str(size) for size, span in program.range_constraints.items() if span.upper > sys.maxsize // 2}


def bound_sizes(program: ExportedProgram, most: Mapping[str, int]) -> None:
    """Give each size that ``most`` names this upper bound, in ``program`` itself.

    What lowers a program asks the ShapeEnv of its fake tensors; in public, only a new export from the module sets it.
    """
    values = (node.meta.get("val") for node in program.graph.nodes if node.op == "placeholder")
    sizes = (size for value in values for size in getattr(value, "shape", ()) if isinstance(size, torch.SymInt))
    environment = next((size.node.shape_env for size in sizes), None)
    for size, span in list(program.range_constraints.items()):
        if environment is not None and str(size) in most:
            bounded = type(span)(span.lower, most[str(size)])
            program.range_constraints[size] = environment.var_to_range[size] = bounded
