"""Batch and group normalization: problems, the variants of their kernels, and their records on tapes."""
