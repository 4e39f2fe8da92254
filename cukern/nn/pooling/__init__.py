"""Pooling over one to three axes."""
