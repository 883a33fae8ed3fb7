"""Operators of a program, custom ones included, whose arguments say that they run in training mode."""

from __future__ import annotations

import torch

from pytest_exportready.analysis.program.nodes import argument, declares, is_users_operator

FLAGS = ("training", "train", "use_input_stats", "is_training", "is_train", "training_mode", "train_mode")
_DROPPED = ("dropout_p", "p_dropout", "dropout", "dropout_prob", "dropout_rate")  # used if there is no flag


def training_flag(node: torch.fx.Node) -> str:
    """Return the argument that puts the operator of ``node`` into training mode; empty if none does."""
    name = str(node.target)
    if "backward" in name:
        return ""
    flags = [flag for flag in FLAGS if isinstance(argument(node, flag), bool)]
    flag_set = next((flag for flag in flags if argument(node, flag) is True), "")
    drops = [p for p in ("p", *_DROPPED) if isinstance(argument(node, p), (int, float))]
    active = [p for p in drops if argument(node, p) > 0]
    if not flags:
        return next((p for p in active if p in _DROPPED), "")
    if drops:
        return flag_set if active and argument(node, "num_layers") != 1 else ""
    if "rrelu" in name:
        return flag_set if argument(node, "lower") != argument(node, "upper") else ""
    if declares(node, "running_mean") or not is_users_operator(node):
        # Without running statistics, those of the batch are by design: InstanceNorm, weight standardization.
        return flag_set if argument(node, "running_mean") is not None else ""
    return flag_set
