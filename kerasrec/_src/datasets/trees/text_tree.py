"""Trees for sentences that come without trees."""

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal

from nltk import Tree

from kerasrec._src.datasets.expected import expect_word_at


def text_tree(
    text: str | Sequence[str],
    shape: Literal["balanced", "left", "right"] = "balanced",
    label: Any = None,
) -> Tree:
    """Puts the words of a sentence into a binary tree whose shape depends only on their number.

    | shape | `a b c d` | height, over n words |
    |---|---|---|
    | `"balanced"` | `((a b) (c d))` | the logarithm of n: the most that can run at once |
    | `"left"` | `(((a b) c) d)` | n: the sentence is read from left to right |
    | `"right"` | `(a (b (c d)))` | n: the sentence is read from right to left |

    `"balanced"` gives the balanced and the others give the linear dataset of Jeong et al. 2018,
    section 6.3.

    Args:
        text: A sentence, which is split at ASCII spaces, tabs and line breaks, as the readers of
            files do; or its words, which are taken as they are.
        shape: The shape of the tree: `"balanced"`, `"left"` or `"right"`.
        label: The label of the root, such as the sentence's class.

    Returns:
        An `nltk.Tree` whose nodes have one word or two trees below them; their label is `None`,
        except for the root's.

    Raises:
        ValueError: If `text` is something else, there are no words, a word is empty, contains
            an unpaired surrogate or is not a `str`, or `shape` is none of the three.
    """
    if not isinstance(text, Iterable):
        raise ValueError(f"text is {text!r}; expected a sentence, or a list of its words.")
    words = re.findall(r"[^ \t\r\n]+", text) if isinstance(text, str) else list(text)
    if not words:
        raise ValueError("text has no words; expected a sentence, or at least one word.")
    for place, word in enumerate(words):
        expect_word_at(f"Word {place} of text", word)
    shapes: dict[str, Callable[[list[Tree]], Tree]] = {
        "balanced": _balanced,
        "left": _left,
        "right": _right,
    }
    if shape not in shapes:
        raise ValueError(f"shape is {shape!r}; expected one of {', '.join(shapes)}.")
    tree = shapes[shape]([Tree(None, [word]) for word in words])
    tree.set_label(label)
    return tree


def _balanced(trees: list[Tree]) -> Tree:
    if len(trees) == 1:
        return trees[0]
    middle = (len(trees) + 1) // 2
    return Tree(None, [_balanced(trees[:middle]), _balanced(trees[middle:])])


def _left(trees: list[Tree]) -> Tree:
    tree, *others = trees
    for other in others:
        tree = Tree(None, [tree, other])
    return tree


def _right(trees: list[Tree]) -> Tree:
    tree, *others = reversed(trees)
    for other in others:
        tree = Tree(None, [other, tree])
    return tree
