"""Operators of a program that do what belongs to training, by the names of their arguments: this holds for every one,
those of the user included."""

from __future__ import annotations

import torch

from pytest_exportready.analysis.program.nodes import argument, declares, is_users_operator

FLAGS = ("training", "train", "use_input_stats", "is_training", "is_train", "training_mode", "train_mode")
_DROPPED = ("dropout_p", "p_dropout", "dropout", "dropout_prob", "dropout_rate")  # without a flag these say it


def training_flag(node: torch.fx.Node) -> str:
    """The argument by which the operator of ``node`` does what it does in training only; empty when it does not."""
    name = str(node.target)
    if "backward" in name:
        return ""
    flags = [flag for flag in FLAGS if isinstance(argument(node, flag), bool)]
    says = next((flag for flag in flags if argument(node, flag) is True), "")
    drops = [p for p in ("p", *_DROPPED) if isinstance(argument(node, p), (int, float))]
    active = [p for p in drops if argument(node, p) > 0]
    if not flags:
        return next((p for p in active if p in _DROPPED), "")
    if drops:
        return says if active and argument(node, "num_layers") != 1 else ""
    if "rrelu" in name:
        return says if argument(node, "lower") != argument(node, "upper") else ""
    if declares(node, "running_mean") or not is_users_operator(node):
        # Without running statistics the batch's own are the definition: InstanceNorm, weight standardisation.
        return says if argument(node, "running_mean") is not None else ""
    return says
