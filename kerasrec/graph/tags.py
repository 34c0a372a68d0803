"""Tags: lists of call-site labels. The newest call stands first; the root's tag is empty.

The order is that of Kostopoulou et al., section 3: CALL_i makes `i : t` of a tag `t`. The tag of
entry j of a token's row is `Entry(j) : t`.
"""

from __future__ import annotations

from dataclasses import dataclass

from kerasrec.errors import GraphError


@dataclass(frozen=True)
class Entry:
    """What an entry of a ragged row puts before the tag of the row's token."""

    place: int


Tag = tuple[int | Entry, ...]

ROOT: Tag = ()


def enter(label: int, tag: Tag) -> Tag:
    """The tag inside the call with this label."""
    return (label, *tag)


def leave(label: int, tag: Tag) -> Tag | None:
    """The caller's tag, or None if the newest call is not the one with this label."""
    return tag[1:] if tag and tag[0] == label else None


def enter_row(place: int, tag: Tag) -> Tag:
    """The tag of an entry of the row of the token with this tag."""
    return (Entry(place), *tag)


def leave_row(tag: Tag) -> tuple[int, Tag]:
    """An entry's place in its row, and the tag of the token whose row it is."""
    entry, *rest = tag
    if not isinstance(entry, Entry):
        raise GraphError(f"The tag {tag} is not the tag of an entry of a row.")
    return entry.place, tuple(rest)
