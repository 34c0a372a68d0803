"""Facts about a tensor in a trace: whether it has one value per token, and why."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

from kerasrec._src.graph.types import Kind


@dataclass(frozen=True)
class Size:
    """How a number or a shape depends on the number of tokens.

    Args:
        is_count: Whether it depends on the number of tokens.
        is_of_other_axes: Whether it is known to be computed only from sizes of other axes.
        count_at: For the shape of a tensor, the place of the number of tokens in it.
    """

    is_count: bool = False
    is_of_other_axes: bool = False
    count_at: int | None = None


@dataclass(frozen=True)
class Entries:
    """The facts about a tensor that is computed from entries of rows, not from values of tokens.

    Args:
        axis: The place of the axis of entries; None if it has none.
        crosses_rows: Whether it was computed along that axis, ignoring where rows begin.
        is_total: Whether it belongs to all entries together, as their sum does. This stays true of
            values computed from it, even together with values of tokens.
        is_size: Whether it is the number of entries, or computed only from that.
    """

    axis: int | None = None
    crosses_rows: bool = False
    is_total: bool = False
    is_size: bool = False

    @property
    def is_of_other_rows(self) -> bool:
        """Whether values of one row are computed from entries of other rows."""
        return self.crosses_rows or self.is_total


@dataclass(frozen=True)
class Known:
    """The facts about a tensor.

    Args:
        kind: Its kind.
        axis: The place of the token axis; None if it has none.
        rows: How many rows each token has, if the token axis is the first.
        is_mixed: Whether it is computed from several tokens together.
        is_single: Whether it is a list with an element for each token, or computed from an element.
        entries: The facts about it if it is computed from entries of rows.
        size: How it depends on the number of tokens.
    """

    kind: Kind
    axis: int | None = None
    rows: Fraction = Fraction(1)
    is_mixed: bool = False
    is_single: bool = False
    entries: Entries | None = None
    size: Size = Size()

    @classmethod
    def given(cls, kind: Kind) -> Known:
        """Returns what is known of a tensor that no op computes; a WAVE tensor is mixed."""
        return cls(kind, axis=0 if kind is Kind.TOKEN else None, is_mixed=kind is Kind.WAVE)

    @classmethod
    def given_entries(cls) -> Known:
        """Returns what is known of a tensor of all entries of rows that no op computes."""
        return replace(cls.given(Kind.WAVE), entries=Entries(axis=0))

    def or_else(self, other: Known) -> Known:
        """Returns what is known of a tensor that may be this one or the other one."""
        axes = {self.axis, other.axis} - {None}
        kinds = {self.kind, other.kind} - {Kind.SHARED}
        is_mixed = self.is_mixed or other.is_mixed or len(axes) > 1
        found = Known(
            kinds.pop() if len(kinds) == 1 else Kind.WAVE if kinds else Kind.SHARED,
            axis=axes.pop() if axes else None,
            rows=max(self.rows, other.rows),
            is_single=self.is_single or other.is_single,
            entries=_either(self.entries, other.entries),
            size=Size(is_count=self.size.is_count or other.size.is_count),
        )
        return replace(found, kind=Kind.WAVE, axis=None, is_mixed=True) if is_mixed else found

    def mixed(self) -> Known:
        """Returns the same for a value of several tokens together."""
        entries = self.entries and replace(self.entries, crosses_rows=True)
        return replace(self, kind=Kind.WAVE, axis=None, is_mixed=True, entries=entries)


def _either(one: Entries | None, other: Entries | None) -> Entries | None:
    """Returns what is known of values of entries that may be the one or the other."""
    if not (one and other):
        return one or other
    return Entries(
        axis=one.axis,
        crosses_rows=one.crosses_rows or other.crosses_rows or one.axis != other.axis,
        is_total=one.is_total or other.is_total,
        is_size=one.is_size and other.is_size,
    )
