"""Shapes: views, copies, and rearrangements of elements."""
