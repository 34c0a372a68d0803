"""Regions: parts of a function whose tokens are made from those of the part around them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kerasrec.graph.graph import Value


@dataclass(frozen=True)
class Region:
    """Nodes whose tokens are made from those of the region around them.

    Args:
        parent: the region around it; None for the body of the function.
        selector: TOKEN value of the parent that says which of its tokens are here: the predicate
          of a `Branch`, the lengths of an `Each`.
    """

    parent: Region | None
    selector: Value

    @property
    def siblings(self) -> tuple[Region, ...]:
        """The regions with the same selector, including this one."""
        return (self,)

    def path(self) -> tuple[Region, ...]:
        """Regions from the outermost to this one."""
        return (self.parent.path() if self.parent else ()) + (self,)


@dataclass(frozen=True)
class Branch(Region):
    """A branch of a conditional: the tokens whose predicate chose it.

    Args:
        branch: which output of a SWITCH on the predicate enters this region.
        num_branches: how many branches the conditional has.
    """

    branch: int
    num_branches: int

    @property
    def siblings(self) -> tuple[Region, ...]:
        """All branches of the conditional."""
        return branches(self.parent, self.selector, self.num_branches)


@dataclass(frozen=True)
class Each(Region):
    """The entries of ragged rows: each token has as many as `selector` says, int32."""


def branches(parent: Region | None, predicate: Value, num_branches: int) -> tuple[Branch, ...]:
    """The regions of a conditional."""
    return tuple(Branch(parent, predicate, place, num_branches) for place in range(num_branches))
