"""GGUF files: named arrays, dense or quantised, with typed metadata, as language models are handed out."""

from .. import quant as _quant  # noqa: F401 - whole, before a module of it: threads may import at once
from .file import GGUFFile as GGUFFile
from .file import load_gguf as load_gguf
from .file import open_gguf as open_gguf
from .file import save_gguf as save_gguf

__all__ = ["GGUFFile", "load_gguf", "save_gguf"]
