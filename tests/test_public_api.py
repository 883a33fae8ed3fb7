"""The public API, spelled out: a change here is a change for users and belongs into the changelog."""

from __future__ import annotations

import inspect
import subprocess
import sys
from dataclasses import fields

import pytest

import pytest_exportready
from pytest_exportready.case.export_case import ExportCase
from pytest_exportready.case.options import ACCEPTED

NAMES = [
    "CannotTrain",
    "CheckpointMisfit",
    "DeviceBaked",
    "ExportCase",
    "Finding",
    "GroupNotNamed",
    "NotBatchDynamic",
    "Prepared",
    "ProgramDiffers",
    "RankMismatchError",
    "Readiness",
    "ReexportOnLoad",
    "Scenario",
    "Topology",
    "__version__",
    "assert_autocast_regions_fit",
    "assert_autograd_functions_keep_rules",
    "assert_batchnorm_frozen",
    "assert_caches_fresh",
    "assert_checkpoint_loaded",
    "assert_ddp_hooks_emptied",
    "assert_devices_consistent",
    "assert_devices_follow_inputs",
    "assert_dtypes_keep_values",
    "assert_export_ready",
    "assert_fake_kernels_match",
    "assert_grad_scaler_cleared",
    "assert_hooks_change_nothing",
    "assert_inputs_distinct",
    "assert_no_loss_scale",
    "assert_no_residual_gradients",
    "assert_no_training_mode",
    "assert_no_weight_copies",
    "assert_optimizer_holds_weights",
    "assert_parameters_not_sharded",
    "assert_process_groups_named",
    "assert_ranks_agree",
    "assert_state_dict_names",
    "assert_tensors_can_be_saved",
    "assert_ties_kept",
    "assert_trained_buffers_saved",
    "assert_values_finite",
    "assert_weights_read_directly",
    "bind_groups",
    "export_ready",
    "export_ready_check",
    "exportable_all_gather",
    "exportable_all_reduce",
    "exportable_all_to_all",
    "exportable_broadcast",
    "exportable_reduce_scatter",
    "graph_fingerprint",
    "make_batch_dynamic",
    "name_group",
    "precision_report",
    "prepare_for_export",
    "purify_devices",
    "to_precision",
    "topology",
    "weights_fingerprint",
]
PARAMETERS = {
    "export_ready_check": "model example_inputs example_kwargs dynamic_shapes dynamic_batch strict skip_ddp_validation "
    "tolerance stages lower budget knowledge",
    "prepare_for_export": "model scaler optimizer device inplace example_inputs example_kwargs",
    "assert_export_ready": "model example_inputs arguments",
    "assert_grad_scaler_cleared": "scaler",
    "assert_ranks_agree": "model_or_state what uneven group timeout",
    "assert_batchnorm_frozen": "model example_inputs example_kwargs checkpoint training_state target_device",
}
CASE_FIELDS = (
    "model args kwargs more_inputs checkpoint golden golden_tolerance training_state target_device stateful_calls "
    "allow_mutation trainable loss"
)
MARKER = "dynamic_batch dynamic_shapes scenarios strict tolerance stages ignore reason xfail_stage lower budget devices"


def test_names() -> None:
    assert sorted(pytest_exportready.__all__) == NAMES
    for name in NAMES:
        assert getattr(pytest_exportready, name) is not None


@pytest.mark.parametrize("name", [name for name in NAMES if name.startswith("assert_")])
def test_every_check_has_its_assertion(name: str) -> None:
    from pytest_exportready.checks import all_checks

    assert {f"assert_{check}" for check in all_checks()} | {"assert_export_ready", "assert_ranks_agree"} >= {name}
    assert {f"assert_{check}" for check in all_checks()} <= set(NAMES)


@pytest.mark.parametrize("name", PARAMETERS)
def test_parameters(name: str) -> None:
    assert list(inspect.signature(getattr(pytest_exportready, name)).parameters) == PARAMETERS[name].split()


def test_case_and_marker() -> None:
    assert [field.name for field in fields(ExportCase)] == CASE_FIELDS.split()
    assert list(ACCEPTED) == MARKER.split()


def test_every_public_name_is_documented() -> None:
    for name in set(NAMES) - {"__version__"}:
        assert inspect.getdoc(getattr(pytest_exportready, name)), name


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'export_redy'"):
        _ = pytest_exportready.export_redy


def test_importing_it_imports_nothing_heavy() -> None:
    code = "import sys, pytest_exportready; print([m for m in ('torch', 'jinja2', 'junitparser') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
