"""The public names and their types. This is the only list of them: ``__init__.py`` reads it.

A name ``assert_<check>`` is an ``Assertion``, which the module of that class makes for every check.
"""

from pytest_exportready.analysis.program.fingerprint import graph_fingerprint as graph_fingerprint
from pytest_exportready.analysis.program.weights import weights_fingerprint as weights_fingerprint
from pytest_exportready.analysis.ranks.mismatch import RankMismatchError as RankMismatchError
from pytest_exportready.case.export_case import ExportCase as ExportCase
from pytest_exportready.case.finding import Finding as Finding
from pytest_exportready.case.marker import export_ready as export_ready
from pytest_exportready.case.prepared import Prepared as Prepared
from pytest_exportready.case.readiness import Readiness as Readiness
from pytest_exportready.case.scenario import CannotTrain as CannotTrain, Scenario as Scenario
from pytest_exportready.judge.assertions import (
    Assertion,
    assert_autograd_functions_keep_rules as assert_autograd_functions_keep_rules,
    assert_export_ready as assert_export_ready,
    assert_grad_scaler_cleared as assert_grad_scaler_cleared,
    assert_ranks_agree as assert_ranks_agree,
)
from pytest_exportready.judge.cache.topology import Topology as Topology, topology as topology
from pytest_exportready.judge.prepare import prepare_for_export as prepare_for_export
from pytest_exportready.judge.ready_check import export_ready_check as export_ready_check
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

__version__: str

assert_autocast_regions_fit: Assertion
assert_batchnorm_frozen: Assertion
assert_caches_fresh: Assertion
assert_checkpoint_loaded: Assertion
assert_ddp_hooks_emptied: Assertion
assert_devices_consistent: Assertion
assert_devices_follow_inputs: Assertion
assert_dtypes_keep_values: Assertion
assert_fake_kernels_match: Assertion
assert_hooks_change_nothing: Assertion
assert_inputs_distinct: Assertion
assert_no_loss_scale: Assertion
assert_no_residual_gradients: Assertion
assert_no_training_mode: Assertion
assert_no_weight_copies: Assertion
assert_optimizer_holds_weights: Assertion
assert_parameters_not_sharded: Assertion
assert_process_groups_named: Assertion
assert_state_dict_names: Assertion
assert_tensors_can_be_saved: Assertion
assert_ties_kept: Assertion
assert_trained_buffers_saved: Assertion
assert_values_finite: Assertion
assert_weights_read_directly: Assertion
