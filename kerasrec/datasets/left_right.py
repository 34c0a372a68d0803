"""Dependency trees to arrays and back, for models that generate them from the root down.

Source: Zhang, Lu and Lapata 2016, Top-down Tree Long Short-Term Memory Networks, section 3,
https://aclanthology.org/N16-1035/.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from kerasrec.datasets.checking import check_tree
from kerasrec.datasets.dependency_encoding import labels_of_nodes, nodes_of_words
from kerasrec.datasets.dependency_tree import DependencyTree
from kerasrec.datasets.encoding import EncodedTree
from kerasrec.datasets.vocabulary import Vocabulary, expect_vocabulary

# The slots of `children`; the paper's edges GEN-L, GEN-R, GEN-NX-L and GEN-NX-R.
LEFT, RIGHT, NEXT_LEFT, NEXT_RIGHT = range(4)


def encode_left_right(
    tree: DependencyTree, vocabulary: Vocabulary, labels: Sequence[Any] | None = None
) -> EncodedTree:
    """Turns a dependency tree into arrays in the order in which a top-down model generates it.

    A word has up to four children, one in each slot:

    | slot | child | edge in Zhang et al. 2016 |
    |---|---|---|
    | 0 | its first dependent to the left, the one nearest to it | GEN-L |
    | 1 | its first dependent to the right, the one nearest to it | GEN-R |
    | 2 | if it is a dependent to the left: the next of its head's, further left | GEN-NX-L |
    | 3 | if it is a dependent to the right: the next of its head's, further right | GEN-NX-R |

    So every word but the root is the child of exactly one other, and the slot is the type of the
    edge between them. Which word is which tree node is as for `encode_dependencies`: tree node `i`
    is the word `tree.words[tree.order[i]]`, and tree node 0 is the root.

    Args:
        tree: A dependency tree, projective or not.
        vocabulary: Gives words their tokens.
        labels: As for `encode_dependencies`; but by default each word's label is its token, which
            such a model is to predict. -1 stands for a word that is given.

    Returns:
        An `EncodedTree`: tokens int32 `[words]`, 1 or more; children int32 `[words, 4]`, -1 = no
        child; labels int32 `[words]`, -1 = none.

    Raises:
        ValueError: As for `encode_dependencies`.
    """
    expect_vocabulary(vocabulary)
    nodes = nodes_of_words(tree)
    children = np.full((len(nodes), 4), -1, np.int32)
    for head, dependents in enumerate(tree.dependents):
        left = [word for word in reversed(dependents) if word < head]
        right = [word for word in dependents if word > head]
        for outwards, first, following in ((left, LEFT, NEXT_LEFT), (right, RIGHT, NEXT_RIGHT)):
            above, slot = head, first
            for word in outwards:
                children[nodes[above], slot] = nodes[word]
                above, slot = word, following
    tokens = vocabulary.encode(tree.words)[tree.order]
    targets = tokens.copy() if labels is None else labels_of_nodes(tree, labels)
    return EncodedTree(tokens, children, targets)


def decode_left_right(
    tokens: ArrayLike, children: ArrayLike, vocabulary: Vocabulary
) -> DependencyTree:
    """Turns arrays as `encode_left_right` makes them, or a model generates them, into a sentence.

    Args:
        tokens: Integers `[nodes]`, the word of each tree node; tree node 0 is the root, and the
            others may come in any order. Padding at the end is dropped.
        children: Integers `[nodes, 4]`; -1 = no child.
        vocabulary: Gives tokens their words; unknown words come back as `"<unk>"`.

    Returns:
        A `DependencyTree` whose words are in the order of the sentence: a word stands between its
        dependents to the left, the last of them first, and those to the right. It is the tree that
        was encoded, if that is projective. Parts of speech and relations are empty.

    Raises:
        ValueError: If the arrays hold no tree (see `check_tree`), the arity is not 4, a token is
            out of range or 0, or a tree node has a next sibling on a side where it is none.
    """
    tokens, children = np.asarray(tokens), np.asarray(children)
    check_tree(tokens, children)
    if children.shape[1] != 4:
        raise ValueError(
            f"children has {children.shape[1]} slots a tree node; expected 4: first dependent to "
            "the left and to the right, next sibling to the left and to the right."
        )
    head_of, in_order = _heads(children), _in_order(children)
    wrong = [node for node in in_order if not 0 < tokens[node] < len(vocabulary)]
    if wrong:
        raise ValueError(
            f"Token {tokens[wrong[0]]} of tree node {wrong[0]} is not a word of the vocabulary; "
            f"expected 1 to {len(vocabulary) - 1}."
        )
    place = {node: place for place, node in enumerate(in_order)}
    return DependencyTree(
        [vocabulary.words[tokens[node]] for node in in_order],
        [place.get(head_of[node], -1) for node in in_order],
    )


def _heads(children: np.ndarray) -> dict[int, int]:
    """Returns each tree node's head, -1 for the root's; raises for siblings on a wrong side."""
    heads = {0: -1}
    waiting: list[tuple[int, int | None]] = [(0, None)]
    while waiting:
        node, sibling_slot = waiting.pop()
        for slot, child in enumerate(children[node].tolist()):
            if child < 0:
                continue
            if slot in (LEFT, RIGHT):
                heads[child] = node
                waiting.append((child, NEXT_LEFT if slot == LEFT else NEXT_RIGHT))
            elif slot == sibling_slot:
                heads[child] = heads[node]
                waiting.append((child, sibling_slot))
            else:
                side = "left" if slot == NEXT_LEFT else "right"
                raise ValueError(
                    f"Tree node {node} has a next sibling to the {side} (slot {slot}), but it is "
                    f"not itself a dependent to the {side} of any word."
                )
    return heads


def _in_order(children: np.ndarray) -> list[int]:
    """Returns the tree nodes in the order of the sentence."""
    order: list[int] = []
    waiting = [(0, False)]
    while waiting:
        node, is_open = waiting.pop()
        if node < 0:
            continue
        if is_open:
            order.append(node)
            continue
        left, right, next_left, next_right = children[node].tolist()
        waiting += [
            (next_right, False),
            (right, False),
            (node, True),
            (left, False),
            (next_left, False),
        ]
    return order
