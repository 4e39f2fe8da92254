"""Reductions: rows, plans, and what is made of them (moments, softmax)."""
