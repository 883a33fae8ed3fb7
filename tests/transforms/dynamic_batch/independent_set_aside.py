"""The third of the independent corpus that was not looked at before the adapter had its last change."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from independent import Written, randint, randn, written
from torch import nn

SET_ASIDE: list[Written] = []


@written(SET_ASIDE, lambda b: (randn(b, 2, 5, 5), randn(b, 3, 2, 3, 3)), at=3)
def convolved_with_filters_of_its_own(net, x, filters):
    b = x.shape[0]
    folded = F.conv2d(x.reshape(1, b * 2, 5, 5), filters.reshape(b * 3, 2, 3, 3), groups=b)
    return folded.view(b, 3, 3, 3)


@written(SET_ASIDE, lambda b: (randn(b, 2, 4, 4), randn(b, 2, 3)), at=2)
def sampled_on_a_grid_of_its_size(net, x, theta):
    return F.grid_sample(x, F.affine_grid(theta, list(x.shape), align_corners=False), align_corners=False)


@written(SET_ASIDE, lambda b: (randn(b, 4),), at=3, layers=lambda: {"linear": nn.Linear(4, 4)})
def padded_to_a_multiple(net, x):
    b = x.shape[0]
    return net.linear(F.pad(x, (0, 0, 0, -b % 4)))[:b]


@written(SET_ASIDE, lambda b: (randn(b, 4),), at=3)
def ramp_along_the_batch(net, x):
    return x + torch.linspace(0, 1, x.shape[0])[:, None]


@written(SET_ASIDE, lambda b: (randn(b, 4),), at=3)
def row_number_added(net, x):
    return x + torch.arange(x.shape[0])[:, None]


@written(SET_ASIDE, lambda b: (randn(b, 4),), at=8)
def compared_with_each_other(net, x):
    return x @ x.t()


@written(SET_ASIDE, lambda b: (randn(b, 4),), at=3)
def squeezed_where_alone(net, x):
    return x.mean(1, keepdim=True).squeeze()


@written(SET_ASIDE, lambda b: (randn(b, 4, 2),), at=8)
def pairs_of_rows(net, x):
    pairs = x.view(x.shape[0] // 2, 2, 4, 2)
    return (pairs - pairs.mean(1, keepdim=True)).view(x.shape)


@written(SET_ASIDE, lambda b: (randn(b, 6), randn(b, 6)), at=3)
def loss_over_the_batch(net, x, y):
    return F.mse_loss(x, y)


@written(
    SET_ASIDE,
    lambda b: ({"tokens": randint(9, (b, 5)), "mask": randn(b, 5) > -1},),
    at=2,
    layers=lambda: {"words": nn.Embedding(9, 4)},
)
def masks_in_a_dict(net, batch):
    words = net.words(batch["tokens"])
    b, t = batch["tokens"].shape
    block = batch["mask"][:, None, None, :].expand(b, 1, t, t)
    bias = torch.zeros(b, 1, t, t).masked_fill(~block, -1e4)
    q = words.view(b, t, 2, 2).transpose(1, 2)
    return F.scaled_dot_product_attention(q, q, q, attn_mask=bias).transpose(1, 2).reshape(b, t, -1)


@written(SET_ASIDE, lambda b: (randn(b, 3, 4),), at=3, layers=lambda: {"codes": nn.Embedding(3, 4)})
def codebook_returned_beside(net, x):
    return x - net.codes.weight, net.codes.weight * 1.0


@written(SET_ASIDE, lambda b: (randn(b, 2, 3, 3),), at=16)
def instance_norm_by_folding(net, x):
    b, c, h, w = x.shape
    return F.batch_norm(x.reshape(1, b * c, h, w), None, None, training=True).view(b, c, h, w)


@written(SET_ASIDE, lambda b: (randn(b, 4, 6),), at=2, layers=lambda: {"token": nn.Linear(6, 1, bias=False)})
def class_token_and_last_step(net, x):
    token = net.token.weight.view(1, 1, 6).expand(x.shape[0], -1, -1)
    tokens = torch.cat([token, x], dim=1)
    return tokens.flatten(1)[:, -6:] + tokens[:, 0] + x.new_full((x.shape[0],), 2.0)[:, None]


@written(SET_ASIDE, lambda b: (randn(b, 4),), at=2)
def stacked_by_a_loop(net, x):
    return torch.stack([x[row].softmax(0) for row in range(x.shape[0])])
