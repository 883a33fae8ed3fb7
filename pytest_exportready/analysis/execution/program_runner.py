"""Run an exported program and restore the state that it writes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch.export import ExportedProgram

from pytest_exportready.analysis.execution import gpu_peak
from pytest_exportready.analysis.execution.call import Call, run
from pytest_exportready.analysis.execution.pytree import distinct, flatten
from pytest_exportready.analysis.module.snapshot import equal_bits

_REGIONS = ("wrap_with_autocast", "wrap_with_set_grad_enabled")


class RunningProgram:
    """Runs ``exported`` repeatedly, each time from the state with which it was exported."""

    def __init__(self, exported: ExportedProgram) -> None:
        self._module = exported.module()
        state = {**exported.constants, **exported.state_dict}
        self._state = {name: value for name, value in state.items() if isinstance(value, torch.Tensor)}
        tensors = {id(value): value for value in self._state.values()}
        self._before = [(tensor, tensor.detach().clone()) for tensor in tensors.values()]

    def outputs(self, calls: list[Call], state: Mapping[str, torch.Tensor] | None = None) -> list[Any]:
        """Return the outputs for ``calls``, one after the other.

        Args:
            state: values for parameters and buffers in place of the program's own.
        """
        with self._restored(), torch.no_grad():
            for name in self._state.keys() & (state or {}).keys():
                self._state[name].copy_((state or {})[name])
            return run(self._module, calls)

    def gpu_bytes(self, call: Call) -> int:
        """Return the memory on the current GPU that ``call`` needs: the weights, and the peak of what it allocates."""
        before = torch.cuda.memory_allocated()
        gpu_peak.begin_part()
        self.outputs([call])
        weights = {tensor.untyped_storage().data_ptr(): tensor.untyped_storage().nbytes() for tensor, _ in self._before}
        return sum(weights.values()) + torch.cuda.max_memory_allocated() - before

    def watched(self, call: Call, see: Callable[[torch.fx.Node, Any], None]) -> None:
        """Run ``call`` operator by operator and call ``see(node, result)`` for each, also in autocast regions.

        Each result is freed after its last use.
        """
        with self._restored(), torch.no_grad():
            _Watched(self._module, see).run(*_leaves(call), enable_io_processing=False)

    def failing(self, calls: list[Call]) -> torch.fx.Node | None:
        """Return the innermost operator at which the first failing call of ``calls`` fails.

        None if a guard fails instead, or if no call fails when it is run operator by operator.
        """
        with self._restored(), torch.no_grad():
            for call in calls:
                watched = _Watched(self._module, lambda node, result: None)
                try:
                    watched.run(*_leaves(call), enable_io_processing=False)
                except Exception:
                    return next((node for node in watched.failed if node.op == "call_function"), None)
        return None

    @contextmanager
    def _restored(self) -> Iterator[None]:
        try:
            yield
        finally:
            with torch.no_grad():
                for tensor, before in self._before:
                    if not equal_bits(tensor, before):
                        tensor.copy_(before)


def _leaves(call: Call) -> list[Any]:
    return flatten(distinct((tuple(call[0]), dict(call[1]))))[0]


class _Watched(torch.fx.Interpreter):
    def __init__(self, module: torch.nn.Module, see: Callable[[torch.fx.Node, Any], None]) -> None:
        super().__init__(module)
        self.see = see
        self.failed: list[torch.fx.Node] = []

    def run_node(self, node: torch.fx.Node) -> Any:
        try:
            result = super().run_node(node)
        except Exception:
            self.failed.append(node)
            raise
        self.see(node, result)
        return result

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        if str(target) in _REGIONS:  # these run their graph once and unchanged; branches and loops do not
            args = [self._inner(arg) if isinstance(arg, torch.fx.GraphModule) else arg for arg in args]
        return super().call_function(target, tuple(args), kwargs)

    def _inner(self, graph: torch.fx.GraphModule) -> Callable[..., Any]:
        inner = _Watched(graph, self.see)
        inner.failed = self.failed
        return lambda *operands: inner.run(*operands)
