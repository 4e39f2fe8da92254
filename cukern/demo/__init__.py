"""The demonstration: fused kernels checked, then a character model trained on real text."""
