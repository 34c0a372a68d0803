"""Parts of speech by a linear-chain conditional random field, and by the same model without one.

    python models/part_of_speech_crf.py --data path/to/ud_english_ewt --seeds 1 2 3

`kerasrec.layers.LinearChainCRF` sums over all sequences of tags.
"""

import time
from collections.abc import Sequence
from pathlib import Path

import keras

import kerasrec
from comparison import Run, report
from recipe_options import parse, recipe_parser
from saving import save_and_export
from tagged_sentences import read
from transitions_picture import draw_transitions


def main(argv: Sequence[str] | None = None) -> list[Run]:
    """Runs the recipe and returns the figures of each seed."""
    parser = recipe_parser("part_of_speech_crf")
    parser.add_argument("--data", type=Path, required=True, help="a directory of CoNLL-U files")
    parser.add_argument("--longest", type=int, default=40, help="words of a sentence to learn from")
    parser.add_argument("--units", type=int, default=64, help="of word vectors and hidden layer")
    parser.add_argument("--window", type=int, default=1, help="words that a tag's score depends on")
    parser.add_argument("--epochs", type=int, default=5, help="of training")
    options = parse(parser, argv)
    (words, known), test, vocabulary, tags = read(options.data, options.longest)
    losses = {
        "no chain": keras.losses.SparseCategoricalCrossentropy(from_logits=True, ignore_class=-1),
        "chain": kerasrec.layers.StructuredLoss(),
    }
    metrics = {"no chain": [], "chain": [kerasrec.layers.StructuredAccuracy()]}
    runs: list[Run] = []
    for seed in options.seeds:
        runs.append({})
        for name, loss in losses.items():
            keras.utils.set_random_seed(seed)
            start = time.perf_counter()
            inputs = keras.Input([None], dtype="int32")
            hidden = keras.layers.Conv1D(options.units, options.window, 1, "same")
            embedding = keras.layers.Embedding(len(vocabulary), options.units)
            scores = keras.layers.Dense(len(tags))(keras.layers.ReLU()(hidden(embedding(inputs))))
            chain = kerasrec.layers.LinearChainCRF(len(tags), use_boundary=False)
            is_word = keras.ops.not_equal(inputs, 0)
            # Until it is trained, the chain scores all pairs with 0.
            tagger = keras.Model(inputs, chain(scores, mask=is_word, output="best"))
            outputs = chain(scores, mask=is_word) if name == "chain" else scores
            model = keras.Model(inputs, outputs)
            model.compile("adam", loss, metrics=metrics[name])
            model.fit(words, known, batch_size=32, epochs=options.epochs, verbose=2)
            minutes = (time.perf_counter() - start) / 60
            right = test.share_right(tagger.predict(test.words, verbose=0))
            runs[-1][name] = {"right tags, %": right, "minutes": minutes}
    save_and_export(tagger, [test.words[:8]], options.output)
    vocabulary.save(options.output / "vocabulary.txt")
    draw_transitions(chain.transitions.numpy(), tags, options.output / "transitions.png")
    report(runs, options.output)
    return runs


if __name__ == "__main__":
    main()
