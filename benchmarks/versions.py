"""Versions of Python and of packages that may affect a time."""

import contextlib
import importlib.metadata
import platform


def versions():
    """Versions of the installed packages, by name."""
    found = {"Python": platform.python_version()}
    for package in ("tensorflow", "keras", "torch", "jax", "dgl", "dyNET38", "numpy"):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[package] = importlib.metadata.version(package)
    return found
