"""The rule for numbers in text files: finite decimal numbers in ASCII, such as -0.25, .5 or 1e-3.

Python's float also accepts 1_0, digits of other scripts, nan and infinity.
"""

import math
import re

DECIMAL = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")


def decimal_of(text: str) -> float | None:
    """A finite decimal number as float; None for any other text.

    Args:
        text: The number as it is written, without blanks.
    """
    number = float(text) if DECIMAL.fullmatch(text) else math.inf
    return number if math.isfinite(number) else None
