"""Layers from text to trees.

`BracketedText` and `ConlluText` read trees, `TextTree` puts words into one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, ClassVar, Literal, Protocol, get_args

import keras
import numpy as np
import tensorflow as tf

from kerasrec._src.errors import SentenceFirst
from kerasrec._src.layers.argument_checks import check_choice, check_number
from kerasrec._src.layers.brackets import parse_brackets, words_of
from kerasrec._src.layers.conllu import parse_conllu
from kerasrec._src.layers.saved_arguments import SavedByArguments
from kerasrec._src.layers.text_nodes import fail
from kerasrec._src.private import in_symbolic_scope
from kerasrec._src.text import (
    CONLLU_COLUMNS,
    checked_has_labels,
    is_utf8,
    lower_case,
    word_table,
)

Shape = Literal["balanced", "left", "right"]


class KnownWords(Protocol):
    """The part of a `kerasrec.datasets.Vocabulary` that layers read."""

    words: list[str]
    lowercase: bool


class _Column(tf.Module):
    """Turns the texts of a column into numbers, if there is a vocabulary for it.

    Args:
        argument: The argument that has the vocabulary, for errors.
        vocabulary: A `kerasrec.datasets.Vocabulary`, or a list of words; None if texts stay text.
        lowercase: Whether texts are lowercased.
    """

    def __init__(
        self, argument: str, vocabulary: KnownWords | Iterable[str] | None, lowercase: bool
    ) -> None:
        super().__init__()
        known = getattr(vocabulary, "words", None)
        words = vocabulary if known is None else known[2:]
        if isinstance(words, str) or not isinstance(words, Iterable | None):
            raise ValueError(
                f"{argument} must be a kerasrec.datasets.Vocabulary, or a list of words, received "
                f"{vocabulary!r}."
            )
        self.lowercase = lowercase
        self.words = None if words is None else self._listed(argument, words)
        self._table = None if self.words is None else word_table(self.words)

    def _listed(self, argument: str, vocabulary: Iterable[Any]) -> list[str]:
        words = [str(word) if isinstance(word, np.str_) else word for word in vocabulary]
        wrong = [word for word in words if not (isinstance(word, str) and word and is_utf8(word))]
        if wrong:
            raise ValueError(
                f"{argument} holds {wrong[0]!r}; expected words, text that is not empty and "
                "contains no unpaired surrogate. The numbers 0, of no word, and 1, of unknown "
                "words, are added to it."
            )
        if self.lowercase:
            words = [word.lower() for word in words]
        if len(set(words)) < len(words):
            twice = next(word for word in words if words.count(word) > 1)
            raise ValueError(
                f"{argument} holds {twice!r} twice (lowercase={self.lowercase}). Pass each word "
                "once."
            )
        return words

    @property
    def dtype(self) -> str:
        """The dtype of the results."""
        return "string" if self._table is None else "int32"

    def __call__(self, texts: tf.Tensor) -> tf.Tensor:
        """Returns texts, or their numbers."""
        texts = lower_case(texts) if self.lowercase else texts
        return texts if self._table is None else self._table.lookup(texts)


class TextLayer(SavedByArguments):
    """Base class of the layers from text to trees.

    Args:
        vocabulary: The argument of `BracketedText`.
        lowercase: The argument of `BracketedText`.
        arity: The largest number of children of a tree node; None for as many as a batch has.
        **kwargs: The options of every Keras layer: `name`, `dtype` and `trainable`.
    """

    in_attributes: ClassVar[Collection[str]] = ("vocabulary", "lowercase")

    def __init__(
        self,
        vocabulary: KnownWords | Iterable[str] | None = None,
        lowercase: bool | None = None,
        arity: int | None = 2,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        check_number(f"`arity` of {self.name}", arity, is_optional=True)
        self.arity = arity
        of_vocabulary = getattr(vocabulary, "lowercase", True)
        self.lowercase = bool(of_vocabulary if lowercase is None else lowercase)
        words = _Column(f"`vocabulary` of {self.name}", vocabulary, self.lowercase)
        self.vocabulary = words.words
        self.supports_jit = False  # XLA takes no text.
        self._columns = [words]
        # Op by op, as in eager calls, reading a tree takes many times as long.
        self._trees_at_once = tf.function(
            self._trees, [tf.TensorSpec([None], tf.string)], autograph=False
        )

    def __call__(self, text: Any, *args: Any, **kwargs: Any) -> Any:
        """Calls the layer: `layer(text)`."""
        if isinstance(text, str | bytes | list | tuple | np.ndarray):
            try:
                text = tf.convert_to_tensor(text, tf.string)
            except (TypeError, ValueError) as error:
                raise ValueError(
                    f"`text` of {self.name} must be a list of texts, received {text!r}."
                ) from error
        with SentenceFirst():
            return super().__call__(text, *args, **kwargs)

    def call(self, text: Any) -> tuple[Any, ...]:
        """Reads texts; see the class."""
        if in_symbolic_scope() and text.dtype != tf.string:
            text = tf.as_string(text)  # As Keras builds a subclassed model, to load it.
        self._check(text)
        if text.shape.rank == 2:
            text = tf.squeeze(text, 1)
        trees = self._trees_at_once if tf.executing_eagerly() else self._trees
        *columns, children = trees(text)
        for column in columns:
            column.set_shape([text.shape[0], None])
        children.set_shape([text.shape[0], None, self.arity])
        return (*columns, children)

    def _trees(self, text: tf.Tensor) -> tuple[tf.Tensor, ...]:
        with tf.device("/CPU:0"):  # Text never leaves it, and its integers need not.
            decoded = tf.strings.unicode_transcode(text, "UTF-8", "UTF-8", errors="replace")
            checked = _check_texts(decoded != text, "has bytes that are not UTF-8.")
            with tf.control_dependencies([checked]):
                *columns, children = self.trees_of(tf.identity(text))
        looked_up = map(_Column.__call__, self._columns, columns)
        return (*looked_up, *columns[len(self._columns) :], children)

    def trees_of(self, text: tf.Tensor) -> tuple[tf.Tensor, ...]:
        """Returns columns, string `[batch, nodes]`, and children, int32 `[batch, nodes, arity]`.

        Args:
            text: The texts, string `[batch]`, in UTF-8.
        """
        raise NotImplementedError

    def _check(self, text: Any) -> None:
        shape = tuple(text.shape)
        if text.dtype != "string" or not (len(shape) == 1 or (len(shape) == 2 and shape[1] == 1)):
            raise ValueError(
                f"`text` of {self.name} must be a text for each tree, string [batch] or [batch, "
                f"1], received {keras.backend.standardize_dtype(text.dtype)} of shape {shape}. "
                "Give the Keras Input dtype='string' and the shape () or (1,)."
            )

    def compute_output_shape(self, text_shape: Any) -> Any:
        """Returns the shapes of words and children."""
        columns = [(text_shape[0], None)] * len(self._columns)
        return (*columns, (text_shape[0], None, self.arity))

    def compute_output_spec(self, text: Any) -> Any:
        """Returns symbolic words and children."""
        self._check(text)
        shapes = self.compute_output_shape(text.shape)
        dtypes = [column.dtype for column in self._columns]
        dtypes += ["int32"] * (len(shapes) - len(dtypes))
        return tuple(map(keras.KerasTensor, shapes, dtypes))


@keras.saving.register_keras_serializable("kerasrec")
class BracketedText(TextLayer):
    r"""Reads trees in brackets, `(3 (2 a) (4 film))`, so that a model can take text.

    The layer is the counterpart of `keras.layers.TextVectorization` for trees. Its words and
    children are those of `kerasrec.datasets.encode_tree`: tree nodes in preorder, the root at node
    0, padding last. It uses stock TensorFlow ops and reads all texts of a batch at once, so an
    exported model needs neither Python nor kerasrec to read text.

    Words are separated only by the ASCII space, tab and line break, since some of SST's words
    contain U+00A0. `\/` and `\*` are escapes, and `-LRB-` and `-RRB-` are words, as in the files
    that `kerasrec.datasets.read_sst` and `read_brackets` read.

    Args:
        arity: The largest number of children of a tree node, an int: the arity of the tree layer.
            None for as many as a batch has, which `ChildSumTreeLSTM` accepts.
        vocabulary: A `kerasrec.datasets.Vocabulary`, or a list of words, which get the numbers 2,
            3, ...; 0 means no word, and 1 an unknown word. By default words stay text.
        lowercase: Whether to lowercase words; by default as in the `Vocabulary`, and True without
            one.
        has_labels: Whether each bracket begins with a label, an integer or a name such as `NP`,
            which is left out. A bracket without a label may stand around the trees: around one,
            `( (S ...))`, it is left out; around several it is the root. Without labels,
            `((a film) (works well))`, each word is a tree node, and so is each bracket around
            several. By default labels that may be words are an error, as in `(OK computer)`; see
            `kerasrec.datasets.read_brackets`. Give it for a model that is to be served.
        **kwargs: The options of every Keras layer: `name`, `dtype` and `trainable`.

    Call arguments:
        text: The texts, string `[batch]` or `[batch, 1]`, one tree each.

    Output shape:
        The words, string `[batch, nodes]`, `""` for none; with a `vocabulary` int32, 0 for none.
        The children, int32 `[batch, nodes, arity]`, -1 for none.

    Raises:
        ValueError: If `text` is not text or has another shape, or if `vocabulary` contains a word
            twice.
        tf.errors.InvalidArgumentError: When called with a text whose brackets do not match; with
            words next to a tree; with a tree node that is empty, has no label, has a label that may
            be a word (unless `has_labels` is given), or has too many children; with text before or
            after the tree; or with bytes that are not UTF-8. The message names the text by its
            place in the batch, from 0, and the character, from 1.

    Example:

    >>> layer = kerasrec.layers.BracketedText(vocabulary=["a", "film"])
    >>> words, children = layer(["(3 (2 A) (4 film))", "(2 plot)"])
    >>> print(words.numpy(), children[0].numpy(), sep="\n")
    [[0 2 3]
     [1 0 0]]
    [[ 1  2]
     [-1 -1]
     [-1 -1]]
    """

    in_attributes = ("has_labels",)

    def __init__(
        self,
        arity: int | None = 2,
        *,
        vocabulary: KnownWords | Iterable[str] | None = None,
        lowercase: bool | None = None,
        has_labels: bool | None = None,
        **kwargs: Any,
    ):
        super().__init__(vocabulary, lowercase, arity, **kwargs)
        self.has_labels = checked_has_labels(has_labels, self.name)

    def trees_of(self, text: tf.Tensor) -> tuple[tf.Tensor, ...]:
        """Returns the words and children of each text."""
        return parse_brackets(text, self.arity, self.has_labels)


@keras.saving.register_keras_serializable("kerasrec")
class ConlluText(TextLayer):
    r"""Reads dependency trees in CoNLL-U, so that a model can take the output of a parser.

    The layer gives the words and children that `kerasrec.datasets.parse_conllu` and
    `encode_dependencies` give: a word is a tree node, its dependents are its children, and the root
    is node 0. It uses stock TensorFlow ops and reads all texts of a batch at once, so an exported
    model needs neither Python nor kerasrec to read text. Multiword tokens, empty nodes and comments
    are left out.

    Args:
        arity: The largest number of dependents of a word, an int: the arity of the tree layer. None
            for as many as a batch has, which `ChildSumTreeLSTM` accepts.
        vocabulary: A `kerasrec.datasets.Vocabulary`, or a list of words, which get the numbers 2,
            3, ...; 0 means no word, and 1 an unknown word. By default words stay text.
        lowercase: Whether to lowercase words; by default as in the `Vocabulary`, and True without
            one.
        features: Further columns to return, each with its vocabulary, such as `{"upos":
            Vocabulary.from_trees(trees, column="upos")}`: those of `encode_dependencies`. A list of
            values is taken as it is, without lowercasing; with None the column stays text.
        return_positions: Whether to also return the place of each word in its sentence, from 0.
        **kwargs: The options of every Keras layer: `name`, `dtype` and `trainable`.

    Call arguments:
        text: The texts, string `[batch]` or `[batch, 1]`, one sentence each: a line of ten columns
            for each word. A blank line may follow.

    Output shape:
        The words, string `[batch, nodes]`, `""` for none; with a `vocabulary` int32, 0 for none.
        Then each column of `features`, in the same way; words without a value have none. With
        `return_positions` the positions, int32 `[batch, nodes]`, -1 for none. Last the children,
        int32 `[batch, nodes, arity]`, -1 for none.

    Raises:
        ValueError: If `text` is not text or has another shape, if `vocabulary` contains a word
            twice, or if `features` has another column.
        tf.errors.InvalidArgumentError: When called with a text that is not one sentence as
            `kerasrec.datasets.parse_conllu` takes it, with a word that has more than `arity`
            dependents, or with bytes that are not UTF-8. The message names the text by its place in
            the batch, from 0, the line, from 1, and the reason.

    Example:

    >>> lines = ["1 It _ PRON _ _ 2 nsubj _ _", "2 works _ VERB _ _ 0 root _ _"]
    >>> layer = kerasrec.layers.ConlluText(features={"upos": ["PRON", "VERB"]})
    >>> words, tags, children = layer(["\n".join(lines).replace(" ", "\t")])
    >>> print(words.numpy(), tags.numpy(), children.numpy().tolist())
    [[b'works' b'it']] [[3 2]] [[[1], [-1]]]
    """

    def __init__(
        self,
        arity: int | None = None,
        *,
        vocabulary: KnownWords | Iterable[str] | None = None,
        lowercase: bool | None = None,
        features: Mapping[str, Any] | None = None,
        return_positions: bool = False,
        **kwargs: Any,
    ):
        super().__init__(vocabulary, lowercase, arity, **kwargs)
        known = [name for name in CONLLU_COLUMNS if name not in ("id", "words", "heads")]
        if not isinstance(features, Mapping | None) or set(features or ()) - set(known):
            raise ValueError(
                f"`features` of {self.name} must be a dict of vocabularies of the columns "
                f"{', '.join(known)}, received {features!r}."
            )
        self.return_positions = bool(return_positions)
        self._names = list(features or ())
        saved = {}
        for name, values in (features or {}).items():
            given: Mapping[str, Any] = values  # as it is saved
            if not isinstance(values, Mapping):
                given = {"vocabulary": values, "lowercase": getattr(values, "lowercase", False)}
            column = _Column(f"`features[{name!r}]` of {self.name}", **given)
            self._columns.append(column)
            saved[name] = {"vocabulary": column.words, "lowercase": column.lowercase}
        self._arguments["features"] = saved

    def trees_of(self, text: tf.Tensor) -> tuple[tf.Tensor, ...]:
        """Returns the words, other columns and children of each text."""
        *columns, positions, children = parse_conllu(text, ["words", *self._names], self.arity)
        return (*columns, *[positions] * self.return_positions, children)

    def compute_output_shape(self, text_shape: Any) -> Any:
        """Returns the shapes of words, other columns, positions and children."""
        *columns, children = super().compute_output_shape(text_shape)
        return (*columns, *columns[:1] * self.return_positions, children)


@keras.saving.register_keras_serializable("kerasrec")
class TextTree(TextLayer):
    r"""Puts the words of a sentence into a binary tree, so that a model needs no parser.

    The trees are those of `kerasrec.datasets.make_tree`, and their words and children those of
    `kerasrec.datasets.encode_tree`. The layer uses stock TensorFlow ops and reads all texts of a
    batch at once. Words are separated only by the ASCII space, tab and line break.

    Args:
        shape: The shape of the trees: "balanced", `((a b) (c d))`; "left", `(((a b) c) d)`; or
            "right", `(a (b (c d)))`.
        vocabulary: A `kerasrec.datasets.Vocabulary`, or a list of words, which get the numbers 2,
            3, ...; 0 means no word, and 1 an unknown word. By default words stay text.
        lowercase: Whether to lowercase words; by default as in the `Vocabulary`, and True without
            one.
        **kwargs: The options of every Keras layer: `name`, `dtype` and `trainable`.

    Call arguments:
        text: The texts, string `[batch]` or `[batch, 1]`, one sentence each.

    Output shape:
        The words, string `[batch, nodes]`, `""` for none; with a `vocabulary` int32, 0 for none.
        The children, int32 `[batch, nodes, 2]`, -1 for none.

    Raises:
        ValueError: If `text` is not text or has another shape, if `shape` is none of the three, or
            if `vocabulary` contains a word twice.
        tf.errors.InvalidArgumentError: When called with a text that has no words, or with bytes
            that are not UTF-8. The message names the text by its place in the batch, from 0.

    Example:

    >>> words, children = kerasrec.layers.TextTree("right")(["a good film"])
    >>> print(words.numpy(), children.numpy().tolist(), sep="\n")
    [[b'' b'a' b'' b'good' b'film']]
    [[[1, 2], [-1, -1], [3, 4], [-1, -1], [-1, -1]]]
    """

    def __init__(
        self,
        shape: Shape = "balanced",
        *,
        vocabulary: KnownWords | Iterable[str] | None = None,
        lowercase: bool | None = None,
        **kwargs: Any,
    ):
        super().__init__(vocabulary, lowercase, **kwargs)
        check_choice(f"`shape` of {self.name}", shape, get_args(Shape))
        self.shape = shape

    def trees_of(self, text: tf.Tensor) -> tuple[tf.Tensor, ...]:
        """Returns the words and children of each text."""
        words = words_of(text)
        lengths = words.row_lengths()
        checked = _check_texts(lengths == 0, "has no words; expected at least one.")
        with tf.control_dependencies([checked]):
            sizes, firsts, left = _SHAPES[self.shape](tf.identity(lengths))
        nodes = tf.range(tf.shape(sizes, tf.int64)[1])
        below = tf.stack([nodes + tf.ones_like(left), nodes + 2 * left], -1)
        children = tf.where(sizes[..., tf.newaxis] > 1, tf.cast(below, tf.int32), -1)
        table = tf.concat([[""], words.values], 0)
        places = words.row_starts()[:, tf.newaxis] + firsts + 1
        return tf.gather(table, tf.where(sizes == 1, places, 0)), children


def _check_texts(wrong: tf.Tensor, sentence: str) -> tf.Tensor:
    """Raises InvalidArgumentError, when the graph runs, if something is wrong with a text.

    Args:
        wrong: Whether each text is wrong, bool `[batch]`.
        sentence: The message; it begins after the name of the text.

    Returns:
        True, a tensor on which every op that needs the check must depend.
    """

    def failed() -> tf.Tensor:
        return fail("`text[", tf.strings.as_string(tf.where(wrong)[0, 0]), "]` ", sentence)

    return tf.cond(tf.reduce_any(wrong), failed, lambda: tf.constant(True))


# For sentences with given numbers of words, int64 `[batch]`: the number of words below each tree
# node in preorder, 0 for padding; the first of them; and the number of words of the left child of
# inner nodes. Each is int64 `[batch, nodes]`. The children of node i, whose left child has w words,
# are i + 1 and, after the 2w - 1 nodes of the left tree, i + 2w.
_Sizes = tuple[tf.Tensor, tf.Tensor, tf.Tensor]


def _nodes(lengths: tf.Tensor) -> tf.Tensor:
    most = tf.reduce_max(tf.concat([[1], lengths], 0))
    return tf.range(2 * most - 1)[tf.newaxis]


def _left(lengths: tf.Tensor) -> _Sizes:
    """Inner nodes come first, each with one word less than the one before."""
    nodes, lengths = _nodes(lengths), lengths[:, tf.newaxis]
    sizes = tf.maximum(lengths - nodes, 1)
    firsts = tf.maximum(nodes - lengths + 1, 0)
    return _without_padding(sizes, nodes, lengths), firsts, sizes - 1


def _right(lengths: tf.Tensor) -> _Sizes:
    """Inner nodes and words alternate."""
    nodes, lengths = _nodes(lengths), lengths[:, tf.newaxis]
    sizes = tf.where(nodes % 2 == 0, lengths - nodes // 2, 1)
    return _without_padding(sizes, nodes, lengths), nodes // 2, tf.ones_like(sizes)


def _balanced(lengths: tf.Tensor) -> _Sizes:
    """All nodes are sought from the root down at once, in as many steps as the tree is high."""
    nodes, lengths = _nodes(lengths), lengths[:, tf.newaxis]
    nodes += tf.zeros_like(lengths)

    def step(start: tf.Tensor, size: tf.Tensor, first: tf.Tensor) -> list[tf.Tensor]:
        left = (size + 1) // 2
        is_there, is_right = nodes <= start, nodes >= start + 2 * left
        return [
            tf.where(is_there, start, tf.where(is_right, start + 2 * left, start + 1)),
            tf.where(is_there, size, tf.where(is_right, size - left, left)),
            tf.where(is_right & ~is_there, first + left, first),
        ]

    zeros = tf.zeros_like(nodes)
    is_node = nodes < 2 * lengths - 1
    _, sizes, firsts = tf.while_loop(
        lambda start, size, first: tf.reduce_any(is_node & (start < nodes)),
        step,
        [zeros, zeros + lengths, zeros],
        shape_invariants=[tf.TensorShape([None, None])] * 3,
    )
    return _without_padding(sizes, nodes, lengths), firsts, (sizes + 1) // 2


def _without_padding(sizes: tf.Tensor, nodes: tf.Tensor, lengths: tf.Tensor) -> tf.Tensor:
    return tf.where(nodes < 2 * lengths - 1, sizes, 0)


_SHAPES: dict[str, Callable[[tf.Tensor], _Sizes]] = {
    "balanced": _balanced,
    "left": _left,
    "right": _right,
}
