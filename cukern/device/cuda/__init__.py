"""NVIDIA GPUs, through CuPy, and what CuPy has not: launches that overlap, and cuBLAS without its checks."""
