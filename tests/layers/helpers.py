"""Trees to test with, and the layers that share tests."""

import functools
from dataclasses import dataclass
from pathlib import Path

import keras
import numpy as np
import pytest

from kerasrec.datasets import Vocabulary, encode_tree, read_treebank, tree_batches
from kerasrec.layers import Recursive, TreeLSTM, TreeRNN
from tests.layers import reference

DEV = Path(__file__).resolve().parents[2] / "data" / "treebank" / "dev.txt"
EQUATIONS = {TreeRNN: reference.tree_rnn, TreeLSTM: reference.tree_lstm}

each_layer = pytest.mark.parametrize("layer_class", list(EQUATIONS))
# For what Recursive does whatever the cell.
any_layer = pytest.mark.parametrize(
    "layer_class", [pytest.param(TreeRNN, marks=pytest.mark.slow), TreeLSTM]
)
each_inner_inputs = pytest.mark.parametrize("inner_inputs", [False, True])


@functools.cache
def treebank_batch(num_trees: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Tokens, children and labels of trees of the embedded treebank, in one padded batch.

    They are the first of at most 31 nodes, since eager recursion takes its time.
    """
    trees = read_treebank(DEV)
    vocabulary = Vocabulary.from_trees(trees)
    encoded = [encode_tree(tree, vocabulary) for tree in trees]
    small = [tree for tree in encoded if len(tree.tokens) <= 31][:num_trees]
    (tokens, children), labels = next(iter(tree_batches(small, num_trees, bucket_by_size=False)))
    return tokens.numpy(), children.numpy(), labels.numpy()


def random_children(
    num_trees: int, num_nodes: int, arity: int, seed: int = 0, sizes: list[int] | None = None
) -> np.ndarray:
    """Random trees: any of a node's children may be missing, and parents have any number.

    Args:
        num_trees: in the batch.
        num_nodes: with padding.
        arity: of the trees.
        seed: of the trees.
        sizes: nodes of each tree; random if not given.

    Returns:
        int32 `[trees, nodes, arity]`.
    """
    random = np.random.default_rng(seed)
    children = np.full((num_trees, num_nodes, arity), -1, np.int32)
    for tree in children:
        size = sizes.pop(0) if sizes else random.integers(1, num_nodes + 1)
        number = np.concatenate([[0], random.permutation(np.arange(1, size))])
        free = [(0, slot) for slot in range(arity)]
        for made in range(1, size):
            parent, slot = free.pop(random.integers(len(free)))
            tree[number[parent], slot] = number[made]
            free += [(made, slot) for slot in range(arity)]
    return children


def features(children: np.ndarray, num_features: int = 4, seed: int = 0) -> np.ndarray:
    """Random inputs for all nodes, padding too, float64 `[trees, nodes, features]`."""
    return np.random.default_rng(seed).normal(size=(*children.shape[:2], num_features))


def is_node(children: np.ndarray) -> np.ndarray:
    """Which nodes are no padding, bool `[trees, nodes]`."""
    found = np.zeros(children.shape[:2], bool)
    found[:, 0] = True
    trees = np.broadcast_to(np.arange(len(children))[:, None, None], children.shape)
    found[trees[children >= 0], children[children >= 0]] = True
    return found


def built(layer_class: type[Recursive], children: np.ndarray, num_features: int = 4, **options):
    """A layer of 3 units with random weights, biases among them."""
    layer = layer_class(3, arity=children.shape[2], **options)
    layer.build((None, None, num_features), children.shape)
    random = np.random.default_rng(1)
    layer.set_weights([random.normal(size=weight.shape, scale=0.5) for weight in layer.weights])
    return layer


@dataclass
class Expected:
    """What the papers' equations give.

    Args:
        sequence: first states of all nodes, zero for padding, `[trees, nodes, units]`.
        root_states: states of the roots, `[trees, units]` each.
    """

    sequence: np.ndarray
    root_states: list[np.ndarray]


def expected(layer: Recursive, x: np.ndarray, children: np.ndarray) -> Expected:
    """The layer's answer by the papers' equations, in float64 numpy."""
    cell = layer.cell
    weights = [keras.ops.convert_to_numpy(weight).astype(float) for weight in layer.weights]
    node = EQUATIONS[type(layer)](reference.NUMPY, cell.units, weights)
    sequence = np.zeros((*children.shape[:2], cell.units))
    roots = []
    for row, (tree_x, tree) in enumerate(zip(x, children, strict=True)):
        found = reference.recursion(node, tree_x[:, None], tree, cell.inner_inputs)
        for number, states in found.items():
            sequence[row, number] = states[0].ravel()
        roots.append([state.ravel() for state in found[0]])
    return Expected(sequence, [np.stack(states) for states in zip(*roots, strict=True)])
