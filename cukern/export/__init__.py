"""Operators as folders that need no cukern: the kernels of a Function or a function, and what launches them."""
