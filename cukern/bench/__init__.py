"""How fast cukern is on this machine, beside the libraries that are installed: ``python -m cukern bench``."""
