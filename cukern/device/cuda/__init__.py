"""NVIDIA GPUs through CuPy, with overlapping launches and direct calls of cuBLAS, which CuPy lacks."""
