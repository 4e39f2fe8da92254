"""Layers: fused operations with gradients of any order, and modules that hold their parameters."""

from ..ops.names import MODULES as _MODULES
from ..ops.names import missing as _missing
from . import functional, init
from .embedding import Embedding, embedding, one_hot
from .functional import log_softmax, softmax
from .layer_norm import LayerNorm, layer_norm
from .linear import Linear, linear
from .lltm import LLTM, LLTMCell, lltm, lltm_cell
from .losses import cross_entropy, mse_loss
from .matmul_add_relu import matmul_add_relu
from .module import Module, Parameter
from .pooling import AvgPool2d, MaxPool2d, avg_pool2d, max_pool2d
from .sequential import Sequential

__all__ = [
    "LLTM",
    "AvgPool2d",
    "Embedding",
    "LLTMCell",
    "LayerNorm",
    "Linear",
    "MaxPool2d",
    "Module",
    "Parameter",
    "Sequential",
    "avg_pool2d",
    "cross_entropy",
    "embedding",
    "functional",
    "init",
    "layer_norm",
    "linear",
    "lltm",
    "lltm_cell",
    "log_softmax",
    "matmul_add_relu",
    "max_pool2d",
    "mse_loss",
    "one_hot",
    "softmax",
]

__getattr__, __dir__ = _missing(__name__, __all__, _MODULES["nn"])
