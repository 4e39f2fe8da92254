"""Arrays in files: NumPy's ``.npy`` and ``.npz``, and safetensors."""

from __future__ import annotations

from .reading import load as load
from .safetensors import read_safetensors as read_safetensors
from .safetensors import save_safetensors as save_safetensors
from .writing import save as save
from .writing import savez as savez
from .writing import savez_compressed as savez_compressed

__all__ = ["load", "save", "save_safetensors", "savez", "savez_compressed"]
