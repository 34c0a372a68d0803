"""Gives every test what it needs, in the processes that run tests."""

import gc
import importlib
from importlib.metadata import version

import pytest


def pytest_configure(config: pytest.Config) -> None:
    """The process that only hands tests to workers need not wait for TensorFlow."""
    if hasattr(config, "workerinput") or not config.getoption("numprocesses", 0):
        # Imported objects stay. Looking through them for garbage took 17% of the time until the
        # first test runs.
        gc.disable()
        config.pluginmanager.register(importlib.import_module("tests.with_tensorflow"))


def pytest_report_header() -> str:
    return ", ".join(f"{package} {version(package)}" for package in ("tensorflow", "keras"))
