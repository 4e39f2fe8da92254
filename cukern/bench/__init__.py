"""Measure cukern's speed on this machine and compare it with installed libraries: ``python -m cukern bench``."""
