"""The one place that holds the version; `pyproject.toml` reads it without importing the package."""

__version__ = "0.1.0"
