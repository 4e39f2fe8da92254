"""The functions of :mod:`cukern.nn`, all of which it has too: what a layer computes, given its parameters."""

from ..namespace import (
    elu,
    gelu,
    gelu_tanh,
    hardsigmoid,
    hardswish,
    leaky_relu,
    log_sigmoid,
    log_softmax,
    mish,
    relu,
    relu6,
    selu,
    sigmoid,
    silu,
    softmax,
    softplus,
    softsign,
    tanh,
)
from ..namespace.hints import MODULES as _MODULES
from ..namespace.hints import missing as _missing
from .activations import glu, swiglu
from .attention.function import attention
from .attention.module import scaled_dot_product_attention
from .classification import (
    binary_cross_entropy,
    binary_cross_entropy_with_logits,
    cross_entropy,
    kl_div,
    nll_loss,
)
from .convolution.fold import fold, unfold
from .convolution.function import conv1d, conv2d, conv3d, conv_transpose1d, conv_transpose2d, conv_transpose3d
from .dropout import dropout
from .embedding import embedding, one_hot
from .layer_norm.function import add_layer_norm, add_rms_norm, layer_norm, rms_norm
from .linear import linear, matmul_add_relu
from .linear_cross_entropy import linear_cross_entropy
from .lltm import lltm, lltm_cell
from .normalization import batch_norm, group_norm
from .pooling.adaptive import (
    adaptive_avg_pool1d,
    adaptive_avg_pool2d,
    adaptive_avg_pool3d,
    adaptive_max_pool1d,
    adaptive_max_pool2d,
    adaptive_max_pool3d,
)
from .pooling.function import avg_pool1d, avg_pool2d, avg_pool3d, max_pool1d, max_pool2d, max_pool3d
from .rearrange import pad, pixel_shuffle, pixel_unshuffle
from .regression import huber_loss, l1_loss, mse_loss, smooth_l1_loss
from .resampling.function import interpolate, upsample
from .resampling.grid import grid_sample
from .rotary import rotary_embedding
from .sampling import sample_tokens
from .similarity import cosine_similarity, normalize

__all__ = [
    "adaptive_avg_pool1d",
    "adaptive_avg_pool2d",
    "adaptive_avg_pool3d",
    "adaptive_max_pool1d",
    "adaptive_max_pool2d",
    "adaptive_max_pool3d",
    "add_layer_norm",
    "add_rms_norm",
    "attention",
    "avg_pool1d",
    "avg_pool2d",
    "avg_pool3d",
    "batch_norm",
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
    "cosine_similarity",
    "cross_entropy",
    "dropout",
    "elu",
    "embedding",
    "fold",
    "gelu",
    "gelu_tanh",
    "glu",
    "grid_sample",
    "group_norm",
    "hardsigmoid",
    "hardswish",
    "huber_loss",
    "interpolate",
    "kl_div",
    "l1_loss",
    "layer_norm",
    "leaky_relu",
    "linear",
    "linear_cross_entropy",
    "lltm",
    "lltm_cell",
    "log_sigmoid",
    "log_softmax",
    "matmul_add_relu",
    "max_pool1d",
    "max_pool2d",
    "max_pool3d",
    "mish",
    "mse_loss",
    "nll_loss",
    "normalize",
    "one_hot",
    "pad",
    "pixel_shuffle",
    "pixel_unshuffle",
    "relu",
    "relu6",
    "rms_norm",
    "rotary_embedding",
    "sample_tokens",
    "scaled_dot_product_attention",
    "selu",
    "sigmoid",
    "silu",
    "smooth_l1_loss",
    "softmax",
    "softplus",
    "softsign",
    "swiglu",
    "tanh",
    "unfold",
    "upsample",
]

__getattr__, __dir__ = _missing(__name__, __all__, _MODULES["nn.functional"])
