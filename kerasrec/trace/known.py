"""What tracing knows of a tensor: whether it has one value per token, and how that came about."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

import tensorflow as tf

from kerasrec.graph.types import Kind


@dataclass(frozen=True)
class Size:
    """What a number or a shape says of how many tokens there are.

    Args:
        is_count: whether it depends on how many tokens there are.
        is_of_other_axes: whether it is known to be computed from sizes of other axes alone.
        count_at: of the shape of a tensor, the place in it of the number of tokens.
    """

    is_count: bool = False
    is_of_other_axes: bool = False
    count_at: int | None = None


@dataclass(frozen=True)
class Known:
    """What is known of a tensor.

    Args:
        kind: its kind.
        axis: the place of the token axis, None if it has none.
        rows: how many rows each token has, if the token axis is the first.
        is_mixed: whether it is of several tokens together.
        is_of_all_entries: whether it is computed from all entries of rows together, as a softmax
            of all of them is.
        is_single: whether it is a list of single tokens, or computed from an entry of one.
        size: what it says of how many tokens there are.
    """

    kind: Kind
    axis: int | None = None
    rows: Fraction = Fraction(1)
    is_mixed: bool = False
    is_of_all_entries: bool = False
    is_single: bool = False
    size: Size = Size()

    @classmethod
    def given(cls, kind: Kind) -> Known:
        """What is known of a tensor that no op computes; one of several tokens is mixed."""
        return cls(kind, axis=0 if kind is Kind.TOKEN else None, is_mixed=kind is Kind.WAVE)

    def or_else(self, other: Known) -> Known:
        """What is known of a tensor that is one or the other."""
        axes = {self.axis, other.axis} - {None}
        kinds = {self.kind, other.kind} - {Kind.SHARED}
        is_mixed = self.is_mixed or other.is_mixed or len(axes) > 1
        found = Known(
            kinds.pop() if len(kinds) == 1 else Kind.WAVE if kinds else Kind.SHARED,
            axis=axes.pop() if axes else None,
            rows=max(self.rows, other.rows),
            is_of_all_entries=self.is_of_all_entries or other.is_of_all_entries,
            is_single=self.is_single or other.is_single,
            size=Size(is_count=self.size.is_count or other.size.is_count),
        )
        return found.mixed() if is_mixed else found

    def mixed(self) -> Known:
        """The same, of several tokens together."""
        return replace(self, kind=Kind.WAVE, is_mixed=True, axis=None)


def has_open_rows(tensor: tf.Tensor) -> bool:
    """Whether the size of the first axis is not known while tracing, as that of tokens is not."""
    shape = tensor.shape
    return shape.rank is None or (shape.rank >= 1 and shape[0] is None)
