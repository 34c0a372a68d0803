"""Versions of Python and of what may matter to a time."""

import contextlib
import importlib.metadata
import platform


def versions():
    """By name, of what is installed."""
    found = {"Python": platform.python_version()}
    for package in ("tensorflow", "keras", "torch", "jax", "dgl", "dyNET38", "numpy"):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[package] = importlib.metadata.version(package)
    return found
