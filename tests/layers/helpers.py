"""Trees to test with, and the layers that share tests."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from itertools import product
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from kerasrec.datasets import Vocabulary, encode_tree, read_sst, tree_batches
from kerasrec.layers import (
    RNTN,
    Bidirectional,
    ChildSumTreeLSTM,
    OrderedTreeRNN,
    Recursive,
    TopDownTreeLSTM,
    TreeGRU,
    TreeLSTM,
    TreeRNN,
)
from tests.layers import reference

UNITS = 3
DEV = Path(__file__).resolve().parents[2] / "data" / "treebank" / "dev.txt"


@dataclass(frozen=True)
class Facts:
    """The facts about a ready layer that tests need.

    Args:
        equations: makes the paper's function of one tree node, as those in `reference`.
        num_states: of a tree node.
        weights: shapes by name, of 3 units, two children and inputs of 4 features at leaves only.
        options: its own constructor arguments, each with another value than the default.
    """

    equations: Callable
    num_states: int
    weights: dict[str, tuple[int, ...]]
    options: dict[str, Any] = field(default_factory=dict)


# Layers with weights for each of a number of children; READY also has the others.
LAYERS = {
    TreeRNN: Facts(
        reference.tree_rnn,
        num_states=1,
        weights={"kernel": (4, 3), "recurrent_kernel": (6, 3), "bias": (3,)},
    ),
    RNTN: Facts(
        reference.rntn,
        num_states=1,
        weights={"kernel": (4, 3), "recurrent_kernel": (6, 3), "bias": (3,), "tensor": (6, 6, 3)},
        options={
            "tensor_initializer": keras.initializers.RandomNormal(stddev=0.1, seed=1),
            "tensor_regularizer": keras.regularizers.L2(0.1),
            "tensor_constraint": keras.constraints.MaxNorm(1.0, axis=[0, 1]),
        },
    ),
    TreeLSTM: Facts(
        reference.tree_lstm,
        num_states=2,
        weights={"kernel": (4, 9), "recurrent_kernel": (6, 15), "bias": (12,)},
        options={"recurrent_activation": "hard_sigmoid", "unit_forget_bias": False},
    ),
    TreeGRU: Facts(
        reference.tree_gru,
        num_states=1,
        weights={"kernel": (4, 6), "recurrent_kernel": (6, 12), "bias": (9,)},
        options={"recurrent_activation": "hard_sigmoid"},
    ),
}


@dataclass(frozen=True)
class Ready:
    """A ready layer.

    Args:
        make: a new layer that returns the outputs of all tree nodes, from Keras' options.
        arity: of the trees that it is given.
    """

    make: Callable[..., keras.layers.Layer]
    arity: int = 2


def _both_ways(**options: Any) -> Bidirectional:
    of_both = {key: options[key] for key in ("name", "dtype", "trainable") if key in options}
    return Bidirectional(TreeLSTM(UNITS, **options), **of_both)


def _ordered(dtype: Any = None, **options: Any) -> OrderedTreeRNN:
    cell = keras.layers.GRUCell(UNITS, recurrent_initializer="glorot_uniform", dtype=dtype)
    return OrderedTreeRNN(cell, return_sequences=True, dtype=dtype, **options)


# A new layer goes here, and test_every_layer.py runs it.
READY = {
    **{cls.__name__: Ready(partial(cls, UNITS, return_sequences=True)) for cls in LAYERS},
    "ChildSumTreeLSTM": Ready(partial(ChildSumTreeLSTM, UNITS, return_sequences=True), 5),
    "OrderedTreeRNN": Ready(_ordered, 5),
    "TopDownTreeLSTM": Ready(partial(TopDownTreeLSTM, UNITS), 4),
    "Bidirectional": Ready(_both_ways),
}

# How close numbers of a dtype are to those of a finer one, relative to the largest.
TOLERANCE = {
    "float64": 1e-10,
    "float32": 1e-5,
    "mixed_float16": 5e-3,
    "float16": 5e-3,
    "mixed_bfloat16": 5e-2,
    "bfloat16": 5e-2,
}

# For what costs next to nothing.
each_layer_always = pytest.mark.parametrize("layer_class", LAYERS)
# For what Recursive does whatever the cell.
any_layer = pytest.mark.parametrize(
    "layer_class",
    [TreeLSTM]
    + [pytest.param(other, marks=pytest.mark.slow) for other in LAYERS if other is not TreeLSTM],
)
each_read_inner_inputs = pytest.mark.parametrize("read_inner_inputs", [False, True])


@cache
def treebank_batch(num_trees: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Tokens, children and labels of trees of the built-in treebank, in one padded batch.

    They are the first of at most 31 nodes, since eager recursion takes its time.
    """
    trees = read_sst(DEV)
    vocabulary = Vocabulary.from_trees(trees)
    encoded = [encode_tree(tree, vocabulary) for tree in trees]
    small = [tree for tree in encoded if len(tree.tokens) <= 31][:num_trees]
    (tokens, children), labels = next(iter(tree_batches(small, num_trees)))
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


def all_trees(
    num_tokens: int, allowed_slots: Sequence[Sequence[int]], levels: int
) -> tuple[np.ndarray, np.ndarray]:
    """All labeled trees of at most so many levels, as tokens and children in one padded batch.

    Args:
        num_tokens: the size of the vocabulary; token 0 stands at no tree node.
        allowed_slots: the slots in which a root, and then a node in each slot, may have children.
        levels: of the deepest trees.
    """
    arity = len(allowed_slots) - 1

    def grown(slot: int, levels: int) -> Iterator[tuple]:
        below = [
            [
                None,
                *(
                    grown(place, levels - 1)
                    if levels > 1 and place in allowed_slots[slot + 1]
                    else ()
                ),
            ]
            for place in range(arity)
        ]
        yield from product(range(1, num_tokens), product(*below))

    def write(tree: tuple, tokens: list, children: list) -> int:
        number = len(tokens)
        tokens.append(tree[0])
        children.append([-1] * arity)
        for slot, child in enumerate(tree[1]):
            if child is not None:
                children[number][slot] = write(child, tokens, children)
        return number

    trees = []
    for tree in grown(-1, levels):
        trees.append(([], []))
        write(tree, *trees[-1])
    nodes = max(len(tokens) for tokens, _ in trees)
    return (
        np.array([tokens + [0] * (nodes - len(tokens)) for tokens, _ in trees]),
        np.array([rows + [[-1] * arity] * (nodes - len(rows)) for _, rows in trees]),
    )


def check_distribution(
    decoder: keras.layers.Layer, allowed_slots: Sequence[Sequence[int]], num_trees: int
) -> None:
    """Asserts that a decoder's probabilities of all trees within its bounds add up to 1.

    Then so do they for every weight: the gradient of their sum, which is the expectation of the
    log-likelihood's gradient, is 0. Trees that grow are among them, with the same log-likelihood.
    """
    tokens, children = all_trees(decoder.num_tokens, allowed_slots, decoder.max_depth)
    assert len(tokens) == num_trees
    with tf.GradientTape() as tape:
        scores = tf.reduce_sum(decoder(tokens, children), [1, 2])
        total = tf.reduce_sum(tf.exp(scores))
    assert float(total) == pytest.approx(1, abs=1e-5)
    for gradient in tape.gradient(total, decoder.trainable_variables):
        if gradient is not None:  # On one level nobody reads the cell's weights.
            np.testing.assert_allclose(tf.convert_to_tensor(gradient), 0, atol=1e-5)
    known = dict(zip(texts(tokens, children), scores, strict=True))
    grown = decoder.generate(20, seed=1)
    found = texts(grown.tokens.numpy(), grown.children.numpy())
    assert len(set(found)) >= min(2, num_trees)
    wanted = [known[tree] for tree in found]
    np.testing.assert_allclose(grown.log_likelihood, wanted, rtol=1e-5, atol=1e-5)


def nested(tokens: np.ndarray, children: np.ndarray, node: int = 0) -> tuple[int, dict]:
    """A tree of arrays as nested tuples: its token, and the trees by slot."""
    below = {
        slot: nested(tokens, children, child)
        for slot, child in enumerate(children[node].tolist())
        if child >= 0
    }
    return (int(tokens[node]), below)


def texts(tokens: np.ndarray, children: np.ndarray) -> list[str]:
    """A text for each tree of a batch, the same for the same tree."""
    return [str(nested(*tree)) for tree in zip(tokens, children, strict=True)]


def features(children: np.ndarray, num_features: int = 4, seed: int = 0) -> np.ndarray:
    """Random inputs for all nodes and padding, float64 `[trees, nodes, features]`."""
    return np.random.default_rng(seed).normal(size=(*children.shape[:2], num_features))


def is_node(children: np.ndarray) -> np.ndarray:
    """Which nodes are not padding, bool `[trees, nodes]`."""
    found = np.zeros(children.shape[:2], bool)
    found[:, 0] = True
    trees = np.broadcast_to(np.arange(len(children))[:, None, None], children.shape)
    found[trees[children >= 0], children[children >= 0]] = True
    return found


def built(layer_class: type[Recursive], children: np.ndarray, num_features: int = 4, **options):
    """A layer of 3 units with random weights, biases among them."""
    layer = layer_class(UNITS, arity=children.shape[2], **options)
    layer.build((None, None, num_features), children.shape)
    return with_random_weights(layer)


def with_random_weights(layer: keras.layers.Layer) -> keras.layers.Layer:
    """The layer, its weights drawn again, biases among them."""
    random = np.random.default_rng(1)
    layer.set_weights([random.normal(size=one.shape, scale=_scale(one)) for one in layer.weights])
    return layer


def _scale(weight: keras.Variable) -> float:
    """A sum over two axes of a tensor has so many terms that a larger scale makes trees chaotic."""
    return 0.5 if len(weight.shape) < 3 else 0.1


def slopes(
    loss: Callable[[list[np.ndarray]], Any], at: list[np.ndarray], gradients: Sequence[Any]
) -> tuple[float, float]:
    """How fast a loss grows along a random direction of all its arguments at once.

    Args:
        loss: of arrays, in float64.
        at: the arrays.
        gradients: of the loss, for each.

    Returns:
        By the gradients, and by finite differences.
    """
    random = np.random.default_rng(0)
    ways = [random.normal(size=one.shape) for one in at]
    step = 1e-5
    above, below = (
        float(loss([one + sign * step * way for one, way in zip(at, ways, strict=True)]))
        for sign in (1, -1)
    )
    products = [
        np.sum(tf.convert_to_tensor(one) * way) for one, way in zip(gradients, ways, strict=True)
    ]
    return float(sum(products)), (above - below) / (2 * step)


@dataclass
class Expected:
    """The results of the papers' equations.

    Args:
        sequence: first states of all nodes, zero for padding, `[trees, nodes, units]`.
        root_states: states of the roots, `[trees, units]` each.
    """

    sequence: np.ndarray
    root_states: list[np.ndarray]


def expected(
    layer: Recursive,
    x: np.ndarray,
    children: np.ndarray,
    functions: reference.Functions = reference.NUMPY,
) -> Expected:
    """The layer's answer by the papers' equations, in float64 numpy."""
    cell = layer.cell
    weights = [keras.ops.convert_to_numpy(weight).astype(float) for weight in layer.weights]
    node = LAYERS[type(layer)].equations(functions, cell.units, weights)
    sequence = np.zeros((*children.shape[:2], cell.units))
    roots = []
    for row, (tree_x, tree) in enumerate(zip(x, children, strict=True)):
        found = reference.recursion(node, tree_x[:, None], tree, cell.read_inner_inputs)
        for number, states in found.items():
            sequence[row, number] = states[0].ravel()
        roots.append([state.ravel() for state in found[0]])
    return Expected(sequence, [np.stack(states) for states in zip(*roots, strict=True)])


def loaded_from_file(model: keras.Model, folder: Path) -> keras.Model:
    """The model that Keras loads after it has saved this one."""
    model.save(folder / "model.keras")
    return keras.models.load_model(folder / "model.keras")
