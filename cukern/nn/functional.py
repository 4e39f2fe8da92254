"""The operations of :mod:`cukern.nn` that hold no parameters."""

from ..namespace import elu, gelu, log_softmax, relu, sigmoid, silu, softmax, softplus, tanh
from ..ops.names import MODULES as _MODULES
from ..ops.names import missing as _missing
from .embedding import embedding, one_hot
from .layer_norm import layer_norm
from .linear import linear
from .lltm import lltm, lltm_cell
from .losses import cross_entropy, mse_loss
from .matmul_add_relu import matmul_add_relu
from .pooling import avg_pool2d, max_pool2d

__all__ = [
    "avg_pool2d",
    "cross_entropy",
    "elu",
    "embedding",
    "gelu",
    "layer_norm",
    "linear",
    "lltm",
    "lltm_cell",
    "log_softmax",
    "matmul_add_relu",
    "max_pool2d",
    "mse_loss",
    "one_hot",
    "relu",
    "sigmoid",
    "silu",
    "softmax",
    "softplus",
    "tanh",
]

__getattr__, __dir__ = _missing(__name__, __all__, _MODULES["nn.functional"])
