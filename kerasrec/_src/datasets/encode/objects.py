"""From trees of any Python objects to arrays."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, Literal, TypeVar

import numpy as np

from kerasrec._src.datasets.encode.sentences import EncodedTree
from kerasrec._src.datasets.encode.vocabulary import Vocabulary, class_of, expect_vocabulary
from kerasrec._src.datasets.encode.walk import Walk, short
from kerasrec._src.datasets.trees.child_rows import ChildRows
from kerasrec._src.datasets.validation import index_of, problem_of_word
from kerasrec._src.int_range import LARGEST

Node = TypeVar("Node")


def encode_objects(
    root: Node,
    *,
    children_of: Callable[[Node], Iterable[Node]],
    token_of: Callable[[Node], str | int | Sequence[int] | None] | None = None,
    features_of: Callable[[Node], Sequence[float] | np.ndarray | None] | None = None,
    edge_features_of: Callable[[Node], Iterable[Sequence[float] | np.ndarray | None]] | None = None,
    label_of: Callable[[Node], float | None] | None = None,
    vocabulary: Vocabulary | None = None,
    labels: Literal["nodes", "root"] = "nodes",
    arity: int | None = None,
    shared_nodes: bool = False,
    key_of: Callable[[Node], Hashable] | None = None,
) -> EncodedTree:
    """Turns a tree of any Python objects into arrays for tree layers, its nodes in preorder.

    Functions describe the tree, so it may consist of anything: of a user's own class, of lists and
    dicts that come from JSON, of nodes of `ast` or `xml.etree`. It may have any height.

    Each place in a tree is a tree node. An object that stands at two places is an error, since a
    tree layer would read two copies of it, unless nodes may be shared. Strings, numbers, tuples,
    None, and objects without fields in `ast`, such as `Load()`, are values: they may be repeated,
    and are never shared.

    Args:
        root: Any object.
        children_of: Returns a node's children: a list of nodes, in their order, empty for a leaf.
        token_of: Returns a node's token: a word, which is looked up in `vocabulary`; an integer, 0
            or more; several integers, as many for each node; or None, which is 0. The first token
            that is not None decides which of these.
        features_of: Returns a node's vector of features, as many for each node; None is zeros.
            `token_of`, `features_of` or both must be given.
        edge_features_of: Returns the features of the edges from a node to its children: a list of
            vectors, one for each child in the order of `children_of`, None for zeros; or an array
            `[children, features]`, which tells the number of features even of a tree without edges.
            A node has an edge from each parent.
        label_of: Returns a label: a class, an integer from 0 or text that reads as one, as for
            `encode_tree`; or a number, a float; None where a node has no label. By default no node
            has one.
        vocabulary: The vocabulary that gives words their tokens.
        labels: The things that have labels. `"nodes"`: each node may have one. `"root"`: `label_of`
            is called only for the root, and the tree has its label.
        arity: The number of slots for the children of a node; then `children_of` may return None
            for a slot without a child. By default there may be any number of children.
        shared_nodes: Whether a node may have several parents, so that the result is a directed
            acyclic graph. Its nodes come after all their parents. Pass `shared_nodes=True` to
            `tree_batches`, `write_tree_files` and the layer as well.
        key_of: Returns what tells a node from all others, such as its number in a graph: nodes with
            equal keys are one node. By default an object is a node, and a value is a separate node
            at each place.

    Returns:
        An `EncodedTree`, which `tree_batches`, `tree_pair_batches`, `write_tree_files` and
        `check_tree` accept:

        - `tokens`: int32 `[nodes]`, or `[nodes, ids]` if there are several integers; float32
          `[nodes, features]` without `token_of`; with both a tuple of the two.
        - `children`: `ChildRows`, a row of node numbers for each node; with `arity` int32 `[nodes,
          arity]`, -1 = no child. With `edge_features_of` always `ChildRows`, which have features of
          edges.
        - `labels`: int32 `[nodes]`, -1 = none, or float32 `[nodes]`, NaN = none; with
          `labels="root"` one number, int32 or float32 `[]`. `kerasrec.training.TreeSquaredError`
          and `TreeCrossentropy` leave out nodes without a label; losses of Keras do not.

    Raises:
        ValueError: If a function returns anything other than described above, such as an empty
            word, a vector of another length or with an entry that is not a finite number, or a
            class that is not an integer; if a node is found twice, in a cycle or, without
            `shared_nodes`, below two parents;
            or if the root has neither a token nor features nor children. The message has the path
            of the node, such as `root/child 2/child 0`.
        Exception: Any exception that a function raises, with a note that has the path of the node.

    Example:

    >>> formula = {"op": "+", "args": [{"op": "x"}, {"op": "y"}]}
    >>> tree = kerasrec.datasets.encode_objects(
    ...     formula,
    ...     children_of=lambda node: node.get("args", []),
    ...     token_of=lambda node: " +xy".index(node["op"]),
    ... )
    >>> tree.tokens, tree.children
    (array([1, 2, 3], dtype=int32), [[1, 2], [], []])

    The syntax tree of a program:

    >>> import ast
    >>> program = ast.parse("x = y + y")
    >>> kinds = ["Module", "Assign", "Name", "Store", "BinOp", "Load", "Add"]
    >>> tree = kerasrec.datasets.encode_objects(
    ...     program,
    ...     children_of=ast.iter_child_nodes,
    ...     token_of=lambda node: kinds.index(type(node).__name__) + 1,
    ... )
    >>> tree.tokens
    array([1, 2, 3, 4, 5, 3, 6, 7, 3, 6], dtype=int32)
    """
    if token_of is None and features_of is None:
        raise ValueError("Pass token_of, features_of or both, for the inputs of tree nodes.")
    if labels not in ("nodes", "root"):
        raise ValueError(f'labels is {labels!r}; expected "nodes" or "root".')
    if vocabulary is not None:
        expect_vocabulary(vocabulary)
    walk = Walk(root, children_of, arity, shared_nodes, key_of)
    inputs: list[_Tokens | _Features] = []
    if token_of is not None:
        inputs.append(_Tokens(walk, token_of, vocabulary))
    if features_of is not None:
        inputs.append(_Features(walk, features_of))
    edges = None if edge_features_of is None else _EdgeFeatures(walk, edge_features_of)
    targets = _Labels(walk, label_of or (lambda _: None))
    columns = [*inputs, *([] if edges is None else [edges])]
    for place, _ in enumerate(walk):
        for column in columns:
            column.add(place)
        if labels == "nodes" or place == 0:
            targets.add(place)
    order, children = _order_and_children(walk, arity, edges)
    arrays = [column.array()[order] for column in inputs]
    if len(walk.nodes) == 1 and features_of is None and not np.any(arrays[0]):
        raise ValueError("root has neither a token nor children; expected a tree of something.")
    return EncodedTree(
        arrays[0] if len(arrays) == 1 else tuple(arrays),
        children,
        targets.array()[order] if labels == "nodes" else targets.array()[0],
    )


def _order_and_children(
    walk: Walk, arity: int | None, edges: _EdgeFeatures | None
) -> tuple[np.ndarray, Any]:
    """The visited nodes in the order of the result, and the children of each one there."""
    parents, slots, below = walk.edges()
    features = None if edges is None else edges.rows(parents, slots)
    order = walk.order()
    number = np.argsort(order)
    parents, below = number[parents], number[below]
    if arity is not None:
        table = np.full((len(order), arity), -1, np.int32)
        table[parents, slots] = below
        if features is None:
            return order, table
        rows = ChildRows.from_children(table)
        all_features = np.zeros([len(rows.values), features.shape[1]], np.float32)
        all_features[parents * arity + slots] = features
        return order, ChildRows(rows.values, rows.splits, all_features)
    splits = np.cumsum([0, *np.bincount(parents, minlength=len(order))])
    by_parent = np.lexsort((slots, parents))
    features = None if features is None else features[by_parent]
    return order, ChildRows(below[by_parent].astype(np.int32), splits, features)


class _Column:
    """The results of a function for each visited node.

    Args:
        walk: Tells where the last visited node stands.
        function: The function.
    """

    argument = ""  # the name of the function
    what = ""  # what it returns

    def __init__(self, walk: Walk, function: Callable[[Any], Any]) -> None:
        self._walk = walk
        self._function = function
        self._values: list[Any] = []

    def add(self, place: int) -> None:
        """Adds the result for the last visited node, at a place of the walk."""
        value = self._walk.ask(self.argument, self._function, place)
        self._values.append(None if value is None else self._checked(value))

    def _checked(self, value: Any) -> Any:
        raise NotImplementedError

    def _filled(self, none: Any) -> list[Any]:
        return [none if value is None else value for value in self._values]

    def _error(self, problem: str) -> ValueError:
        place = self._walk.path(len(self._walk.nodes) - 1)
        return ValueError(f"The {self.what} of {place} {problem}")

    def _fail(self, value: Any, expected: str) -> ValueError:
        return self._error(f"is {short(value)}; expected {expected}.")


class _Tokens(_Column):
    argument, what = "token_of", "token"

    def __init__(
        self, walk: Walk, function: Callable[[Any], Any], vocabulary: Vocabulary | None
    ) -> None:
        super().__init__(walk, function)
        self._vocabulary = vocabulary
        self._kind: Any = None  # str, int, or how many integers

    def _checked(self, token: Any) -> Any:
        kind: Any = str
        value: Any = token
        if isinstance(token, str):
            if self._vocabulary is None:
                raise self._fail(token, "an integer, since no vocabulary= is given")
            problem = problem_of_word(token)
            if problem:
                raise self._error(problem)
        elif isinstance(token, tuple | list | np.ndarray) and np.ndim(token) == 1:
            kind, value = len(token), [self._integer(number, token) for number in token]
        else:
            kind, value = int, self._integer(token, token)
        self._kind = kind if self._kind is None else self._kind
        if kind != self._kind:
            raise self._fail(token, f"{self._name()}, as the tokens before")
        return value

    def _integer(self, number: Any, token: Any) -> int:
        integer = index_of(number)
        if integer is None or not 0 <= integer <= LARGEST:
            raise self._fail(
                token, f"a word, an integer from 0 to {LARGEST}, several of them, or None"
            )
        return integer

    def _name(self) -> str:
        if self._kind is str:
            return "a word"
        return "an integer" if self._kind is int else f"{self._kind} integers"

    def array(self) -> np.ndarray:
        """Returns the tokens, int32 `[nodes]` or `[nodes, ids]`."""
        if self._kind is str and self._vocabulary is not None:
            words = [value for value in self._values if value is not None]
            tokens = np.zeros(len(self._values), np.int32)
            tokens[[value is not None for value in self._values]] = self._vocabulary.encode(words)
            return tokens
        none: Any = 0 if self._kind in (int, None) else [0] * self._kind
        return np.array(self._filled(none), np.int32)


class _Features(_Column):
    argument, what = "features_of", "vector of features"
    of = "nodes"
    _size: int | None = None

    def _checked(self, features: Any) -> Any:
        expected = "a list of numbers" if self._size is None else f"{self._size} numbers, as before"
        try:
            array = np.asarray(features)
            # NumPy makes numbers of texts, and of truth values next to numbers.
            entries = features if isinstance(features, list | tuple) else array.ravel()[:1]
            entries = array.ravel() if array.dtype == object else entries
            are_others = any(isinstance(entry, str | bytes | bool | np.bool_) for entry in entries)
            with np.errstate(over="ignore"):
                vector = array.astype(np.float32)
        except (TypeError, ValueError) as error:
            raise self._fail(features, expected) from error
        if are_others or vector.ndim != 1 or self._size not in (None, len(vector)):
            raise self._fail(features, expected)
        if not np.isfinite(vector).all():
            raise self._fail(features, "finite numbers")
        self._size = len(vector)
        return vector

    def array(self) -> np.ndarray:
        """Returns the features, float32 `[nodes, features]`."""
        if self._size is None:
            raise ValueError(
                f"{self.argument} gives None for all {self.of}; expected a vector for some."
            )
        filled = self._filled(np.zeros(self._size, np.float32))
        return np.array(filled, np.float32).reshape(-1, self._size)


class _EdgeFeatures(_Features):
    argument, what = "edge_features_of", "vector of features of an edge"
    of = "edges"

    def __init__(self, walk: Walk, function: Callable[[Any], Any]) -> None:
        super().__init__(walk, function)
        self._starts = [0]

    def add(self, place: int) -> None:
        """Adds the vectors of the edges to the children of the last visited node."""
        given = self._walk.ask(self.argument, self._function, place)
        if isinstance(given, str | bytes | dict) or not isinstance(given, Iterable):
            raise ValueError(
                f"edge_features_of gives {short(given)} for {self._walk.path(place)}; expected a "
                "list of vectors, one for each child."
            )
        if isinstance(given, np.ndarray) and given.ndim == 2 and self._size is None:
            self._size = given.shape[1]
        vectors = self._walk.ask(self.argument, lambda _: list(given), place)
        self._values += [None if vector is None else self._checked(vector) for vector in vectors]
        self._starts.append(len(self._values))

    def rows(self, parents: np.ndarray, slots: np.ndarray) -> np.ndarray | None:
        """The vectors of edges, float32 `[edges, features]`; None if their size is not known."""
        counts = zip(np.diff(self._starts), self._walk.num_slots, strict=True)
        for place, (given, expected) in enumerate(counts):
            if given != expected:
                raise ValueError(
                    f"edge_features_of gives {given} vectors for {self._walk.path(place)}, which "
                    f"has {expected} children; expected one for each, in the order of children_of."
                )
        if self._size is None and not len(parents):
            return None
        return self.array()[np.array(self._starts)[parents] + slots]


class _Labels(_Column):
    argument, what = "label_of", "label"
    _is_float: bool | None = None

    def _checked(self, label: Any) -> Any:
        is_float = isinstance(label, float | np.floating)
        self._is_float = is_float if self._is_float is None else self._is_float
        if self._is_float:
            with np.errstate(over="ignore"):
                number = np.float32(label) if is_float or index_of(label) is not None else np.inf
            if not np.isfinite(number):
                raise self._fail(label, "a finite number, or None for none")
            return number
        try:
            return class_of(label, None, "a node")
        except ValueError:
            expected = f"a class, an integer from 0 to {LARGEST}, or None for none"
            raise self._fail(label, expected) from None

    def array(self) -> np.ndarray:
        """Returns the labels, int32 or float32 `[nodes]`."""
        none = np.nan if self._is_float else -1
        return np.array(self._filled(none), np.float32 if self._is_float else np.int32)
