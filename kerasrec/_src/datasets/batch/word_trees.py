"""From datasets of trees with words as tokens to padded batches."""

from collections.abc import Mapping

import tensorflow as tf

from kerasrec._src.autograph import not_converted
from kerasrec._src.datasets.encode.vocabulary import Vocabulary
from kerasrec._src.int_range import cast_integers
from kerasrec._src.text import lower_case, word_table


def word_tree_batches(
    dataset: tf.data.Dataset,
    vocabulary: Vocabulary,
    batch_size: int,
    drop_remainder: bool = False,
) -> tf.data.Dataset:
    """Looks words up and batches trees, padded to the largest of their batch.

    `tf.data` does all of it, in the order of the dataset, which may be shuffled, sharded or larger
    than memory. (`tree_batches` takes trees in memory, and saves padding.)

    Args:
        dataset: Examples with the keys `tokens`, text `[nodes]`, `""` at inner tree nodes;
            `children`, integers `[nodes, arity]`, -1 = no child; `labels`, integers `[nodes]`: a
            split of the builder `kerasrec.datasets.sst_trees`, for instance.
        vocabulary: The vocabulary that gives words their tokens.
        batch_size: The number of trees in a batch.
        drop_remainder: Whether a last batch with fewer trees is left out.

    Returns:
        A `tf.data.Dataset` of `((tokens, children), labels)`: int32 `[batch, nodes]`, padded with
        0; int32 `[batch, nodes, arity]`, padded with -1; int32 `[batch, nodes]`, padded with -1.

    Raises:
        ValueError: If a key is missing, examples are not dictionaries, or `children` or `labels`
            are not integers.
        tf.errors.InvalidArgumentError: When the dataset is read, if one of them is out of int32's
            range.

    Example:

    >>> train = tfds.load("sst_trees/download", split="train")
    >>> texts = tfds.as_numpy(train.map(lambda example: example["tree"]))
    >>> vocabulary = Vocabulary.from_trees(parse_sst(text.decode()) for text in texts)
    >>> model.fit(word_tree_batches(train.shuffle(len(train)), vocabulary, 25))
    """
    spec = dataset.element_spec
    missing = {"tokens", "children", "labels"} - set(spec if isinstance(spec, Mapping) else ())
    if missing:
        raise ValueError(
            f"The dataset's examples have no {', '.join(sorted(missing))}; expected dictionaries "
            f"with 'tokens', 'children' and 'labels', found {spec}. If it comes from "
            "tensorflow_datasets, load it without as_supervised=True."
        )
    table = word_table(vocabulary.words[2:])

    @not_converted
    def look_up(
        example: dict[str, tf.Tensor],
    ) -> tuple[tuple[tf.Tensor, tf.Tensor], tf.Tensor]:
        words = example["tokens"]
        if vocabulary.lowercase:
            words = lower_case(words)
        children, labels = (
            cast_integers(example[key], tf.int32, f"{key} of the examples")
            for key in ("children", "labels")
        )
        return (table.lookup(words), children), labels

    return (
        dataset.map(look_up, num_parallel_calls=tf.data.AUTOTUNE)
        .padded_batch(batch_size, padding_values=((0, -1), -1), drop_remainder=drop_remainder)
        .prefetch(tf.data.AUTOTUNE)
    )
