"""Layers that score alignments of two sequences: `Alignment` and `EditDistance`."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from kerasrec._src.layers.structured.semirings import NEVER, Semiring
from kerasrec._src.layers.structured.structured_layer import Rule, StructuredLayer, checked
from kerasrec._src.public import cond, recursive


@recursive(memo=True)
def rest(
    semiring: Semiring, steps: tf.Tensor, sizes: list[tf.Tensor], i: tf.Tensor, j: tf.Tensor
) -> tf.Tensor:
    """Returns the value of all alignments of the items from i and j on.

    Since all examples have the same sizes, their calls are worked out once.

    Args:
        semiring: The semiring.
        steps: The scores of the steps from each place, and of ending there,
            `[tokens, items + 1, other items + 1, 4]`.
        sizes: The numbers of places along both axes, int32 `[tokens]` each.
        i: The number of items so far, int32 `[tokens]`.
        j: The number of items of the other sequence so far, int32 `[tokens]`.

    Returns:
        The values, `[tokens]`, or with several numbers `[tokens, numbers]`.
    """
    none = semiring.from_scores(tf.constant([NEVER], steps.dtype))[0]
    one = semiring.from_scores(tf.zeros([1], steps.dtype))[0]

    def ways() -> tf.Tensor:
        pairs = [(i + 1, j + 1), (i + 1, j), (i, j + 1)]
        below = [rest(semiring, steps, sizes, *pair) for pair in pairs]
        below.append(tf.broadcast_to(one, tf.shape(below[0])))
        here = semiring.from_scores(tf.gather(tf.gather(steps, i, batch_dims=1), j, batch_dims=1))
        return semiring.plus(semiring.times(here, tf.stack(below, -1)), -1)

    return cond((i < sizes[0]) & (j < sizes[1]), ways, lambda: none)


@keras.saving.register_keras_serializable("kerasrec")
class Alignment(StructuredLayer):
    """Alignments of two sequences, scored by their steps (Needleman and Wunsch 1970).

    A place `[i, j]` stands for i items of the first sequence and j of the second. From there, step
    0 pairs the next two items, step 1 leaves out the next item of the first sequence, and step 2
    that of the second. An alignment has the number of a step at each place on its way, and -1
    elsewhere; its score is the sum of those of its steps. The layer has no weights. It has the
    methods of `LinearChainCRF`: `marginals` is a soft alignment.

    Args:
        **kwargs: The options of every Keras layer: `name`, `dtype` and `trainable`. By default,
            `dtype` is Keras' default float, whatever the policy for other layers.

    Call arguments:
        scores: The scores of steps, `[batch, items + 1, other items + 1, 3]`. Steps past the end of
            a sequence are not read.
        mask: Which places exist, bool `[batch, items + 1, other items + 1]`. Padding comes last.
        output: The result to return; as for `LinearChainCRF`.

    Output shape:
        The scores, as they are. With `"best"` the steps, int32
        `[batch, items + 1, other items + 1]`; with `"marginals"` the probabilities of steps, in the
        shape of the scores; otherwise `[batch]`.

    Example:

    >>> layer = kerasrec.layers.Alignment()
    >>> scores = layer(np.float32([[[[2, 0, 0], [0, 0, 0], [0, 0, 0]]] * 2]))
    >>> print(layer.best(scores).numpy()[0].tolist(), layer.count(scores).numpy())
    [[0, -1, -1], [-1, 2, -1]] [5.]
    """

    _label_axes = _mask_axes = "[batch, items + 1, other items + 1]"
    _place_axes = "[example, items, other items]"

    @property
    def _choices(self) -> tuple[int, str]:
        return 3, "scores three steps at each place"

    def _total_of(self, scores: tf.Tensor, semiring: Semiring, mask: Any) -> tf.Tensor:
        batch, *sizes, _ = tf.unstack(tf.shape(scores))
        (i, j), (last_i, last_j) = _places(scores, mask)
        below, beside = i < last_i, j < last_j
        end = (i == last_i) & (j == last_j)
        is_open = [below & beside, below & (j <= last_j), (i <= last_i) & beside, end]
        steps = tf.pad(scores, [[0, 0], [0, 0], [0, 0], [0, 1]])  # Ending scores 0.
        steps = tf.where(tf.stack(is_open, -1), steps, tf.constant(NEVER, scores.dtype))
        start = tf.zeros([batch], tf.int32)
        return rest(semiring, steps, [tf.fill([batch], size) for size in sizes], start, start)

    def _rules_of(self, labels: tf.Tensor, mask: Any) -> list[Rule]:
        (i, j), (last_i, last_j) = _places(labels, mask)
        is_reached = (i == 0) & (j == 0)
        for step, (down, right) in enumerate([(1, 1), (1, 0), (0, 1)]):
            moved = tf.pad(labels == step, [[0, 0], [down, 0], [right, 0]])
            is_reached |= moved[:, : tf.shape(labels)[1], : tf.shape(labels)[2]]
        is_left = (labels >= 0) | ((i == last_i) & (j == last_j))
        broken = (
            f"Labels of {self.name} must be the steps of one way from the first place to the last, "
            "and -1 elsewhere, as `best` returns them: a step leads to this place or from it, but "
            "not both."
        )
        return [(is_reached != is_left, broken)]

    def _log_weight_of(self, labels: tf.Tensor, scores: tf.Tensor, mask: Any) -> tf.Tensor:
        is_step = tf.one_hot(labels, 3, True, False)
        return tf.reduce_sum(tf.where(is_step, scores, tf.zeros_like(scores)), [1, 2, 3])


@keras.saving.register_keras_serializable("kerasrec")
class EditDistance(Alignment):
    """A soft edit distance of strings, with learned scores (Ristad and Yianilos 1998).

    The negative of `log_partition` is the soft edit distance: it sums over all ways to turn one
    string into the other. The score of the best way, `total(scores, Semiring.max())`, is the
    negative of the edit distance itself, if scores are negative costs.

    Args:
        num_symbols: The number of symbols, such as letters. They are numbered from 1; 0 is padding.
        initializer: The initializer of the scores, `[num_symbols + 1, num_symbols + 1]`, for
            replacing the symbol of the row with that of the column, where 0 means none. By
            default, equal symbols cost nothing and other edits cost 1.
        **kwargs: The options of every Keras layer: `name`, `dtype` and `trainable`. By default,
            `dtype` is Keras' default float, whatever the policy for other layers.

    Call arguments:
        x: Strings, int `[batch, symbols]`; padding, which is 0, comes last.
        y: Other strings, int `[batch, other symbols]`.
        output: The result to return; as for `LinearChainCRF`.

    Output shape:
        The scores of steps, `[batch, letters + 1, other letters + 1, 3]`; otherwise as for
        `Alignment`.

    Example:

    >>> layer = kerasrec.layers.EditDistance(3)
    >>> scores = layer(np.array([[1, 2, 2, 3]]), np.array([[1, 2, 3, 0]]))
    >>> print(layer.total(scores, kerasrec.layers.Semiring.max()).numpy())
    [-1.]
    >>> print(layer.log_partition(scores).numpy().round(2))
    [0.8]
    """

    def __init__(self, num_symbols: int, *, initializer: Any = None, **kwargs: Any):
        super().__init__(**kwargs)
        self.num_symbols = num_symbols
        self.initializer = keras.initializers.get(initializer)

    def build(self, x_shape: Any, y_shape: Any = None) -> None:
        """Creates the weights."""
        self.edits = self.add_weight(
            shape=[self.num_symbols + 1] * 2,
            initializer=self.initializer or _unit_costs,
            name="edits",
        )

    # Keras calls each layer by its own signature.
    def call(  # type: ignore[override]
        self, x: Any, y: Any, output: str = "scores"
    ) -> tf.Tensor:
        """Returns the requested `output`; see the class."""
        first, second = (
            tf.pad(self._checked_symbols(name, item), [[0, 0], [0, 1]])
            for name, item in (("x", x), ("y", y))
        )
        table = tf.convert_to_tensor(self.edits)
        pair = tf.gather(tf.gather(table, first), second, axis=2, batch_dims=1)
        ones = tf.ones_like(pair)
        leave = tf.gather(table[:, 0], first)[:, :, tf.newaxis] * ones
        write = tf.gather(table[0], second)[:, tf.newaxis] * ones
        lengths = [tf.math.count_nonzero(item, 1, True, tf.int32) for item in (first, second)]
        is_there = [
            tf.range(tf.shape(item)[1]) <= length
            for item, length in zip((first, second), lengths, strict=True)
        ]
        mask = is_there[0][:, :, tf.newaxis] & is_there[1][:, tf.newaxis]
        return super().call(tf.stack([pair, leave, write], -1), mask, output)

    def _checked_symbols(self, name: str, symbols: Any) -> tf.Tensor:
        symbols = tf.cast(symbols, tf.int32)
        is_before_padding = tf.cumsum(tf.abs(symbols), 1, reverse=True) > 0
        wrong = (symbols < 0) | (symbols > self.num_symbols) | ((symbols == 0) & is_before_padding)
        rule = (
            f"Symbols in `{name}` of {self.name} must be from 1 to {self.num_symbols}, with 0 only "
            "behind them, for padding. Number symbols from 1, or give the layer a larger "
            "num_symbols."
        )
        return checked(symbols, "[example, place]: {} symbol: {}", (wrong, rule))

    def compute_output_spec(  # type: ignore[override]
        self, x: Any, y: Any, output: str = "scores"
    ) -> keras.KerasTensor:
        """Returns the shape and dtype of the output."""
        sizes = [size and size + 1 for size in (x.shape[1], y.shape[1])]
        scores = keras.KerasTensor((x.shape[0], *sizes, 3), self.compute_dtype)
        return super().compute_output_spec(scores, None, output)


def _places(table: tf.Tensor, mask: Any) -> tuple[list[tf.Tensor], list[tf.Tensor]]:
    """The numbers of places along both axes, and of the last ones in each example.

    Args:
        table: Scores or labels, `[batch, items + 1, other items + 1, ...]`.
        mask: Which places exist, bool `[batch, items + 1, other items + 1]`, or None.

    Returns:
        The numbers, int32 `[items + 1, 1]` and `[other items + 1]`; and int32 `[batch, 1, 1]` each,
        or scalars without a mask.
    """
    sizes = tf.unstack(tf.shape(table)[1:3])
    ends = sizes
    if mask is not None:
        is_there = tf.cast(mask, tf.int32)
        ends = [tf.reduce_sum(tf.reduce_max(is_there, axis), 1) for axis in (2, 1)]
        ends = [tf.reshape(end, [-1, 1, 1]) for end in ends]
    return [tf.range(sizes[0])[:, tf.newaxis], tf.range(sizes[1])], [end - 1 for end in ends]


def _unit_costs(shape: Any, dtype: Any = None) -> tf.Tensor:
    """The negative costs of the edit distance."""
    return tf.eye(shape[0], dtype=dtype) - 1.0
