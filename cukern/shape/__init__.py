"""Shapes: views, copies, and what puts elements elsewhere."""
