"""A program that follows its checkpoints: new weights are put into it, or it is exported anew, and either is proved."""

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
    """The checkpoint is not one of this module; the problem names the entries. Nothing was loaded."""


class ProgramDiffers(RuntimeError):
    """The program exported after a load does not give what the module gives; the message says where."""


@dataclass(frozen=True)
class Loaded:
    """action: ``unchanged`` (the same weights), ``weights`` (new ones in the same program) or ``exported``.

    graph, weights: fingerprints of the program now. why: for an export, what made it necessary.
    """

    action: str
    graph: str
    weights: str
    why: str = ""


class ReexportOnLoad:
    """``model`` in eval mode and its exported ``program``, which stays that of the weights last loaded.

    args, kwargs, dynamic_shapes, strict: as for ``torch.export.export``. The weights are shared by the module and the
    program, so that they are in memory once.
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
        """Load a torch.distributed.checkpoint, of any number of ranks, in this one process; prove the program after it.

        key: the entry that holds the module's state dict, such as ``"model"``; by default the checkpoint is that state
        dict. The weights go into the present program if it then gives what the module gives; otherwise (a constant was
        made of the old ones) it is exported anew.

        torch keeps the metadata of a checkpoint as a pickle: load only what you trust. Raises CheckpointMisfit for
        names or shapes that are not the module's, OSError or RuntimeError for a checkpoint that cannot be read; the
        module is then as before. Raises ProgramDiffers when even a new program is not what the module is.
        """
        state = _read(checkpoint, f"{key}." if key else "", self.model.state_dict())
        self.model.load_state_dict(state)
        before, self._weights = self._weights, weights_fingerprint(self.model)
        if before == self._weights and self._apart() is None:
            return Loaded("unchanged", self._graph, self._weights)
        if before != self._weights and self._apart() is None:
            return Loaded("weights", self._graph, self._weights)
        why = self._apart() or ""
        self.program = self._export()
        self._graph = graph_fingerprint(self.program)
        apart = self._apart()
        if apart is not None:
            raise ProgramDiffers(f"exported anew, the program still differs from the module: {apart}")
        return Loaded("exported", self._graph, self._weights, f"with the new weights the old program differed: {why}")

    def _export(self) -> ExportedProgram:
        args, kwargs = self._call
        return torch.export.export(self.model, args, kwargs, **self._how)

    def _apart(self) -> str | None:
        """Where the program and the module differ on the example; None when they agree."""
        (given,) = RunningProgram(self.program).outputs([self._call])
        result = compare(EagerReference(self.model).output(self._call), given, Tolerance())
        return None if result.agree else f"{result.where}: {result.problem}"


def _read(checkpoint: str | os.PathLike[str], prefix: str, own: Mapping[str, Any]) -> dict[str, Any]:
    """New tensors for ``own``, read from ``checkpoint``."""
    metadata = FileSystemReader(checkpoint).read_metadata().state_dict_metadata
    held = {name.removeprefix(prefix): entry for name, entry in metadata.items() if name.startswith(prefix)}
    tensors = {name: value for name, value in own.items() if isinstance(value, torch.Tensor)}
    missing, unknown = sorted(tensors.keys() - held.keys()), sorted(held.keys() - own.keys())
    shapes = {name: list(getattr(entry, "size", ())) for name, entry in held.items()}
    unlike = [
        f"{name} is {shapes[name]}, not {list(value.shape)}"
        for name, value in tensors.items()
        if name in shapes and shapes[name] != list(value.shape)
    ]
    told = [
        f"it has no {few(missing)}" if missing else "",
        f"the module has no {few(unknown)}" if unknown else "",
        few(unlike) if unlike else "",
    ]
    if any(told):
        held_as = f" under {prefix.rstrip('.')!r}" if prefix else ""
        raise CheckpointMisfit(
            f"the checkpoint {os.fspath(checkpoint)} does not fit{held_as}: {'; '.join(filter(None, told))}",
            "build the module as it was trained, or name the entry that holds it (key=...)",
        )
    state = {f"{prefix}{name}": torch.empty_like(value, device="cpu") for name, value in tensors.items()}
    try:
        load(state, checkpoint_id=checkpoint, no_dist=True)
    except CheckpointException as error:  # which is no Exception
        cause = next(iter(error.failures.values()))[0]
        raise RuntimeError(f"the checkpoint {os.fspath(checkpoint)} cannot be read: {cause}") from cause
    loaded = {name.removeprefix(prefix): value for name, value in state.items()}
    return {**own, **loaded}
