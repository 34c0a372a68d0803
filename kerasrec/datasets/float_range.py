"""Numbers that are finite until they are stored as float32."""

import numpy as np
from numpy.typing import ArrayLike


def is_too_large(numbers: ArrayLike) -> np.ndarray:
    """Whether float32 has infinity for a finite number; bool, of the shape of the numbers.

    False for all that are no floats.
    """
    array = np.asarray(numbers)
    if array.dtype.kind != "f":
        return np.zeros(array.shape, bool)
    with np.errstate(over="ignore"):
        return np.isfinite(array) & ~np.isfinite(array.astype(np.float32))
