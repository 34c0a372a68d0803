"""Implementations must agree before their times count."""

import numpy as np

TOLERANCE = 1e-4


def disagreement(computed, expected):
    """The first difference from the expected results, in words; None if there is none.

    Args:
        computed, expected: NumPy arrays by name, as `TimedBaseline.computed` has them.
    """
    for name, value in expected.items():
        found = computed[name]
        if found.shape != value.shape:
            return f"{name} has shape {found.shape} instead of {value.shape}"
        error = np.max(np.abs(found - value)) / np.max(np.abs(value))
        # NaN is not an agreement.
        if not error < TOLERANCE:
            return (
                f"{name} differs from eager recursion by up to {error:.1e} of the largest value; "
                f"{TOLERANCE:.0e} is allowed"
            )
    return None
