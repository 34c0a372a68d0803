"""A choice that a run makes among functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf


def switch(place: tf.Tensor, branches: Sequence[Callable[[], Any]]) -> Any:
    """Returns the result of the branch at a place; a single branch needs no switch."""
    return tf.switch_case(place, branches) if len(branches) > 1 else branches[0]()
