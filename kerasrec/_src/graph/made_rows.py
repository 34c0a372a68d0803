"""The rows that a run makes, in the interpreter: NEW makes them, PUT fills them, GET reads them.

In sweep 0, whoever has the key of a row finds all of it. In a gradient, several PUTs may add to a
row, so GETs wait until nothing else can run. Then one goes on: in a sweep that goes backwards, the
GET of the row that was put last in sweep 0. Ops that read a row run after its PUT, so in reverse
they have run by then. In a later sweep that goes forwards, the row that was put first comes first.
"""

from __future__ import annotations

from operator import itemgetter
from typing import Any

import tensorflow as tf

from kerasrec._src.graph.carried import Entry, Tag, key_of_row, leave_row
from kerasrec._src.graph.graph import TaggedGraph
from kerasrec._src.graph.nodes import Get, New, Put
from kerasrec._src.graph.values import Node

# There is room for so many entries of one list.
_ENTRIES = 1 << 12


class MadeRows:
    """The rows of a run.

    Args:
        graph: The program.
    """

    def __init__(self, graph: TaggedGraph):
        self._sweeps = {
            node: index
            for body in graph.bodies.values()
            for index, sweep in enumerate(body.sweeps)
            for node in sweep.nodes
            if isinstance(node, Get)
        }
        self._first: dict[tuple[Node, int, Tag], int] = {}
        # By the name of rows or of a table, and a key: when it was put first, and the value.
        self._order: dict[tuple[str, int], int] = {}
        self._content: dict[tuple[str, int], Any] = {}
        self._waiting: list[tuple[tuple[int, int], Get, Tag, int]] = []

    def new(self, node: New, root_token: int, tag: Tag) -> tf.Tensor:
        """Returns the key of new rows; those of the entries of one list follow each other."""
        place = 0
        if tag and isinstance(tag[0], Entry):
            place, tag = leave_row(tag)
        row = self._first.setdefault((node, root_token, tag), _ENTRIES * len(self._first))
        return key_of_row(node.number, tf.constant([row + place * node.width]))

    def put(self, node: Put, value: Any, key: int) -> None:
        """Adds a value to a row."""
        self._order.setdefault((node.rows, key), len(self._order))
        row = node.name, key
        self._content[row] = self._content[row] + value if row in self._content else value

    def get(self, node: Get, key: int) -> Any:
        """Returns a row; zeros if nothing was put there."""
        kind = node.types[0]
        found = self._content.get((node.name, key))
        return tf.zeros([1, *(kind.shape or ())], kind.dtype) if found is None else found

    def waits(self, node: Get, tag: Tag, key: int) -> bool:
        """Whether a GET must wait; it is released later."""
        sweep, order = self._sweeps[node], self._order.get((node.rows, key), -1)
        if sweep:
            self._waiting.append(((sweep, -order if sweep % 2 else order), node, tag, key))
        return bool(sweep)

    def released(self) -> tuple[Get, Tag, int] | None:
        """Returns the GET that goes on, with its tag and key; this is for when nothing can run."""
        if not self._waiting:
            return None
        first = min(self._waiting, key=itemgetter(0))
        self._waiting.remove(first)
        return first[1:]
