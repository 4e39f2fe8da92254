"""Sums along axes with given weights: interpolation and averages."""
