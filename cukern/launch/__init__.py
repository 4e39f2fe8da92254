"""Launches as data: the parameters, the variants and the families of the library's kernels."""
