"""Reductions: rows and plans, and moments and softmax, which build on them."""
