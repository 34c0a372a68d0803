"""A neural module network (Andreas et al. 2016, "Neural Module Networks", CVPR).

A question about a scene is a tree of modules: `count(and(find(red), not(find(cube))))`. The modules
are trained with only the answers. Each tree node names its module, as in `modules[kind](node)`, so
the nodes of all trees with the same module run as one batch.
"""

import keras
import numpy as np
import tensorflow as tf

import kerasrec

FIND, AND, OR, NOT = range(4)
COUNT, EXISTS = range(2)
NUM_OBJECTS, NUM_WORDS, NUM_FEATURES = 5, 6, 12  # Words: three colors and three shapes.


class ModuleNetwork(keras.layers.Layer):
    """Answers questions, trees of modules over scenes, with numbers.

    Call arguments:
        scenes: float32 `[batch, objects, features]`.
        questions: int32 `[batch]`, `COUNT` or `EXISTS`.
        kinds: int32 `[batch, nodes]`, the module of each tree node; node 0 is the root.
        words: int32 `[batch, nodes]`, the word that `FIND` looks for.
        children: int32 `[batch, nodes, 2]`; `FIND` has none, `NOT` only the first.
    """

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.supports_jit = False
        self.meaning = keras.layers.Embedding(NUM_WORDS, NUM_FEATURES)

    def build(self, *_):
        self.meaning.build()
        self.bias = self.add_weight(shape=[], initializer="zeros")

    def call(self, scenes, questions, kinds, words, children):
        batch, nodes = tf.unstack(tf.shape(kinds))
        roots = tf.range(batch) * nodes
        scene_of = tf.repeat(tf.range(batch), nodes)
        kinds, words = tf.reshape(kinds, [-1]), tf.reshape(words, [-1])
        children = tf.reshape(children + roots[:, None, None], [-1, 2])

        def find(node):
            word = self.meaning(tf.gather(words, node))
            scene = tf.gather(scenes, tf.gather(scene_of, node))
            return tf.sigmoid(tf.einsum("tof,tf->to", scene, word) + self.bias)

        def child(node, place):
            return attend(tf.gather(children, node)[:, place])

        modules = kerasrec.functions(
            [
                find,
                lambda node: child(node, 0) * child(node, 1),
                lambda node: tf.maximum(child(node, 0), child(node, 1)),
                lambda node: 1.0 - child(node, 0),
            ]
        )

        @kerasrec.recursive
        def attend(node):
            """How well each object of the scene fits the description of a tree node."""
            return modules[tf.gather(kinds, node)](node)

        heads = kerasrec.functions(
            [lambda found: tf.reduce_sum(found, 1), lambda found: tf.reduce_max(found, 1)]
        )

        @kerasrec.recursive
        def answer(head, node):
            return head(attend(node))

        return answer(heads[questions], roots)


def random_tree(rng, depth):
    kind = FIND if depth == 0 else int(rng.integers(4))
    num_children = {FIND: 0, NOT: 1}.get(kind, 2)
    below = [random_tree(rng, depth - 1) for _ in range(num_children)]
    return kind, int(rng.integers(NUM_WORDS)), below


def holds(tree, properties):
    """Whether an object with these properties fits the description of a tree."""
    kind, word, below = tree
    found = [holds(one, properties) for one in below]
    if kind == FIND:
        return word in properties
    return all(found) if kind == AND else any(found) if kind == OR else not found[0]


def as_rows(tree):
    """Kinds, words and children of the tree nodes, parents first."""
    rows, waiting = [], [tree]
    for kind, word, below in waiting:
        numbers = [len(waiting) + place for place in range(len(below))]
        waiting += below
        rows.append((kind, word, [*numbers, 0, 0][:2]))
    return rows


def data(rng, words_as_features, count):
    scenes, questions, trees, answers = [], [], [], []
    for _ in range(count):
        objects = [(int(rng.integers(3)), 3 + int(rng.integers(3))) for _ in range(NUM_OBJECTS)]
        tree = random_tree(rng, 3)
        question = int(rng.integers(2))
        found = [holds(tree, properties) for properties in objects]
        scenes.append([words_as_features[list(one)].sum(0) for one in objects])
        questions.append(question)
        trees.append(as_rows(tree))
        answers.append(sum(found) if question == COUNT else any(found))
    most = max(map(len, trees))
    padded = [rows + [(FIND, 0, [0, 0])] * (most - len(rows)) for rows in trees]
    kinds, words, children = (
        np.array([[row[place] for row in rows] for rows in padded], np.int32) for place in range(3)
    )
    scenes = np.array(scenes, np.float32) + rng.normal(0, 0.1, np.shape(scenes))
    questions, answers = np.array(questions, np.int32), np.array(answers, np.float32)
    return (scenes.astype(np.float32), questions, kinds, words, children), answers


keras.utils.set_random_seed(1)
rng = np.random.default_rng(1)
words_as_features = rng.normal(size=[NUM_WORDS, NUM_FEATURES])
train, test = (data(rng, words_as_features, count) for count in (1024, 200))

shapes = [[NUM_OBJECTS, NUM_FEATURES], [], [None], [None], [None, 2]]
inputs = [
    keras.Input(shape, dtype=item.dtype.name) for shape, item in zip(shapes, train[0], strict=True)
]
model = keras.Model(inputs, ModuleNetwork()(*inputs))
model.compile(keras.optimizers.Adam(0.03), "mse")
model.fit(*train, batch_size=128, epochs=12, verbose=0)
found = model.predict(test[0], batch_size=200, verbose=0)
print(f"right answers to new questions: {np.mean(np.round(found) == test[1]):.0%}")
print(f"if all were answered alike: {max(np.mean(test[1] == one) for one in range(6)):.0%}")
