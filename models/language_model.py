"""The common part of the two language models: sentences, training, perplexity and completion.

A recipe provides a model of the log-likelihood of sentences. For each word it returns two terms:
that of the word, and that of where the sentence goes on from there or ends. `run` has all steps in
order; start reading there.

Every sentence hangs from an artificial word `<root>`, which is given (Zhang et al. 2016, section
3.1).
"""

import argparse
import json
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import keras
import numpy as np

from dependency_treebank import is_left_head, read_split
from kerasrec.datasets import (
    DependencyTree,
    EncodedTree,
    Vocabulary,
    dependencies_from_constituents,
    read_sst,
    tree_batches,
)
from kerasrec.training import TreeNegativeLogLikelihood, TreePerplexity

BUILT_IN = Path(__file__).resolve().parents[1] / "data" / "treebank"
SPLITS = ("train", "dev", "test")
ROOT = "<root>"
# "" is where parts of speech are unknown.
CONTENT = {"NOUN", "VERB", "ADJ", "ADV", ""}
NUM_CANDIDATES = 5
NUM_NEIGHBOURS = 20
FIGURES = ("perplexity", "perplexity_with_growth", "loss", "completion")

Results = dict[str, Any]
Encode = Callable[[DependencyTree, Vocabulary], EncodedTree]


class Question(NamedTuple):
    """A held-out sentence with a gap, and five words for it.

    Attributes:
        tree: the sentence.
        place: of the gap.
        candidates: the words, the true one first.
        counts: of each in the training sentences.
    """

    tree: DependencyTree
    place: int
    candidates: list[str]
    counts: list[int]

    def completed(self) -> list[DependencyTree]:
        """Returns the sentence with each candidate in the gap."""
        trees = []
        for candidate in self.candidates:
            words = list(self.tree.words)
            words[self.place] = candidate
            trees.append(DependencyTree(words, self.tree.heads, self.tree.upos))
        return trees


def parse_options(
    argv: Sequence[str] | None,
    description: str,
    output: str,
    parents: Sequence[argparse.ArgumentParser] = (),
) -> argparse.Namespace:
    """Reads the command line of a recipe.

    Args:
        argv: the arguments, or None for those of the program.
        description: of the recipe.
        output: the default directory of the recipe's files.
        parents: as in `argparse.ArgumentParser`, with the options of only this recipe.
    """
    parser = argparse.ArgumentParser(
        description=description,
        parents=parents,
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument(
        "--data",
        type=Path,
        help="directory with a CoNLL-U file each for train, dev and test; by default the treebank "
        "of the repository is read",
    )
    parser.add_argument(
        "--output",
        type=Path,
        default=Path("runs") / output,
        help="directory for models and figures",
    )
    parser.add_argument("--seeds", type=int, nargs="+", default=[1], help="a training run for each")
    parser.add_argument("--units", type=int, default=150, help="size of a state")
    parser.add_argument("--embedding", type=int, default=100, help="size of a word's vector")
    parser.add_argument("--min-count", type=int, default=2, help="rarer words are unknown")
    parser.add_argument("--epochs", type=int, default=12, help="maximum")
    parser.add_argument("--patience", type=int, default=1, help="epochs without a better dev loss")
    parser.add_argument("--batch", type=int, default=32, help="sentences per batch")
    parser.add_argument("--learning-rate", type=float, default=0.002, help="of Adam")
    parser.add_argument(
        "--dropout", type=float, default=0.3, help="of word vectors and of predicting states"
    )
    return parser.parse_args(argv)


def read_sentences(directory: Path | None) -> dict[str, list[DependencyTree]]:
    """Reads the dependency trees of each split, or makes them from the built-in treebank."""
    if directory is not None:
        return {split: read_split(directory, split) for split in SPLITS}
    sentences = {}
    for split in SPLITS:
        trees = read_sst(BUILT_IN / f"{split}.txt")
        sentences[split] = [dependencies_from_constituents(tree, is_left_head)[0] for tree in trees]
    return sentences


def from_root(tree: DependencyTree) -> DependencyTree:
    """Hangs a sentence from `<root>`, the word before its first."""
    upos = ["", *tree.upos] if tree.upos else ()
    return DependencyTree([ROOT, *tree.words], [-1, *(head + 1 for head in tree.heads)], upos)


def batches(
    encode: Encode, trees: Sequence[DependencyTree], vocabulary: Vocabulary, size: int, **how: Any
) -> Any:
    """Batches of `((tokens, children), labels)`; the label of the given `<root>` is -1."""
    encoded = [encode(tree, vocabulary) for tree in trees]
    for tree in encoded:
        tree.labels[0] = -1
    return tree_batches(encoded, size, **how)


def log_likelihoods(
    model: keras.Model, encode: Encode, trees: Sequence[DependencyTree], vocabulary: Vocabulary
) -> np.ndarray:
    """Log-likelihood of each tree, float `[trees]`."""
    in_order = batches(encode, trees, vocabulary, 20 * NUM_CANDIDATES)
    sums = []
    for inputs, labels in in_order.as_numpy_iterator():
        terms = model.predict_on_batch(inputs)
        sums.append((terms[..., 0] * (labels >= 0) + terms[..., 1]).sum(axis=1))
    return np.concatenate(sums)


def make_questions(
    train: Sequence[DependencyTree], test: Sequence[DependencyTree], vocabulary: Vocabulary
) -> list[Question]:
    """Makes a question of each test sentence that has a noun, verb, adjective or adverb.

    The gap is at one of them, drawn. The other candidates are drawn from the 20 words of the same
    part of speech in the training sentences with the nearest frequency. All are words of the
    vocabulary. The questions are always the same.
    """
    counts = Counter(
        (upos, word.lower())
        for tree in train
        for word, upos in content_words(tree).values()
        if word in vocabulary
    )
    alike: dict[str, list[str]] = {}
    for upos, word in sorted(counts, key=lambda key: (-counts[key], key)):
        alike.setdefault(upos, []).append(word)
    ranks = {(upos, word): rank for upos in alike for rank, word in enumerate(alike[upos])}
    rng = np.random.default_rng(0)
    questions = []
    for tree in test:
        gaps = {
            place: (upos, word.lower())
            for place, (word, upos) in content_words(tree).items()
            if (upos, word.lower()) in ranks and len(alike[upos]) >= NUM_CANDIDATES
        }
        if not gaps:
            continue
        place = int(rng.choice(list(gaps)))
        upos, word = gaps[place]
        others = nearest(alike[upos], ranks[upos, word], NUM_NEIGHBOURS)
        drawn = rng.choice(others, NUM_CANDIDATES - 1, replace=False).tolist()
        candidates = [word, *drawn]
        seen = [counts[upos, candidate] for candidate in candidates]
        questions.append(Question(tree, place, candidates, seen))
    # Sentences of a length in one batch need little padding.
    return sorted(questions, key=lambda question: len(question.tree.words))


def content_words(tree: DependencyTree) -> dict[int, tuple[str, str]]:
    """Words that a question may be about, by place: the word and its part of speech."""
    upos = tree.upos or [""] * len(tree.words)
    return {
        place: (word, upos[place])
        for place, word in enumerate(tree.words)
        if upos[place] in CONTENT and word != ROOT
    }


def nearest(ranked: Sequence[str], rank: int, number: int) -> list[str]:
    """Returns the words around a rank, without the one at it."""
    start = max(0, min(rank - number // 2, len(ranked) - number - 1))
    around = range(start, min(start + number + 1, len(ranked)))
    return [ranked[other] for other in around if other != rank]


def share_right(scores: np.ndarray) -> float:
    """Share of questions in which the first candidate has the highest score.

    Candidates of equal score share the point.

    Args:
        scores: float `[questions, candidates]`.
    """
    is_best = scores == scores.max(axis=1, keepdims=True)
    return float(np.mean(is_best[:, 0] / is_best.sum(axis=1)))


def train(
    model: keras.Model, training: Any, validation: Any, options: argparse.Namespace
) -> dict[str, list[float]]:
    """Trains with Keras' `fit` and keeps the epoch that was best on dev."""
    model.compile(
        keras.optimizers.Adam(options.learning_rate),
        TreeNegativeLogLikelihood(),
        metrics=[
            TreePerplexity(name="perplexity"),
            TreePerplexity(growth=True, name="perplexity_with_growth"),
        ],
    )
    best_epoch = keras.callbacks.EarlyStopping(
        monitor="val_loss", patience=options.patience, restore_best_weights=True
    )
    history = model.fit(
        training,
        validation_data=validation,
        epochs=options.epochs,
        callbacks=[best_epoch],
        shuffle=False,  # the dataset does it
        verbose=2,
    )
    return history.history


def over_seeds(runs: list[Results]) -> Results:
    """Mean and standard deviation (None for one run) of the figures of test."""
    names = [name for name in FIGURES if name in runs[0]["test"]]
    values = {name: [run["test"][name] for run in runs] for name in names}
    return {
        "mean": {name: float(np.mean(values[name])) for name in names},
        "deviation": {
            name: float(np.std(values[name], ddof=1)) if len(runs) > 1 else None for name in names
        },
    }


def run(
    encode: Encode,
    build_model: Callable[[Vocabulary, argparse.Namespace], keras.Model],
    options: argparse.Namespace,
    after: Callable[[keras.Model, dict[str, list[DependencyTree]], Vocabulary], Results]
    | None = None,
) -> Results:
    """Trains the model of a recipe, once for each seed, and returns the results.

    Args:
        encode: a sentence as arrays, `<root>` first.
        build_model: from the vocabulary and the options, makes a model from `[tokens, children]` to
            terms, float32 `[batch, nodes, 2]`, as `TreeNegativeLogLikelihood` takes them.
        options: as `parse_options` returns them.
        after: a function of the model of the first seed, the sentences and the vocabulary.
    """
    # 1. Sentences. Words are lower-cased; those that are too rare in training are <unk>.
    sentences = {
        split: list(map(from_root, trees)) for split, trees in read_sentences(options.data).items()
    }
    vocabulary = Vocabulary.from_trees(sentences["train"], min_count=options.min_count)
    words = [word for tree in sentences["test"] for word in tree.words]
    unknown = float(np.mean(vocabulary.encode(words) == 1))
    questions = make_questions(sentences["train"], sentences["test"], vocabulary)
    completed = [tree for question in questions for tree in question.completed()]
    by_count = None
    print(f"{len(vocabulary)} words; {unknown:.1%} of those of test are unknown")
    if questions:
        by_count = share_right(np.array([question.counts for question in questions]))
        print(f"{len(questions)} questions; {by_count:.1%} are right by the most frequent word")
    else:
        print(
            "no questions, so no completion: no sentence of test has a noun, verb, adjective or "
            f"adverb that the vocabulary holds with {NUM_CANDIDATES - 1} others like it"
        )

    runs = []
    figures: Results = {}
    options.output.mkdir(parents=True, exist_ok=True)
    vocabulary.save(options.output / "vocabulary.txt")
    evaluated = {
        split: batches(encode, sentences[split], vocabulary, options.batch, bucket_by_size=True)
        for split in ("dev", "test")
    }
    for seed in options.seeds:
        # 2. Training and perplexities, by Keras.
        keras.utils.set_random_seed(seed)
        model = build_model(vocabulary, options)
        how = {"shuffle": True, "seed": seed, "bucket_by_size": True}
        training = batches(encode, sentences["train"], vocabulary, options.batch, **how)
        start = time.perf_counter()
        history = train(model, training, evaluated["dev"], options)
        minutes = (time.perf_counter() - start) / 60
        of_splits = {
            split: model.evaluate(evaluated[split], verbose=0, return_dict=True)
            for split in evaluated
        }

        # 3. Completion: of five words, the one that makes the sentence likeliest.
        if questions:
            scores = log_likelihoods(model, encode, completed, vocabulary)
            of_splits["test"]["completion"] = share_right(scores.reshape(-1, NUM_CANDIDATES))
        runs.append({"seed": seed, "minutes": minutes, "history": history, **of_splits})
        print(f"seed {seed}, {minutes:.1f} minutes, test: {of_splits['test']}")

        # 4. The model as a file, and the recipe's function of it.
        model.save(options.output / f"seed_{seed}.keras")
        if after and len(runs) == 1:
            figures = after(model, sentences, vocabulary)

    results = {
        "settings": {name: str(value) for name, value in vars(options).items()},
        "parameters": model.count_params(),
        "words": len(vocabulary),
        "unknown": unknown,
        "questions": len(questions),
        "completion by frequency": by_count,
        "runs": runs,
        **over_seeds(runs),
        **figures,
    }
    (options.output / "results.json").write_text(json.dumps(results, indent=1) + "\n")
    print(f"over seeds: {over_seeds(runs)}")
    return results
