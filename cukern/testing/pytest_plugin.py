"""The plugin by its first name: an editable installation keeps its entry points until it is installed again."""

from pytest_cukern import cukern_checked, pytest_addoption, pytest_configure

__all__ = ["cukern_checked", "pytest_addoption", "pytest_configure"]
