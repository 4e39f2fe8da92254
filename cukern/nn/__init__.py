"""Layers: fused operations with gradients of any order, and modules with parameters."""

from ..namespace.hints import MODULES as _MODULES
from ..namespace.hints import missing as _missing
from . import activations, functional, init
from .activations import *  # noqa: F403
from .attention.cache import KeyValueCache
from .attention.module import MultiHeadAttention
from .convolution.module import Conv1d, Conv2d, Conv3d, ConvTranspose1d, ConvTranspose2d, ConvTranspose3d
from .dropout import Dropout
from .embedding import Embedding
from .functional import *  # noqa: F403
from .layer_norm.function import LayerNorm, RMSNorm
from .linear import Linear
from .lltm import LLTM, LLTMCell
from .module import Module, Parameter, Sequential
from .normalization import BatchNorm, GroupNorm
from .pooling.module import (
    AdaptiveAvgPool1d,
    AdaptiveAvgPool2d,
    AdaptiveAvgPool3d,
    AdaptiveMaxPool1d,
    AdaptiveMaxPool2d,
    AdaptiveMaxPool3d,
    AvgPool1d,
    AvgPool2d,
    AvgPool3d,
    MaxPool1d,
    MaxPool2d,
    MaxPool3d,
)
from .rearrange import Pad, PixelShuffle, PixelUnshuffle
from .recurrent import GRU, LSTM
from .resampling.function import Upsample

__all__ = [
    "GRU",
    "LLTM",
    "LSTM",
    "AdaptiveAvgPool1d",
    "AdaptiveAvgPool2d",
    "AdaptiveAvgPool3d",
    "AdaptiveMaxPool1d",
    "AdaptiveMaxPool2d",
    "AdaptiveMaxPool3d",
    "AvgPool1d",
    "AvgPool2d",
    "AvgPool3d",
    "BatchNorm",
    "Conv1d",
    "Conv2d",
    "Conv3d",
    "ConvTranspose1d",
    "ConvTranspose2d",
    "ConvTranspose3d",
    "Dropout",
    "Embedding",
    "GroupNorm",
    "KeyValueCache",
    "LLTMCell",
    "LayerNorm",
    "Linear",
    "MaxPool1d",
    "MaxPool2d",
    "MaxPool3d",
    "Module",
    "MultiHeadAttention",
    "Pad",
    "Parameter",
    "PixelShuffle",
    "PixelUnshuffle",
    "RMSNorm",
    "Sequential",
    "Upsample",
    "functional",
    "init",
]
__all__ += activations.__all__ + functional.__all__

__getattr__, __dir__ = _missing(__name__, __all__, {**_MODULES["nn.functional"], **_MODULES["nn"]})
