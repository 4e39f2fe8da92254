"""Indexing, gather and scatter, search, sort, scans and sets."""
