"""The demo: check the fused kernels, then train a character model on real text."""
