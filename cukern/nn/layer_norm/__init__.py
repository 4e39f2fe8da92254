"""Layer normalization."""
