"""Elementwise functions: rows, symbolic graphs, programs of several outputs, and their launches."""
