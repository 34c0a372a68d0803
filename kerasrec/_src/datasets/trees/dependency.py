"""A sentence whose words are the nodes of a tree."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

from kerasrec._src.datasets.expected import expect_word_at, index_of
from kerasrec._src.short_repr import short_repr


@dataclass(frozen=True)
class DependencyTree:
    """A sentence and the head of each of its words, which are checked to form a tree.

    Attributes:
        words: The words (`str`), in the order of the sentence.
        heads: For each word its head, a place in `words` from 0; -1 for the root.
        upos: For each word its universal part of speech (`"NOUN"`), `""` if it is unknown; empty if
            all are unknown.
        relations: For each word its relation to its head (`"nsubj"`, `"nmod:desc"`), `""` if it is
            unknown; empty if all are unknown.
        sent_id: The source of the sentence; may be empty.

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

    def __repr__(self) -> str:
        return short_repr(self, {item.name: getattr(self, item.name) for item in fields(self)})

    def __post_init__(self) -> None:
        for name in ("words", "heads", "upos", "relations"):
            values = _listed(name, getattr(self, name))
            # Tuples keep what was checked, and make equal trees equal.
            object.__setattr__(self, name, values)
            optional = name in ("upos", "relations")
            if len(values) != len(self.words) and (values or not optional):
                raise ValueError(
                    f"A dependency tree of {len(self.words)} word(s) has {len(values)} {name}; "
                    f"expected one for each word{', or none at all' if optional else ''}."
                )
        if not self.words:
            raise ValueError("A dependency tree has no words; expected at least one.")
        for place, word in enumerate(self.words):
            expect_word_at(f"Word {place} of a dependency tree", word)
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
        """For each word the words whose head it is, in the order of the sentence."""
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
    """Returns what keeps words and heads from being a tree, or `None`.

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
        return 0, f"no word is the root; expected one whose head is {root}"
    if len(roots) > 1:
        return roots[1], (
            f"words {' and '.join(map(shown, roots))} are all roots; expected one whose head is "
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
