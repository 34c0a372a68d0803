"""ListOps: operators on digits are learned from the values of nested operations.

    python models/listops.py --seeds 1 2 3

Nangia and Bowman 2018 test whether a model finds the structure of such expressions. Here it is
given, and the question is whether operators are learned so exactly that expressions of 100 to 400
symbols are right, when those in training have at most 50. Only the value of a whole expression is
known. `operator_cell.py` has the model: a net that reads how often each digit is among the
arguments, meant for MAX, MIN and MED, plus a table that takes one after the other, meant for SM,
the sum modulo 10.
"""

import time
from collections.abc import Sequence

import keras
import numpy as np

from comparison import Run, report
from exporting import RAGGED_TREES
from kerasrec.layers import Recursive
from operations import OPERATORS, SYMBOLS, batches, draw
from operator_cell import OperatorCell
from operator_picture import draw_picture
from recipe_options import parse, recipe_parser
from saving import save_and_export


def build_model(hidden: int, return_sequences: bool = False) -> keras.Model:
    """Builds expressions -> the probability of each digit to be the value, also of all nodes."""
    one_hot = np.eye(len(SYMBOLS), dtype=np.float32)[:, 1:]
    embedding = keras.layers.Embedding(*one_hot.shape, weights=[one_hot], trainable=False)
    cell = OperatorCell(hidden, len(OPERATORS))
    layer = Recursive(cell, embedding=embedding, return_sequences=return_sequences)
    tokens = keras.Input([None], dtype="int32", ragged=True, name="tokens")
    children = keras.Input([None, None], dtype="int32", ragged=True, name="children")
    return keras.Model([tokens, children], layer(tokens, children))


def main(argv: Sequence[str] | None = None) -> list[Run]:
    """Runs the recipe and returns the figures of each seed."""
    parser = recipe_parser("listops")
    parser.add_argument("--train", type=int, default=20000, help="expressions to learn from")
    parser.add_argument("--test", type=int, default=2000, help="expressions to test on")
    parser.add_argument("--hidden", type=int, default=64, help="units of the hidden layers")
    parser.add_argument("--epochs", type=int, default=10, help="of training")
    options = parse(parser, argv)
    train = draw(options.train, 4, 50, seed=1)
    known = set(map(str, train))
    short = [of for of in draw(options.test, 4, 50, seed=2) if str(of) not in known]
    tests = {"4 to 50": short, "100 to 400": draw(options.test, 100, 400, seed=3)}
    runs = []
    for seed in options.seeds:
        keras.utils.set_random_seed(seed)
        model, start = build_model(options.hidden), time.perf_counter()
        rate = keras.optimizers.schedules.CosineDecay(0.01, options.epochs * -(-len(train) // 64))
        adam = keras.optimizers.Adam(rate, clipnorm=1.0)
        model.compile(adam, "sparse_categorical_crossentropy", metrics=["accuracy"])
        model.fit(batches(train, 64, seed), epochs=options.epochs, verbose=2, shuffle=False)
        minutes = (time.perf_counter() - start) / 60
        right = {of: model.evaluate(batches(tests[of], 100), verbose=0)[1] for of in tests}
        figures = {f"{of}, %": 100 * share for of, share in right.items()} | {"minutes": minutes}
        runs.append({"operators": figures})
    inputs, _ = next(iter(batches(short, 100)))
    save_and_export(model, inputs, options.output, signature=RAGGED_TREES)
    at_nodes = build_model(options.hidden, return_sequences=True)
    at_nodes.set_weights(model.get_weights())
    draw_picture(at_nodes, short, options.output / "expression.png")
    report(runs, options.output)
    return runs


if __name__ == "__main__":
    main()
