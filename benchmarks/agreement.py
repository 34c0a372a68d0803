"""Baselines must compute the same before their times count."""

import numpy as np

TOLERANCE = 1e-4


def disagreement(computed, expected):
    """What a baseline computes otherwise than it should, in words; None if nothing.

    Args:
        computed, expected: NumPy arrays by name, as `TimedBaseline.computed` has them.
    """
    for name, value in expected.items():
        found = computed[name]
        if found.shape != value.shape:
            return f"computes {name} of shape {found.shape} instead of {value.shape}"
        error = np.max(np.abs(found - value)) / np.max(np.abs(value))
        # Not a number is no agreement.
        if not error < TOLERANCE:
            return (
                f"computes another {name} than eager recursion: the largest difference is "
                f"{error:.1e} of the largest value, {TOLERANCE:.0e} is allowed"
            )
    return None
