"""Elements by their places: indexing, gather and scatter, search, sort, scans and sets."""
