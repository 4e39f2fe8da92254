"""Layers: fused operations with gradients of any order, and modules with parameters."""

from ..namespace.hints import MODULES as _MODULES
from ..namespace.hints import missing as _missing
from . import functional, init
from .activations import (
    ELU,
    GELU,
    LeakyReLU,
    LogSigmoid,
    LogSoftmax,
    ReLU,
    Sigmoid,
    SiLU,
    Softmax,
    Softplus,
    Softsign,
    Tanh,
)
from .attention.function import attention
from .attention.module import MultiHeadAttention, scaled_dot_product_attention
from .classification import (
    binary_cross_entropy,
    binary_cross_entropy_with_logits,
    cross_entropy,
    kl_div,
    nll_loss,
)
from .dropout import Dropout, dropout
from .embedding import Embedding, embedding, one_hot
from .functional import log_softmax, softmax
from .layer_norm.function import LayerNorm, layer_norm
from .linear import Linear, linear
from .lltm.function import LLTM, LLTMCell, lltm, lltm_cell
from .matmul_add_relu import matmul_add_relu
from .module import Module, Parameter
from .normalization import BatchNorm, GroupNorm, RMSNorm, batch_norm, group_norm, rms_norm
from .pooling.function import AvgPool2d, MaxPool2d, avg_pool2d, max_pool2d
from .recurrent import GRU, LSTM
from .regression import huber_loss, l1_loss, mse_loss, smooth_l1_loss
from .sequential import Sequential

__all__ = [
    "ELU",
    "GELU",
    "GRU",
    "LLTM",
    "LSTM",
    "AvgPool2d",
    "BatchNorm",
    "Dropout",
    "Embedding",
    "GroupNorm",
    "LLTMCell",
    "LayerNorm",
    "LeakyReLU",
    "Linear",
    "LogSigmoid",
    "LogSoftmax",
    "MaxPool2d",
    "Module",
    "MultiHeadAttention",
    "Parameter",
    "RMSNorm",
    "ReLU",
    "Sequential",
    "SiLU",
    "Sigmoid",
    "Softmax",
    "Softplus",
    "Softsign",
    "Tanh",
    "attention",
    "avg_pool2d",
    "batch_norm",
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "cross_entropy",
    "dropout",
    "embedding",
    "functional",
    "group_norm",
    "huber_loss",
    "init",
    "kl_div",
    "l1_loss",
    "layer_norm",
    "linear",
    "lltm",
    "lltm_cell",
    "log_softmax",
    "matmul_add_relu",
    "max_pool2d",
    "mse_loss",
    "nll_loss",
    "one_hot",
    "rms_norm",
    "scaled_dot_product_attention",
    "smooth_l1_loss",
    "softmax",
]

__getattr__, __dir__ = _missing(__name__, __all__, _MODULES["nn"])
