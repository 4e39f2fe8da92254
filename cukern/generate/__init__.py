"""Language models from GGUF files: their hyper-parameters, vocabulary and layers, and the text that they write."""

from .. import gguf as _gguf  # noqa: F401 - whole, before a module of it: threads may import at once
from ..namespace.hints import missing as _missing
from .decoder import Decoder
from .hyper import HyperParameters
from .vocabulary import Vocabulary
from .write import Model, Sampling

__all__ = ["Decoder", "HyperParameters", "Model", "Sampling", "Vocabulary"]

__getattr__, __dir__ = _missing(__name__, __all__)
