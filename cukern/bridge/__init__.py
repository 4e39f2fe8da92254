"""Functions and kernels as operators of other libraries: PyTorch and JAX, each imported when it is asked for."""
