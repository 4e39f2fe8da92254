"""Kernel text: templates rendered to CUDA C++, and what is read off that text."""
