"""Pooling over two axes."""
