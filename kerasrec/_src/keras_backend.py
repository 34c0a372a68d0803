"""Imports Keras and TensorFlow; raises ImportError if Keras would not run on TensorFlow.

The package imports this first. Keras with another backend fails later, if at all, with an error
that names a package which nobody needs.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

_NEEDED = "kerasrec needs Keras with its TensorFlow backend, but "


def _import_keras() -> None:
    if "keras" not in sys.modules:
        check_configuration()
    try:
        import keras
        import tensorflow  # noqa: F401
    except ModuleNotFoundError as error:
        if error.name not in ("keras", "tensorflow"):
            raise
        raise ModuleNotFoundError(
            f"{_NEEDED}{error.name} is not installed in the environment of {sys.executable}: "
            f"install it with `pip install {error.name}`.",
            name=error.name,
        ) from None
    if keras.config.backend() != "tensorflow":
        raise ImportError(
            f"{_NEEDED}Keras has been imported with the backend {keras.config.backend()!r}: set "
            "KERAS_BACKEND=tensorflow in the environment and start Python again."
        )


def check_configuration() -> None:
    """Raises ImportError if Keras would take another backend, before it is imported."""
    backend = os.environ.get("KERAS_BACKEND")
    if backend:
        if backend != "tensorflow":
            raise ImportError(
                f"{_NEEDED}the environment has KERAS_BACKEND={backend}: set "
                "KERAS_BACKEND=tensorflow before Keras is imported."
            )
        return
    file = Path(os.environ.get("KERAS_HOME", "~/.keras"), "keras.json").expanduser()
    try:
        backend = json.loads(file.read_text(encoding="utf-8")).get("backend", "tensorflow")
    except (OSError, ValueError):  # Keras then also takes its default.
        return
    if backend != "tensorflow":
        raise ImportError(
            f'{_NEEDED}{file} has "backend": "{backend}": set KERAS_BACKEND=tensorflow in the '
            "environment, which comes before the file, or change the file."
        )


_import_keras()
