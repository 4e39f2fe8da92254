"""Modules that are copied as they stand to exported folders, and import nothing of cukern."""
