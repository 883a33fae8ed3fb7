"""The dtype in which each operator runs, by the name of its schema.

The lists of ``torch.autocast`` for CUDA (aten/src/ATen/autocast_mode.h), and of those for the CPU the operators without
a kernel for half precision (fft, linalg). Also the names that decompositions use for the same operators. Recurrent
layers run in float32, because their kernels for half precision depend on the device.
"""

from __future__ import annotations

from typing import Literal

Policy = Literal["lower", "float32", "widest", "as given"]


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


LOWER = _names(
    "_convolution convolution conv1d conv2d conv3d conv_tbc conv_transpose1d conv_transpose2d conv_transpose3d addbmm "
    "addmm addmv addr baddbmm bmm chain_matmul linalg_multi_dot linalg_vecdot linear matmul mm mv prelu "
    "scaled_dot_product_attention"
)
FLOAT32 = _names(
    "_log_softmax _softmax acos asin binary_cross_entropy binary_cross_entropy_with_logits cdist cosh "
    "cosine_embedding_loss cosine_similarity cumprod cumsum dist erfinv exp expm1 frobenius_norm group_norm gru "
    "hinge_embedding_loss huber_loss kl_div l1_loss layer_norm linalg_matrix_norm linalg_vector_norm log log10 log1p "
    "log2 log_softmax logsumexp lstm margin_ranking_loss mse_loss multi_margin_loss multilabel_margin_loss "
    "native_group_norm native_layer_norm nll_loss nll_loss2d norm nuclear_norm pdist poisson_nll_loss polar pow prod "
    "reciprocal renorm rms_norm rnn_relu rnn_tanh rsqrt sinh smooth_l1_loss soft_margin_loss softmax softplus stft sum "
    "tan triplet_margin_loss upsample_bicubic2d upsample_bilinear2d upsample_linear1d upsample_nearest1d "
    "upsample_nearest2d upsample_nearest3d upsample_trilinear3d view_as_complex"
)
WIDEST = _names("addcdiv addcmul atan2 bilinear cross dot grid_sampler index_put scatter_add tensordot vdot index_copy")


def policy_of(operator: str) -> Policy:
    """Return the policy of an operator by its schema name, such as ``aten::linear``.

    ``lower`` casts float32 operands to the lower dtype, ``float32`` casts lower operands to float32, ``widest`` casts
    all to the widest of them, and ``as given`` leaves them to type promotion.
    """
    name = operator.removeprefix("aten::")
    if name in LOWER:
        return "lower"
    if name in FLOAT32 or name.startswith(("fft_", "linalg_", "_fft_")):
        return "float32"
    return "widest" if name in WIDEST else "as given"
