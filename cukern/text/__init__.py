"""Kernel text: render templates to CUDA C++, and parse the signature of that text."""
