"""Memory and time of a training step with one node of many children among small trees.

    python -m benchmarks.wide

Ragged batches have a row of children for each tree node, and no padding: memory and time grow with
nodes and children. A padded batch has `trees * most nodes * most children` numbers for its
children; the last column has the MB that these would need, and only small ones are run. All sizes
grow by the same factor from line to line, so columns per 1,000 nodes stay constant if growth is
linear.

The lines of documents are JSON objects with lists of others, as many in all as there are tree nodes
in the lines of trees: `SchemaEncoder` reads them. In the lines of values made, the training step
first runs a recursive function that matches values of a data type and makes a value of each;
`Schema.trees` turns the results into trees for the layer of the ragged lines.

Each line is a new process, as in `memory.py`: it trains on one tiny batch, then on the measured
one, and prints by how much its peak resident memory grew.
"""

import argparse
import functools
import json
import statistics
import time

import numpy as np

from benchmarks.memory import in_new_process, peak_memory

# Children of the widest node, of one tree; and how many small trees come with it.
SIZES = [(5_000, 50), (10_000, 100), (20_000, 200)]
PADDED = [(500, 5), (1_000, 10), (2_000, 20)]
NODES = 25  # of a small tree
WORDS, UNITS, FEATURES = 1_000, 150, 300


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--json", metavar="FILE", help="also write the table to this file")
    arguments = parser.parse_args()
    columns = ("", "children", "trees", "nodes", "MB", "MB / 1,000", "seconds", "s / 1,000")
    print("| " + " | ".join([*columns, "padded children, MB"]) + " |")
    print("| --- |" + " ---: |" * 8, flush=True)
    rows = []
    for form in FORMS:
        for children, trees in PADDED if form == "padded" else SIZES:
            row = in_new_process("wide", form, children, trees)
            print(line(row), flush=True)
            rows.append(row)
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump(rows, file, indent=1)


def line(row):
    """A row of the Markdown table."""
    thousands = row["nodes"] / 1000
    table = 4e-6 * row["trees"] * (row["children"] + 1) * row["children"]
    cells = (
        row["form"],
        f"{row['children']:,}",
        row["trees"],
        f"{row['nodes']:,}",
        f"{row['MB']:,.0f}",
        f"{row['MB'] / thousands:.1f}",
        f"{row['seconds']:.2f}",
        f"{row['seconds'] / thousands:.3f}",
        f"{table:,.0f}",
    )
    return "| " + " | ".join(map(str, cells)) + " |"


def make_trees(children, small, seed=0):
    """A root with so many children, and small random trees, as nested lists."""
    rng = np.random.default_rng(seed)
    trees = [[[] for _ in range(children)]]
    for _ in range(small):
        nodes = [[] for _ in range(NODES)]
        for place in range(1, NODES):
            nodes[rng.integers(place)].append(nodes[place])
        trees.append(nodes[0])
    return trees


def measure(form, children, small):
    """Growth of this process's peak memory by training on a batch, and seconds of a step."""
    # Here, so that the process that only starts others stays small.
    import keras

    keras.utils.set_random_seed(0)
    model, layer, batch_of = FORMS[form]()
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("adagrad", loss)
    tiny = batch_of(make_trees(3, 2))
    model.fit(tiny, verbose=0)
    before = peak_memory()
    batch = batch_of(make_trees(children, small))
    seconds = []
    for _ in range(4):
        start = time.perf_counter()
        model.fit(batch, verbose=0)
        seconds.append(time.perf_counter() - start)
    if layer.num_traces != 1:
        raise RuntimeError(f"The layer was traced {layer.num_traces} times; expected once.")
    return {
        "form": form,
        "children": children,
        "trees": small + 1,
        "nodes": children + 1 + small * NODES,
        "MB": peak_memory() - before,
        "seconds": statistics.median(seconds[1:]),
    }


def of_trees(ragged=True):
    """A model of trees, its layer, and a function that makes a batch of nested lists."""
    import keras

    from kerasrec.datasets import encode_objects, tree_batches
    from kerasrec.layers import ChildSumTreeLSTM

    def batch_of(trees):
        rng = np.random.default_rng(0)
        encoded = [
            encode_objects(
                tree,
                children_of=list,
                token_of=lambda _: int(rng.integers(WORDS)),
                label_of=lambda _: 1,
                labels="root",
            )
            for tree in trees
        ]
        return tree_batches(encoded, len(encoded), ragged=ragged).cache()

    words = keras.Input([None], dtype="int32", ragged=ragged)
    rows = keras.Input([None, None], dtype="int32", ragged=ragged)
    layer = ChildSumTreeLSTM(UNITS, embedding=keras.layers.Embedding(WORDS, FEATURES))
    model = keras.Model([words, rows], keras.layers.Dense(2)(layer(words, rows)))
    return model, layer, batch_of


def of_documents():
    """The same for documents: objects with a number, a word and a list of objects."""
    import keras
    import tensorflow as tf

    import kerasrec

    def document_of(tree, rng):
        root = {}
        waiting = [(root, tree)]
        while waiting:
            document, node = waiting.pop()
            document |= {"number": rng.random(), "word": f"w{rng.integers(WORDS)}"}
            document["parts"] = [{} for _ in node]
            waiting += zip(document["parts"], node, strict=True)
        return root

    def batch_of(trees):
        rng = np.random.default_rng(0)
        batch = schema.encode(document_of(tree, rng) for tree in trees)
        labels = np.ones(len(trees), int)
        return tf.data.Dataset.from_tensor_slices((batch, labels)).batch(len(trees)).cache()

    schema = kerasrec.Schema.infer([document_of([[[]], []], np.random.default_rng(1))], 0)
    inputs = schema.inputs()
    layer = kerasrec.layers.SchemaEncoder(schema, UNITS)
    return keras.Model(inputs, keras.layers.Dense(2)(layer(inputs))), layer, batch_of


def of_values_made():
    """The same layer, for trees of values that a recursive function makes from a batch."""
    import keras
    import tensorflow as tf

    import kerasrec
    from kerasrec.layers import ChildSumTreeLSTM

    class Part(kerasrec.DataType):
        word: int
        parts: list["Part"]

    @kerasrec.recursive
    def made(part):
        def again(part):
            return Part((7 * part.word + 1) % WORDS, made(part.parts))

        return kerasrec.match(part, {Part: again})

    def value_of(tree, rng):
        nodes, waiting = [], [tree]
        while waiting:
            nodes.append(waiting.pop())
            waiting += nodes[-1]
        values = {}
        for node in reversed(nodes):
            below = [values[id(child)] for child in node]
            values[id(node)] = Part(int(rng.integers(WORDS)), below)
        return values[id(tree)]

    def batch_of(trees):
        rng = np.random.default_rng(0)
        batch = schema.encode(value_of(tree, rng) for tree in trees)
        labels = np.ones(len(trees), int)
        return tf.data.Dataset.from_tensor_slices((batch, labels)).batch(len(trees)).cache()

    class Model(keras.Model):
        def __init__(self):
            super().__init__()
            words = keras.layers.Embedding(WORDS, FEATURES)
            self.tree_layer = ChildSumTreeLSTM(UNITS, embedding=words)
            self.classes = keras.layers.Dense(2)

        def call(self, batch):
            values = made(schema.values(batch))
            trees = schema.trees(values, token_of=lambda part: part.word)
            return self.classes(self.tree_layer(*trees))

    schema, model = kerasrec.Schema(Part), Model()
    return model, model.tree_layer, batch_of


FORMS = {
    "ragged": of_trees,
    "padded": functools.partial(of_trees, ragged=False),
    "documents": of_documents,
    "values made": of_values_made,
}


if __name__ == "__main__":
    main()
