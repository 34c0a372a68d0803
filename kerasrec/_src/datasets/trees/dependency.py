"""Dependency trees: sentences in which words are the nodes of a tree."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any

from nltk import Tree

from kerasrec._src.datasets.trees.constituency import preorder
from kerasrec._src.datasets.validation import expect_word, index_of
from kerasrec._src.short_repr import short_repr

OPTIONAL_COLUMNS = ("upos", "relations", "lemmas", "xpos", "feats", "deps", "misc")


@dataclass(frozen=True)
class DependencyTree:
    """A sentence and the head of each of its words, which are checked to form a tree.

    Attributes:
        words: The words (`str`), in the order of the sentence.
        heads: For each word its head, a place in `words` from 0; -1 for the root.
        upos: For each word its universal part of speech (`"NOUN"`), `""` if it is unknown; empty if
            all are unknown. The same holds for the other lists below.
        relations: For each word its relation to its head (`"nsubj"`, `"nmod:desc"`).
        sent_id: The source of the sentence; may be empty.
        lemmas: For each word its dictionary form.
        xpos: For each word its part of speech in the tags of the language (`"NNS"`).
        feats: For each word its features, as in a file (`"Case=Nom|Number=Sing"`).
        deps: For each word its heads and relations in the enhanced graph, as in a file
            (`"4:nsubj|6:nsubj"`, heads counted from 1).
        misc: For each word its other attributes, as in a file (`"SpaceAfter=No"`).
        metadata: The comments before the sentence by their names (`{"text": "It works."}`); those
            without a `=` have the value `""`.

    Raises:
        ValueError: If there are no words, or one is not a `str`, is empty or contains an unpaired
            surrogate; if the other lists have another
            length, or are text; if a head is not an integer, or out of range; if there is no root
            or more than one; if heads form a cycle.
    """

    words: Sequence[str]
    heads: Sequence[int]
    upos: Sequence[str] = ()
    relations: Sequence[str] = ()
    sent_id: str = ""
    lemmas: Sequence[str] = ()
    xpos: Sequence[str] = ()
    feats: Sequence[str] = ()
    deps: Sequence[str] = ()
    misc: Sequence[str] = ()
    metadata: Mapping[str, str] = field(default_factory=dict, hash=False)

    def __repr__(self) -> str:
        parts = {part.name: getattr(self, part.name) for part in fields(self)}
        return short_repr(self, {name: part for name, part in parts.items() if part})

    def __post_init__(self) -> None:
        for name in ("words", "heads", *OPTIONAL_COLUMNS):
            values = _listed(name, getattr(self, name))
            # Tuples keep checked values unchanged, and make equal trees equal.
            object.__setattr__(self, name, values)
            optional = name in OPTIONAL_COLUMNS
            if len(values) != len(self.words) and (values or not optional):
                raise ValueError(
                    f"A dependency tree of {len(self.words)} word(s) has {len(values)} {name}; "
                    f"expected one for each word{', or none at all' if optional else ''}."
                )
        if not self.words:
            raise ValueError("A dependency tree has no words; expected at least one.")
        for place, word in enumerate(self.words):
            expect_word(f"Word {place} of a dependency tree", word)
        object.__setattr__(self, "heads", tuple(map(_place, self.heads)))
        problem = problem_of_heads(self.words, self.heads)
        if problem:
            raise ValueError(f"The heads of a dependency tree do not form a tree: {problem[1]}.")

    @property
    def root(self) -> int:
        """The word without a head."""
        return self.heads.index(-1)

    @cached_property
    def dependents(self) -> list[list[int]]:
        """For each word its dependents, in the order of the sentence."""
        return _dependents(self.heads)

    @cached_property
    def order(self) -> list[int]:
        """The word of each tree node in the encoded tree: node `i` is `words[order[i]]`.

        Preorder: the root is tree node 0, and the tree of each dependent follows its head, in the
        order of the sentence.
        """
        return _order(self.root, self.dependents)


def problem_of_heads(
    words: Sequence[str], heads: Sequence[int], first: int = 0, root: int | None = None
) -> tuple[int, str] | None:
    """Returns why words and heads are not a tree, or `None`.

    Args:
        words: The words.
        heads: For each word its head, a place in `words` from 0; -1 for the root.
        first: The number from which the reader of the message counts words.
        root: The number that is the root's head for the reader of the message; `first - 1` if
            `None`.

    Returns:
        The place of a word in `words`, and the reason.
    """
    root = first - 1 if root is None else root

    def shown(word: int) -> str:
        return f"{word + first} '{words[word]}'"

    for word, head in enumerate(heads):
        if not -1 <= head < len(words):
            return word, (
                f"the head of word {shown(word)} is {head + first}, out of range; expected "
                f"{first} to {len(words) - 1 + first}, or {root} for the root"
            )
    roots = [word for word, head in enumerate(heads) if head == -1]
    if not roots:
        return 0, f"no word is the root; expected one with the head {root}"
    if len(roots) > 1:
        return roots[1], (
            f"words {' and '.join(map(shown, roots))} are all roots; expected one with the head "
            f"{root}"
        )
    reached = set(_order(roots[0], _dependents(heads)))
    if len(reached) == len(words):
        return None
    word = next(word for word in range(len(words)) if word not in reached)
    path: dict[int, int] = {}  # The place of each word on the path.
    while word not in path:
        path[word] = len(path)
        word = heads[word]
    cycle = list(path)[path[word] :]
    return cycle[0], (
        f"the heads of words {' -> '.join(map(shown, [*cycle, cycle[0]]))} form a cycle; expected "
        "every word to lead to the root"
    )


def _listed(name: str, values: Any) -> tuple[Any, ...]:
    # The letters of a text would be taken for words.
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise ValueError(
            f"{name} of a dependency tree is {values!r}; expected a list with one for each word, "
            "such as words=['it', 'works'], heads=[1, -1]."
        )
    return tuple(values)


def _place(head: Any) -> int:
    place = index_of(head)
    if place is None:
        raise ValueError(
            f"A head of a dependency tree is {head!r} (type {type(head).__name__}); expected an "
            "integer: the place of a word in words, from 0, or -1 for the root."
        )
    return place


def _dependents(heads: Sequence[int]) -> list[list[int]]:
    dependents: list[list[int]] = [[] for _ in heads]
    for word, head in enumerate(heads):
        if head >= 0:
            dependents[head].append(word)
    return dependents


def _order(root: int, dependents: list[list[int]]) -> list[int]:
    order, waiting = [], [root]
    while waiting:
        order.append(waiting.pop())
        waiting.extend(reversed(dependents[order[-1]]))
    return order


def dependencies_from_constituents(
    tree: Tree, is_left_head: Callable[[Tree], bool]
) -> tuple[DependencyTree, list[Any]]:
    """Turns each constituent into its head word, on which the words of its other parts depend.

    The head word of a leaf is its word; that of any other tree node is the head word of its head
    child. The head word of the other child depends on it. The result is projective. The tree may
    have any height.

    Args:
        tree: An `nltk.Tree` with one word, or one or two trees, below each node.
        is_left_head: Returns, for a tree node with two trees below it, whether the left one is its
            head.

    Returns:
        A `DependencyTree`, without parts of speech and relations; and, for the argument `labels` of
        `encode_dependencies`, for each word the label, as it is, of the largest constituent whose
        head word it is.

    Raises:
        ValueError: If `tree` is something else, or a tree node contains anything else.
    """
    visits = list(preorder(tree))
    words: list[str] = []
    # For each tree node: its children's numbers, and its head word.
    below: list[list[int]] = [[] for _ in visits]
    head_words = [-1] * len(visits)
    for index, (node, parent, _) in enumerate(visits):
        if parent >= 0:
            below[parent].append(index)
        kinds = [isinstance(child, str) for child in node]
        if kinds == [True]:
            head_words[index] = len(words)
            words.append(node[0])
        elif True in kinds or len(kinds) not in (1, 2):
            raise ValueError(
                f"Tree node {index} (label {node.label()!r}, preorder) holds {len(node)} "
                "child(ren); expected one word (str), or one or two trees (nltk.Tree). Binarize "
                "the tree first."
            )
    heads = [-1] * len(words)
    labels: list[Any] = [None] * len(words)
    for index in reversed(range(len(visits))):
        node = visits[index][0]
        if below[index]:
            head, *others = (
                below[index] if len(node) < 2 or is_left_head(node) else below[index][::-1]
            )
            head_words[index] = head_words[head]
            for other in others:
                heads[head_words[other]] = head_words[index]
        labels[head_words[index]] = node.label()
    return DependencyTree(words, heads), labels
