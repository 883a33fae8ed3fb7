from __future__ import annotations

import inspect

import pytest
import torch
from torch import nn
from torch.amp import GradScaler

from pytest_exportready.checks import all_checks
from pytest_exportready.judge import assertions


@pytest.mark.parametrize("name", all_checks())
def test_every_check_has_its_assertion(name: str) -> None:
    assertion = getattr(assertions, f"assert_{name}")
    assert assertion.__name__ == f"assert_{name}"
    assert assertion.__doc__
    assert inspect.signature(assertion).return_annotation == "None"


def test_a_line_for_each_finding() -> None:
    model = nn.Sequential(nn.BatchNorm1d(2, track_running_stats=False), nn.BatchNorm1d(2))
    with pytest.raises(AssertionError) as raised:
        assertions.assert_batchnorm_frozen(model)
    lines = str(raised.value).splitlines()
    assert len(lines) == 3
    assert all("[ER302 batchnorm_frozen]" in line and "Fix: " in line for line in lines)


def test_notes_do_not_raise() -> None:
    assertions.assert_no_training_mode(nn.Linear(2, 2).train())


def test_what_the_user_said_reaches_the_check() -> None:
    model = nn.Linear(2, 2, device="meta")
    with pytest.raises(AssertionError, match="no key weight, bias"):
        assertions.assert_devices_consistent(model, checkpoint={}, example_inputs=(torch.ones(1, 2),))


def test_scaler_is_accepted_in_every_form() -> None:
    model = nn.Linear(2, 2)
    model.scaler = GradScaler("cpu", init_scale=0.5)
    for form in (model, model.scaler, model.scaler.state_dict()):
        with pytest.raises(AssertionError, match=r"loss scale fell to 0\.5"):
            assertions.assert_grad_scaler_cleared(form)
    assertions.assert_grad_scaler_cleared(GradScaler("cpu"))
    assertions.assert_grad_scaler_cleared(nn.Linear(2, 2))
    with pytest.raises(TypeError, match="scaler is a float"):
        assertions.assert_grad_scaler_cleared(1.0)


class FunctionalDropout(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.dropout(x, 0.5)


def test_a_check_of_the_program_exports_the_module() -> None:
    """With example inputs only; findings about the module itself need none."""
    assertions.assert_no_training_mode(FunctionalDropout().eval())
    with pytest.raises(AssertionError, match="`aten::dropout` is in training mode"):
        assertions.assert_no_training_mode(FunctionalDropout().eval(), example_inputs=(torch.ones(2),))


def test_a_check_of_the_program_alone_needs_example_inputs() -> None:
    with pytest.raises(TypeError, match="assert_no_loss_scale needs example_inputs"):
        assertions.assert_no_loss_scale(nn.Linear(2, 2))
    assertions.assert_no_loss_scale(nn.Linear(2, 2), example_inputs=(torch.ones(1, 2),))


def test_without_a_program_nothing_is_asserted_to_hold() -> None:
    class Branches(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x if x.sum() > 0 else -x

    with pytest.raises(AssertionError, match="ER401"):
        assertions.assert_no_loss_scale(Branches(), example_inputs=(torch.ones(2),))
