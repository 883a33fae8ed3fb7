"""pytest-exportready: proves that a trained PyTorch model survives ``torch.export``.

Importing this package imports neither torch nor jinja2: every public name is loaded on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pytest_exportready.analysis.program.fingerprint import graph_fingerprint as graph_fingerprint
    from pytest_exportready.analysis.program.weights import weights_fingerprint as weights_fingerprint
    from pytest_exportready.analysis.ranks.mismatch import RankMismatchError as RankMismatchError
    from pytest_exportready.case.export_case import ExportCase as ExportCase
    from pytest_exportready.case.finding import Finding as Finding
    from pytest_exportready.case.marker import export_ready as export_ready
    from pytest_exportready.case.readiness import Readiness as Readiness
    from pytest_exportready.judge.assertions import (
        assert_autocast_regions_fit as assert_autocast_regions_fit,
        assert_autograd_functions_keep_rules as assert_autograd_functions_keep_rules,
        assert_batchnorm_frozen as assert_batchnorm_frozen,
        assert_caches_fresh as assert_caches_fresh,
        assert_checkpoint_loaded as assert_checkpoint_loaded,
        assert_ddp_hooks_emptied as assert_ddp_hooks_emptied,
        assert_devices_consistent as assert_devices_consistent,
        assert_devices_follow_inputs as assert_devices_follow_inputs,
        assert_dtypes_keep_values as assert_dtypes_keep_values,
        assert_export_ready as assert_export_ready,
        assert_fake_kernels_match as assert_fake_kernels_match,
        assert_grad_scaler_cleared as assert_grad_scaler_cleared,
        assert_hooks_change_nothing as assert_hooks_change_nothing,
        assert_inputs_distinct as assert_inputs_distinct,
        assert_no_loss_scale as assert_no_loss_scale,
        assert_no_residual_gradients as assert_no_residual_gradients,
        assert_no_training_mode as assert_no_training_mode,
        assert_no_weight_copies as assert_no_weight_copies,
        assert_optimizer_holds_weights as assert_optimizer_holds_weights,
        assert_parameters_not_sharded as assert_parameters_not_sharded,
        assert_process_groups_named as assert_process_groups_named,
        assert_ranks_agree as assert_ranks_agree,
        assert_state_dict_names as assert_state_dict_names,
        assert_tensors_can_be_saved as assert_tensors_can_be_saved,
        assert_ties_kept as assert_ties_kept,
        assert_trained_buffers_saved as assert_trained_buffers_saved,
        assert_values_finite as assert_values_finite,
        assert_weights_read_directly as assert_weights_read_directly,
    )
    from pytest_exportready.judge.cache.topology import Topology as Topology, topology as topology
    from pytest_exportready.judge.ready_check import export_ready_check as export_ready_check
    from pytest_exportready.prepare import prepare_for_export as prepare_for_export
    from pytest_exportready.transforms.collectives.exportable import (
        exportable_all_gather as exportable_all_gather,
        exportable_all_reduce as exportable_all_reduce,
        exportable_all_to_all as exportable_all_to_all,
        exportable_broadcast as exportable_broadcast,
        exportable_reduce_scatter as exportable_reduce_scatter,
    )
    from pytest_exportready.transforms.collectives.groups import (
        GroupNotNamed as GroupNotNamed,
        bind_groups as bind_groups,
        name_group as name_group,
    )
    from pytest_exportready.transforms.devices import DeviceBaked as DeviceBaked, purify_devices as purify_devices
    from pytest_exportready.transforms.dynamic_batch.adapter import make_batch_dynamic as make_batch_dynamic
    from pytest_exportready.transforms.dynamic_batch.errors import NotBatchDynamic as NotBatchDynamic
    from pytest_exportready.transforms.precision.report import precision_report as precision_report
    from pytest_exportready.transforms.precision.rewriting import to_precision as to_precision
    from pytest_exportready.transforms.reexport import (
        CheckpointMisfit as CheckpointMisfit,
        ProgramDiffers as ProgramDiffers,
        ReexportOnLoad as ReexportOnLoad,
    )

__version__ = "0.1.0"

_HOME = {
    "CheckpointMisfit": "transforms.reexport",
    "DeviceBaked": "transforms.devices",
    "ExportCase": "case.export_case",
    "Finding": "case.finding",
    "GroupNotNamed": "transforms.collectives.groups",
    "NotBatchDynamic": "transforms.dynamic_batch.errors",
    "ProgramDiffers": "transforms.reexport",
    "RankMismatchError": "analysis.ranks.mismatch",
    "Readiness": "case.readiness",
    "ReexportOnLoad": "transforms.reexport",
    "Topology": "judge.cache.topology",
    "assert_autocast_regions_fit": "judge.assertions",
    "assert_autograd_functions_keep_rules": "judge.assertions",
    "assert_batchnorm_frozen": "judge.assertions",
    "assert_caches_fresh": "judge.assertions",
    "assert_checkpoint_loaded": "judge.assertions",
    "assert_no_weight_copies": "judge.assertions",
    "assert_ddp_hooks_emptied": "judge.assertions",
    "assert_devices_consistent": "judge.assertions",
    "assert_devices_follow_inputs": "judge.assertions",
    "assert_dtypes_keep_values": "judge.assertions",
    "assert_export_ready": "judge.assertions",
    "assert_grad_scaler_cleared": "judge.assertions",
    "assert_process_groups_named": "judge.assertions",
    "assert_hooks_change_nothing": "judge.assertions",
    "assert_inputs_distinct": "judge.assertions",
    "assert_no_loss_scale": "judge.assertions",
    "assert_no_residual_gradients": "judge.assertions",
    "assert_no_training_mode": "judge.assertions",
    "assert_optimizer_holds_weights": "judge.assertions",
    "assert_parameters_not_sharded": "judge.assertions",
    "assert_ranks_agree": "judge.assertions",
    "assert_fake_kernels_match": "judge.assertions",
    "assert_state_dict_names": "judge.assertions",
    "assert_tensors_can_be_saved": "judge.assertions",
    "assert_ties_kept": "judge.assertions",
    "assert_trained_buffers_saved": "judge.assertions",
    "assert_values_finite": "judge.assertions",
    "assert_weights_read_directly": "judge.assertions",
    "bind_groups": "transforms.collectives.groups",
    "export_ready": "case.marker",
    "export_ready_check": "judge.ready_check",
    "exportable_all_gather": "transforms.collectives.exportable",
    "exportable_all_reduce": "transforms.collectives.exportable",
    "exportable_all_to_all": "transforms.collectives.exportable",
    "exportable_broadcast": "transforms.collectives.exportable",
    "exportable_reduce_scatter": "transforms.collectives.exportable",
    "graph_fingerprint": "analysis.program.fingerprint",
    "make_batch_dynamic": "transforms.dynamic_batch.adapter",
    "name_group": "transforms.collectives.groups",
    "precision_report": "transforms.precision.report",
    "prepare_for_export": "prepare",
    "purify_devices": "transforms.devices",
    "to_precision": "transforms.precision.rewriting",
    "topology": "judge.cache.topology",
    "weights_fingerprint": "analysis.program.weights",
}

__all__ = ["__version__", *sorted(_HOME)]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return list(__all__)
