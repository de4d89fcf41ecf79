"""The one place that knows the library's version."""

__version__ = "0.1.0"
