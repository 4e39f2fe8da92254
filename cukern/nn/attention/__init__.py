"""Attention without the matrix of scores."""
