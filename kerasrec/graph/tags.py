"""Tags: lists of call-site labels. The newest call stands first; the root's tag is empty.

The order is that of Kostopoulou et al., section 3: CALL_i makes `i : t` of a tag `t`.
"""

from __future__ import annotations

Tag = tuple[int, ...]

ROOT: Tag = ()


def enter(label: int, tag: Tag) -> Tag:
    """The tag inside the call with this label."""
    return (label, *tag)


def leave(label: int, tag: Tag) -> Tag | None:
    """The caller's tag, or None if the newest call is not the one with this label."""
    return tag[1:] if tag and tag[0] == label else None
