"""Training of trees over the words of a pretrained encoder, which is frozen or trained."""

import argparse
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import tensorflow as tf

from comparison import Run, report
from kerasrec.layers import RecursiveCell, SubwordPooling
from kerasrec.training import OptimizerPerLayer
from pretrained_encoder import Encoder, read_encoder

KINDS = ["flat", "tree"]
NODES = range(10, 100, 10)  # where buckets of trees end
PADDING = {tf.string: "", tf.float32: 0.0, tf.int32: -1}


@keras.saving.register_keras_serializable("models")
class MeanCell(RecursiveCell):
    """The mean of the words below a tree node, and its own word: a phrase without structure."""

    def __init__(self, units: int, **kwargs: Any):
        super().__init__(arity=None, read_inner_inputs=True, **kwargs)
        self.state_size = [units, 1]
        self.output_size = units

    def call(self, inputs: Any, states: Any) -> tuple[Any, list[Any]]:
        """Sums up vectors and counts words; a node without a word has zeros."""
        is_word = tf.reduce_any(inputs != 0, axis=1, keepdims=True)
        own = inputs, tf.cast(is_word, inputs.dtype)
        total, count = (x + tf.reduce_sum(of, axis=1) for x, of in zip(own, states, strict=True))
        return tf.math.divide_no_nan(total, count), [total, count]


def add_options(parser: argparse.ArgumentParser, **defaults: float) -> None:
    """Adds the options of `train`."""
    parser.add_argument("--encoder", type=Path, help="a folder; by default a tiny encoder")
    parser.add_argument("--cache", type=Path, help="to keep a frozen encoder's vectors in")
    parser.add_argument("--models", nargs="+", choices=KINDS, default=KINDS, help="to train")
    helps = {
        "units": "size of a tree node's state",
        "learning_rate": "of all but the encoder, at the start; it falls to 0",
        "encoder_rate": "of the encoder; 0 freezes it",
        "batch_size": "of training",
        "epochs": "of which the best on dev is kept",
    }
    for name, text in helps.items():
        option, default = "--" + name.replace("_", "-"), defaults[name]
        parser.add_argument(option, type=type(default), default=default, help=text)


def node_encoder(reader: keras.layers.Layer, encoder: Encoder) -> keras.Model:
    """Makes a model from texts to the vectors of tree nodes and their children.

    Args:
        reader: `BracketedText`, or `ConlluText` with `return_positions=True`.
        encoder: what makes the vectors.
    """
    text = keras.Input([], dtype="string")
    words, *positions, children = reader(text)
    pieces, mask, nodes = encoder.subwords(words, *positions)
    vectors = SubwordPooling()(encoder.model([pieces, mask]), nodes, children)
    return keras.Model(text, (vectors, children), name="nodes")


def num_nodes(inputs: Any, labels: tf.Tensor) -> tf.Tensor:
    """Of the largest tree: a text in CoNLL-U has a line for each, all other arrays a row."""
    return tf.reduce_max(
        [
            tf.size(tf.strings.split(x, "\n")) if x.dtype == tf.string else tf.shape(x)[0]
            for x in tf.nest.flatten((inputs, labels))
        ]
    )


def batches(data: tf.data.Dataset, batch_size: int) -> tf.data.Dataset:
    """Padded batches of trees with about as many nodes."""
    return data.bucket_by_sequence_length(
        num_nodes,
        [*NODES],
        [batch_size] * (len(NODES) + 1),
        padding_values=tf.nest.map_structure(
            lambda spec: tf.constant(PADDING[spec.dtype], spec.dtype), data.element_spec
        ),
    )


def encoded(data: tf.data.Dataset, nodes: keras.Model, file: Path) -> tf.data.Dataset:
    """The data with vectors and children for texts, which a file keeps once it is read.

    It keeps vectors as float16, with three digits, in half the room.
    """

    def cast(inputs: Any, dtypes: dict[tf.DType, tf.DType]) -> Any:
        return tf.nest.map_structure(lambda x: tf.cast(x, dtypes.get(x.dtype, x.dtype)), inputs)

    def encode(texts: Any, labels: Any) -> tuple[Any, Any]:
        return cast(tf.nest.map_structure(nodes, texts), {tf.float32: tf.float16}), labels

    def restore(inputs: Any, labels: Any) -> tuple[Any, Any]:
        return cast(inputs, {tf.float16: tf.float32}), labels

    return batches(data, 64).map(encode).unbatch().cache(str(file)).map(restore)


def _optimizer(
    encoder: keras.Model, options: argparse.Namespace, num_examples: int
) -> OptimizerPerLayer:
    """One optimizer for each layer of the encoder, which moves slowly, and one for all others."""
    layers = {variable.path.split("/")[0] for variable in encoder.trainable_variables}
    steps = options.epochs * -(-num_examples // options.batch_size)

    def make(rate: float) -> keras.optimizers.Optimizer:
        falling = keras.optimizers.schedules.PolynomialDecay(rate, steps)
        return keras.optimizers.AdamW(falling, global_clipnorm=1.0)

    return OptimizerPerLayer(
        make(options.learning_rate), {name: make(options.encoder_rate) for name in sorted(layers)}
    )


def train(
    reader: keras.layers.Layer,
    build: Callable[[int], keras.Model],
    data: dict[str, tf.data.Dataset],
    options: argparse.Namespace,
    seed: int,
    monitor: str,
    mode: str,
    prepare: Callable[[Any, Any], tuple[Any, Any]] | None = None,
    **compiled: Any,
) -> tuple[keras.Model, keras.Model, dict[str, tf.data.Dataset]]:
    """Trains a model, and keeps the epoch that is best on dev.

    A frozen encoder runs once for each text: what is trained is the part above it.

    Args:
        reader: from texts to trees, for `node_encoder`.
        build: from the number of features to the part above the encoder, whose inputs are the
            vectors and the children in the place of each text of `data`.
        data: texts and labels of "train", "dev" and "test".
        options: those of `add_options`.
        seed: of weights, dropout and order.
        monitor: the metric that tells which epoch is best.
        mode: "min" or "max", of this metric.
        prepare: a function of the inputs and labels of a batch to train on.
        **compiled: loss and metrics.

    Returns:
        The model from texts, to be saved; the model that was trained, the same or its upper part;
        and batches of dev and test for the latter.
    """
    keras.utils.set_random_seed(seed)
    encoder, num_examples = read_encoder(options.encoder), int(data["train"].cardinality())
    encoder.model.trainable = options.encoder_rate > 0
    nodes = node_encoder(reader, encoder)
    trained = build(nodes.outputs[0].shape[-1])
    texts = tf.nest.map_structure(
        lambda _: keras.Input([], dtype="string"), data["train"].element_spec[0]
    )
    model = keras.Model(texts, trained(tf.nest.map_structure(nodes, texts)))
    if options.encoder_rate > 0:
        trained = model
    else:
        data = {split: encoded(of, nodes, options.cache / split) for split, of in data.items()}
    trained.compile(_optimizer(encoder.model, options, num_examples), **compiled)
    evaluated = {split: batches(data[split], 64) for split in ("dev", "test")}
    best = keras.callbacks.EarlyStopping(
        monitor, mode=mode, patience=options.epochs, restore_best_weights=True
    )
    training = batches(data["train"].shuffle(num_examples, seed), options.batch_size)
    trained.fit(
        training.map(prepare) if prepare else training,
        validation_data=evaluated["dev"],
        epochs=options.epochs,
        callbacks=[best],
        shuffle=False,  # the dataset does it
        verbose=2,
    )
    return model, trained, evaluated


def run_all(run: Callable[[str, int], dict[str, float]], options: argparse.Namespace) -> list[Run]:
    """Runs each kind of model with each seed, and reports the figures after each seed."""
    with tempfile.TemporaryDirectory() as folder:
        options.cache = options.cache or Path(folder)
        options.cache.mkdir(parents=True, exist_ok=True)
        runs = []
        for seed in options.seeds:
            runs.append({kind: run(kind, seed) for kind in options.models})
            report(runs, options.output)
    return runs
