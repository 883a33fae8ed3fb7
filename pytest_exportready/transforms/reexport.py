"""Keep a program up to date with checkpoints: load new weights into it or export again, and verify the result."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.filesystem import FileSystemReader
from torch.distributed.checkpoint.state_dict_loader import load
from torch.export import ExportedProgram

from pytest_exportready.analysis.execution.compare import Tolerance, compare
from pytest_exportready.analysis.execution.eager_reference import EagerReference
from pytest_exportready.analysis.execution.program_runner import RunningProgram
from pytest_exportready.analysis.program.fingerprint import graph_fingerprint
from pytest_exportready.analysis.program.weights import weights_fingerprint
from pytest_exportready.case.explained import ExplainedError
from pytest_exportready.case.wording import few


class CheckpointMisfit(ExplainedError, ValueError):
    """The checkpoint does not fit the module; the problem names the entries. Nothing was loaded."""


class ProgramDiffers(RuntimeError):
    """The program exported after a load differs from the module; the message says where."""


@dataclass(frozen=True)
class Loaded:
    """The result of a load."""

    action: str  # ``unchanged`` (the same weights), ``weights`` (new weights in the same program) or ``exported``
    graph: str  # fingerprint of the program's graph
    weights: str  # fingerprint of its weights
    why: str = ""  # why a new export was necessary


class ReexportOnLoad:
    """A model in eval mode, and its exported ``program`` with the weights last loaded.

    The arguments are those of ``torch.export.export``. The module and the program share the weights.
    """

    def __init__(
        self,
        model: nn.Module,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any] | None = None,
        *,
        dynamic_shapes: Any = None,
        strict: bool = False,
    ) -> None:
        self.model = model.eval()
        self._call = args, dict(kwargs or {})
        self._how: dict[str, Any] = {"dynamic_shapes": dynamic_shapes, "strict": strict}
        self.program = self._export()
        self._graph, self._weights = graph_fingerprint(self.program), weights_fingerprint(self.program)

    def load(self, checkpoint: str | os.PathLike[str], key: str = "") -> Loaded:
        """Load a torch.distributed.checkpoint of any number of ranks in this process, and verify the program.

        The model is exported again if the program with the new weights differs from the module, for example because a
        constant was computed from the old ones. The metadata of a checkpoint is a pickle: load only what you trust.

        Args:
            checkpoint: Its folder.
            key: The entry of the checkpoint that contains the module's state dict, such as ``"model"``; by default the
                checkpoint is the state dict.

        Raises:
            CheckpointMisfit: Names or shapes differ from the module's. The module is unchanged.
            OSError, RuntimeError: The checkpoint cannot be read. The module is unchanged.
            ProgramDiffers: A new export differs from the module as well.
        """
        state = _read(checkpoint, f"{key}." if key else "", self.model.state_dict())
        self.model.load_state_dict(state)
        before, self._weights = self._weights, weights_fingerprint(self.model)
        if before == self._weights and self._difference() is None:
            return Loaded("unchanged", self._graph, self._weights)
        if before != self._weights and self._difference() is None:
            return Loaded("weights", self._graph, self._weights)
        why = self._difference() or ""
        self.program = self._export()
        self._graph = graph_fingerprint(self.program)
        difference = self._difference()
        if difference is not None:
            raise ProgramDiffers(f"the new program differs from the module as well: {difference}")
        return Loaded("exported", self._graph, self._weights, f"the old program with the new weights differs: {why}")

    def _export(self) -> ExportedProgram:
        args, kwargs = self._call
        return torch.export.export(self.model, args, kwargs, **self._how)

    def _difference(self) -> str | None:
        """Return where program and module differ on the example; None if they agree."""
        (given,) = RunningProgram(self.program).outputs([self._call])
        result = compare(EagerReference(self.model).output(self._call), given, Tolerance())
        return None if result.agree else f"{result.where}: {result.problem}"


def _read(checkpoint: str | os.PathLike[str], prefix: str, own: Mapping[str, Any]) -> dict[str, Any]:
    """Return new tensors for ``own``, read from ``checkpoint``."""
    metadata = FileSystemReader(checkpoint).read_metadata().state_dict_metadata
    held = {name.removeprefix(prefix): entry for name, entry in metadata.items() if name.startswith(prefix)}
    tensors = {name: value for name, value in own.items() if isinstance(value, torch.Tensor)}
    missing, unknown = sorted(tensors.keys() - held.keys()), sorted(held.keys() - own.keys())
    shapes = {name: list(getattr(entry, "size", ())) for name, entry in held.items()}
    other_shapes = [
        f"{name} has shape {shapes[name]}, expected {list(value.shape)}"
        for name, value in tensors.items()
        if name in shapes and shapes[name] != list(value.shape)
    ]
    problems = [
        f"missing: {few(missing)}" if missing else "",
        f"unexpected: {few(unknown)}" if unknown else "",
        few(other_shapes) if other_shapes else "",
    ]
    if any(problems):
        held_as = f" under {prefix.rstrip('.')!r}" if prefix else ""
        raise CheckpointMisfit(
            f"the checkpoint {os.fspath(checkpoint)} does not fit{held_as}: {'; '.join(filter(None, problems))}",
            "Build the module as it was trained, or pass the entry that contains it (`key=...`).",
        )
    state = {f"{prefix}{name}": torch.empty_like(value, device="cpu") for name, value in tensors.items()}
    try:
        load(state, checkpoint_id=checkpoint, no_dist=True)
    except CheckpointException as error:  # derives from BaseException
        cause = next(iter(error.failures.values()))[0]
        raise RuntimeError(f"the checkpoint {os.fspath(checkpoint)} cannot be read: {cause}") from cause
    loaded = {name.removeprefix(prefix): value for name, value in state.items()}
    return {**own, **loaded}
