"""Convolutions over one to three axes, and their windows as rows."""
