"""Kernel text: render templates to CUDA C++, and parse the signature of that text."""

#: Three sizes: along x, y and z.
Dim3 = tuple[int, int, int]
