"""Tags: lists of call-site labels. The newest call is first; the root's tag is empty.

The order is that of Kostopoulou et al., section 3: CALL_i makes the tag `i : t` from a tag `t`. The
tag of entry j of a token's row is `Entry(j) : t`.
"""

from __future__ import annotations

from dataclasses import dataclass

from kerasrec._src.errors import GraphError


@dataclass(frozen=True)
class Entry:
    """The first item in the tag of an entry of a ragged row; the row's token has the rest."""

    place: int


Tag = tuple[int | Entry, ...]

ROOT: Tag = ()


def enter(label: int, tag: Tag) -> Tag:
    """Returns the tag inside the call with this label."""
    return (label, *tag)


def leave(label: int, tag: Tag) -> Tag | None:
    """Returns the caller's tag, or None if the newest call does not have this label."""
    return tag[1:] if tag and tag[0] == label else None


def enter_row(place: int, tag: Tag) -> Tag:
    """Returns the tag of an entry in the row of the token with this tag."""
    return (Entry(place), *tag)


def leave_row(tag: Tag) -> tuple[int, Tag]:
    """Returns an entry's place in its row, and the tag of the row's token."""
    entry, *rest = tag
    if not isinstance(entry, Entry):
        raise GraphError(f"The tag {tag} is not the tag of an entry of a row.")
    return entry.place, tuple(rest)
