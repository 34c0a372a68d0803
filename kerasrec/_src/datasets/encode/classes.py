"""The classes of labels."""

import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from kerasrec._src.datasets.expected import index_of
from kerasrec._src.datasets.trees.reshaping import MARKER
from kerasrec._src.int_range import LARGEST

NO_CLASS = -1


def class_of(label: Any, classes: Mapping[Any, int] | None, place: str) -> int:
    """Returns the class of a label.

    Args:
        label: An integer other than True and False, or text that reads as one (ASCII digits); or
            any label that `classes` contains. `None`, empty text and text that ends in `|`, which
            `binarize` makes, stand for no label unless they are in `classes`.
        classes: The class of each label; by default labels are classes.
        place: The label's place, for messages.

    Returns:
        The class, 0 or more, or -1 for none.

    Raises:
        ValueError: If the label is not an integer, or not in `classes`; or if the class is not an
            integer (such as a fraction), less than -1, or too large for int32.
    """
    # True is equal to 1, so that it would be found in {1: 0}.
    is_bool = isinstance(label, bool | np.bool_)
    is_other = is_bool and not any(isinstance(known, bool | np.bool_) for known in classes or ())
    if classes is not None and label in classes and not is_other:
        number = _integer(classes[label])
        if number is None:
            raise ValueError(
                f"labels gives {label!r}, the label of {place}, the class {classes[label]!r}; "
                "expected an integer, 0 or more, or -1 for none."
            )
        return number
    if label is None or (isinstance(label, str) and (not label or label.endswith(MARKER))):
        return NO_CLASS
    if classes is not None:
        known = ", ".join(map(repr, list(classes)[:5]))
        raise ValueError(
            f"Label {label!r} of {place} is not in labels, which has {len(classes)}: "
            f"{known}{', ...' if len(classes) > 5 else ''}. Add it, with -1 for none."
        )
    is_number = isinstance(label, str) and re.fullmatch(r"[+-]?[0-9]{1,10}", label)
    number = _integer(int(label) if is_number else label)
    if number is None:
        raise ValueError(
            f"Label {label!r} of {place} is neither an integer from 0 nor -1. Give each label a "
            "class 0, 1, ..., by a dict: Treebank and encode_tree take it as labels, other "
            "functions take [classes.get(label) for label in labels]. None is no label."
        )
    return number


def _integer(value: Any) -> int | None:
    number = index_of(value)
    return number if number is not None and NO_CLASS <= number <= LARGEST else None
