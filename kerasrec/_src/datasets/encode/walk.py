"""Walks over trees of any Python objects, without recursion, so that trees may have any height."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Any, TypeVar

import numpy as np

from kerasrec._src.datasets.trees.child_rows import parents_first

Node = TypeVar("Node")

# Equal values may be one object, wherever they stand: each place is a separate tree node.
_VALUES = (str, bytes, int, float, complex, tuple, frozenset, type(None))


def _is_value(node: Any) -> bool:
    """Whether a node may stand at several places because it is equal to itself.

    `ast.parse` has one object for all `Load()`, and one for all `Add()`.
    """
    return isinstance(node, _VALUES) or (isinstance(node, ast.AST) and not node._fields)


class Walk:
    """The nodes of a tree in preorder: the root first, then each child's tree, left to right.

    Args:
        root: Any object.
        children_of: Returns a node's children, a list of nodes.
        arity: The largest number of children of a node, some of which may be None, for no child;
            None for any number, all of which must be nodes.
        shared_nodes: Whether a node may have several parents. It is visited once.
        key_of: Returns what tells a node from others; by default the object itself does, unless it
            is a value.

    Attributes:
        nodes: The visited nodes, in order; so that they live, and no two have the same `id`.
        parents: The place in `nodes` of each visited node's parent; -1 for the root.
        slots: The place of each visited node among its parent's children; -1 for the root.
        num_slots: The number of each visited node's children, None among them.
    """

    def __init__(
        self,
        root: Any,
        children_of: Callable[[Any], Iterable[Any]],
        arity: int | None,
        shared_nodes: bool,
        key_of: Callable[[Any], Hashable] | None,
    ) -> None:
        self.nodes: list[Any] = []
        self.parents: list[int] = []
        self.slots: list[int] = []
        self.num_slots: list[int] = []
        self._further: list[tuple[int, int, int]] = []
        self._shared_nodes = shared_nodes
        self._children_of = children_of
        self._key_of = key_of or (lambda node: None if _is_value(node) else id(node))
        self._arity = arity
        self._waiting: list[tuple[Any, int, int]] = [(root, -1, -1)]

    def __iter__(self) -> Iterator[Any]:
        """Visits the nodes.

        Raises:
            ValueError: If `children_of` returns anything other than a list of nodes, or too many;
                or if a node is found twice.
            Exception: Any exception that `children_of` raises, with a note that names the node.
        """
        seen: dict[Hashable, int] = {}
        while self._waiting:
            node, parent, slot = self._waiting.pop()
            place = len(self.nodes)
            key = self._key_of(node)
            if key is not None:
                before = seen.setdefault(key, place)
                if before != place:
                    self._again(before, parent, slot)
                    continue
            self.nodes.append(node)
            self.parents.append(parent)
            self.slots.append(slot)
            yield node
            children = self._checked(place)
            self.num_slots.append(len(children))
            self._waiting += [
                (child, place, number)
                for number, child in reversed(list(enumerate(children)))
                if self._arity is None or child is not None
            ]

    def edges(self) -> np.ndarray:
        """The parent, the slot and the child of each edge of the visited nodes, `[3, edges]`."""
        firsts = zip(self.parents[1:], self.slots[1:], range(1, len(self.nodes)), strict=True)
        return np.array([*firsts, *self._further], np.int64).reshape(-1, 3).T

    def order(self) -> np.ndarray:
        """The places of the visited nodes, `[nodes]`, in the order of the rows of a batch.

        They are in the order of the visits, unless some have several parents: then they come after
        all of them.
        """
        parents, _, below = self.edges()
        if not self._further:
            return np.arange(len(self.nodes))
        return parents_first(parents, below, len(self.nodes))

    def path(self, place: int) -> str:
        """Returns where a visited node stands, as `root/child 2/child 0`."""
        steps = []
        while place > 0:
            steps.append(f"child {self.slots[place]}")
            place = self.parents[place]
        return "/".join(["root", *reversed(steps)])

    def ask(self, name: str, function: Callable[[Any], Any], place: int) -> Any:
        """Returns the result of a user's function for a visited node.

        Args:
            name: The user's name for the function.
            function: A function of a node.
            place: The place of the node in `nodes`.

        Raises:
            Exception: Any exception that the function raises, with a note that names the node.
        """
        try:
            return function(self.nodes[place])
        except Exception as error:
            add_note(error, f"{name} raised this at {self.path(place)}.")
            raise

    def _checked(self, place: int) -> list[Any]:
        given = self.ask("children_of", self._children_of, place)
        if isinstance(given, str | bytes | dict) or not isinstance(given, Iterable):
            hint = {
                dict: " Give list(node.values()).",
                type(None): " Give [] for none.",
            }
            raise ValueError(
                f"children_of gives {short(given)} for {self.path(place)}; expected a list of "
                f"nodes.{hint.get(type(given), '')}"
            )
        children = self.ask("children_of", lambda _: list(given), place)  # It may be a generator.
        if self._arity is None and any(child is None for child in children):
            empty = next(slot for slot, child in enumerate(children) if child is None)
            raise ValueError(
                f"Child {empty} of {self.path(place)} is None. Leave it out, or pass arity=, with "
                "which None is a slot without a child."
            )
        if self._arity is not None and len(children) > self._arity:
            raise ValueError(
                f"{self.path(place)} has {len(children)} children, but arity is {self._arity}. "
                f"Pass arity={len(children)} or more, or None for any number."
            )
        return children

    def _again(self, before: int, parent: int, slot: int) -> None:
        """Keeps that a visited node has a further parent, if it may."""
        first, again = self.path(before), f"{self.path(parent)}/child {slot}"
        above = parent
        while above > before:
            above = self.parents[above]
        if above == before:
            raise ValueError(
                f"{again} is the same node as {first}, which stands above it: nodes form a cycle. "
                "Expected a tree, without cycles."
            )
        if not self._shared_nodes:
            raise ValueError(
                f"{again} is the same node as {first}; a node of a tree has one parent. "
                "Pass shared_nodes=True, or give each parent a copy."
            )
        self._further.append((parent, slot, before))


def walk_tree(
    root: Node,
    children_of: Callable[[Node], Iterable[Node]],
    *,
    arity: int | None = None,
    shared_nodes: bool = False,
    key_of: Callable[[Node], Hashable] | None = None,
) -> Iterator[Node]:
    """Visits the nodes of a tree of Python objects, in the order of `encode_objects`.

    With equal arguments, the node of each row of `encode_objects`. Trees may have any height.

    Args:
        root: Any object.
        children_of: Returns a node's children, a list of nodes.
        arity: As for `encode_objects`.
        shared_nodes: As for `encode_objects`.
        key_of: As for `encode_objects`.

    Yields:
        The root, then each child's tree, left to right. With `shared_nodes=True` each node once,
        after all its parents.

    Raises:
        ValueError: If `children_of` returns something else, or a node is found twice, in a cycle
            or, without `shared_nodes`, below two parents.
        Exception: Any exception that `children_of` raises, with a note that names the node.

    Example:

    >>> formula = ["+", "x", ["*", "x", "y"]]
    >>> children = lambda node: node[1:] if isinstance(node, list) else []
    >>> [node[0] for node in kerasrec.datasets.walk_tree(formula, children)]
    ['+', 'x', '*', 'x', 'y']
    """
    walk = Walk(root, children_of, arity, shared_nodes, key_of)
    if not shared_nodes:
        return iter(walk)
    nodes = list(walk)
    return (nodes[place] for place in walk.order())


def short(value: Any) -> str:
    """The form in which an error shows a value."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def add_note(error: Exception, note: str) -> None:
    """Adds a note to an error, which keeps its class.

    A traceback shows the note below the error's message. Before Python 3.11, errors have no notes:
    there the message itself ends with the note, unless the class makes its message from something
    other than a single argument, as `OSError` does.
    """
    if sys.version_info >= (3, 11):
        error.add_note(note)
    else:
        add_to_message(error, note)


def add_to_message(error: Exception, note: str) -> None:
    """Lets the only argument of an error, which is its message, end with a note."""
    if len(error.args) == 1:
        error.args = (_Message(f"{error}\n{note}"),)


class _Message(str):
    """Text that `KeyError` prints as it is, though it prints the `repr` of its argument."""

    __repr__ = str.__str__
