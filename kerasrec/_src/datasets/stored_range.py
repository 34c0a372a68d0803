"""Numbers that change when they are stored as float32 or int32."""

import numpy as np
from numpy.typing import ArrayLike

from kerasrec._src.int_range import LARGEST


def is_too_large(numbers: ArrayLike) -> np.ndarray:
    """Whether float32 has infinity for a finite number; bool, in the shape of the numbers.

    False for numbers that are not floats.
    """
    array = np.asarray(numbers)
    if array.dtype.kind != "f":
        return np.zeros(array.shape, bool)
    with np.errstate(over="ignore"):
        return np.isfinite(array) & ~np.isfinite(array.astype(np.float32))


def is_no_int32(numbers: np.ndarray) -> np.ndarray:
    """Whether integers, or truth values, do not fit into int32; bool, in their shape.

    False for values that are neither.
    """
    if numbers.dtype.kind not in "biu":
        return np.zeros(numbers.shape, bool)
    return (numbers > LARGEST) | (numbers < -LARGEST - 1)
