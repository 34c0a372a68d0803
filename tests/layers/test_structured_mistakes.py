"""Wrong labels, masks and weights of layers that score structures are refused in users' words."""

import logging

import keras
import numpy as np
import pytest
import tensorflow as tf

from kerasrec.layers import (
    HMM,
    Alignment,
    EditDistance,
    LinearChainCRF,
    StructuredAccuracy,
    StructuredLoss,
    TreeCRF,
)

_ERRORS = (ValueError, tf.errors.InvalidArgumentError)


def _labels(shape, **at):
    """Labels that are -1 but for those given by the places of the first example."""
    labels = np.full(shape, -1)
    for place, label in at.items():
        labels[(0, *map(int, place[1:]))] = label
    return labels


def _log_prob_is_refused(message, layer, labels, scores, mask=None):
    """Asserts that it is, in eager code and in a graph that knows no sizes, and in `fit`."""
    mask = (
        np.ones(scores.shape[: -1 if isinstance(layer, Alignment) else 2]) if mask is None else mask
    )
    given = [np.array(labels, np.int32), np.array(scores, np.float32), np.array(mask, bool)]
    with pytest.raises(_ERRORS, match=message):
        layer.log_prob(*given)
    specs = [tf.TensorSpec([None] * array.ndim, array.dtype) for array in given]
    specs[1] = tf.TensorSpec([*[None] * (scores.ndim - 1), scores.shape[-1]], tf.float32)
    in_graph = tf.function(layer.log_prob, specs, autograph=False)
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        in_graph(*given)


def _crf(tags=3):
    layer = LinearChainCRF(tags)
    layer.build([None, None, tags])
    return layer


@pytest.mark.parametrize(
    "make", [lambda: LinearChainCRF(3), lambda: HMM(3, 5), lambda: TreeCRF(3), Alignment]
)
def test_methods_may_be_called_before_the_layer(make):
    is_chain = not isinstance(make(), TreeCRF | Alignment)
    scores = np.zeros([1, 2, 3] if is_chain else [1, 2, 2, 3], np.float32)
    assert make().best(scores).shape == scores.shape[:-1]
    for name in ("transition_scores", "boundary_scores") if is_chain else ():
        parts = getattr(make(), name)
        assert np.shape(parts) == ((3, 3) if name == "transition_scores" else (2, 3))


def test_labels_of_chains():
    layer, scores = _crf(), np.zeros([2, 4, 3])
    large = [[0, 1, 2, 3], [0, 0, 0, 0]]
    message = r"must be from 0 to 2, or -1 if .* \[example, word\]: \[\[0 3\]\] label: \[3\]"
    _log_prob_is_refused(message, layer, large, scores)
    message = r"Labels of .* shape \[batch, words\] for scores \[batch, words, \.\.\.\].* Received "
    _log_prob_is_refused(message, layer, np.zeros([2, 3]), scores)
    with pytest.raises(ValueError, match=message + r"\(2, 4, 3\) and scores \(2, 4, 3\)"):
        layer.log_prob(scores, scores)
    # Padding may have any label.
    mask = np.array([[1, 1, 1, 0], [1, 1, 1, 1]])
    padded = layer.log_prob(large, tf.constant(scores, tf.float32), mask)
    np.testing.assert_allclose(padded, [-3 * np.log(3), -4 * np.log(3)], rtol=1e-5)


@pytest.mark.parametrize("shape", [[2, 3], [2, 5], [3, 4]])
def test_masks_of_other_sizes(shape):
    message = r"`mask` of .* must have the shape \[batch, words\] .* Received .*2,? 4,? 3"
    labels, scores, mask = np.zeros([2, 4]), np.zeros([2, 4, 3], np.float32), np.ones(shape)
    layer = _crf()
    _log_prob_is_refused(message, layer, labels, scores, mask)
    for method in (layer, layer.best, layer.log_partition, layer.sample):
        with pytest.raises(ValueError, match=message):
            method(scores, mask=mask)


@pytest.mark.many
def test_masks_of_trees_are_those_of_words():
    layer, scores = TreeCRF(1), np.zeros([1, 3, 3, 1], np.float32)
    message = r"`mask` of .* must have the shape \[batch, words\] for scores \[batch, words, words,"
    for method in (layer, layer.best, layer.marginals):
        with pytest.raises(ValueError, match=message):
            method(scores, mask=np.ones([1, 3, 3]))
    _log_prob_is_refused(message, layer, _labels([1, 3, 3]), scores, np.ones([1, 2]))


@pytest.mark.many
def test_labels_of_trees():
    layer, scores, shape = TreeCRF(2), np.zeros([1, 3, 3, 2]), [1, 3, 3]
    place = r".* \[example, first word, last word\]: \[\[0 {} {}\]\] label: \[{}\]"
    large = "must be from 0 to 1, or -1" + place.format(0, 2, 4)
    _log_prob_is_refused(large, layer, _labels(shape, _02=4), scores)
    not_one = "must be at the first and the last word of a phrase"
    _log_prob_is_refused(not_one + place.format(2, 0, 1), layer, _labels(shape, _20=1), scores)
    labels, mask = _labels(shape, _02=0), np.array([[1, 1, 0]])
    _log_prob_is_refused(not_one + place.format(0, 2, 0), layer, labels, scores, mask)
    labels = _labels(shape, _01=0, _12=1)
    _log_prob_is_refused("Phrases .* cross" + place.format(0, 1, 0), layer, labels, scores)


@pytest.mark.many
def test_labels_of_alignments():
    layer, scores, shape = Alignment(), np.zeros([1, 3, 2, 3]), [1, 3, 2]
    mask = np.array([[[1, 1], [1, 1], [0, 0]]])
    message = (
        r"steps of one way from the first place .* \[example, items, other items\]: \[\[0 {} {}"
    )
    for labels, given, place in [
        (_labels(shape), None, (0, 0)),
        (_labels(shape, _00=0), None, (1, 1)),
        (_labels(shape, _00=0, _11=2), None, (2, 1)),
        (_labels(shape, _00=0, _11=1, _10=2), None, (1, 0)),
        (_labels(shape, _00=0, _11=1), mask, (2, 1)),
    ]:
        _log_prob_is_refused(message.format(*place), layer, labels, scores, given)
    # Labels of padding are left out.
    scores = tf.constant(scores, tf.float32)
    whole = layer.log_prob(_labels(shape, _00=0, _11=1), scores)
    short = layer.log_prob(_labels(shape, _00=0, _21=0), scores, mask)
    np.testing.assert_allclose([*whole, *short], [-np.log(5), -np.log(3)], rtol=1e-5)


def test_scores():
    layer = Alignment()
    for call in (layer, layer.best):
        with pytest.raises(ValueError, match=r"scores three steps .* \+ 1, 3\]; received .*, 4\)"):
            call(np.zeros([1, 3, 2, 4], np.float32))
    message = (
        r"num_tags=3, and its scores must have the shape \[batch, words, 3\]; received \(4, 3\)"
    )
    for call in (_crf(), _crf().best):
        with pytest.raises(ValueError, match=message):
            call(np.zeros([4, 3], np.float32))
    with pytest.raises(ValueError, match="num_tags=3"):
        LinearChainCRF(3)(keras.Input([None, 2]))


def test_symbols():
    place = r".* \[example, {}\]: \[\[0 1\]\] symbol: \[{}\]"
    with pytest.raises(_ERRORS, match="from 0 to 4, also where masked" + place.format("word", 5)):
        HMM(2, 5)(np.array([[0, 5]]))
    layer, right = EditDistance(3), np.array([[1, 2, 3]])
    for wrong in (4, -1, 0):
        message = "`{}` of .* from 1 to 3, with 0 only behind" + place.format("place", wrong)
        strings = np.array([[1, wrong, 2]])
        with pytest.raises(_ERRORS, match=message.format("x")):
            layer(strings, right)
        with pytest.raises(_ERRORS, match=message.format("y")):
            layer(right, strings)


def test_numbers_of_structures():
    layer, scores = _crf(), np.zeros([2, 4, 3], np.float32)
    with pytest.raises(ValueError, match="`k` must be at least 1; received 0"):
        layer.k_best(scores, 0)
    with pytest.raises(ValueError, match="`num_samples` must be at least 1; received 0"):
        layer.sample(scores, 0)


@pytest.mark.many
def test_fit():
    words = keras.Input([None], dtype="int32")
    scores = keras.layers.Dense(2)(keras.layers.Embedding(5, 4, mask_zero=True)(words))
    model = keras.Model(words, LinearChainCRF(2)(scores))
    model.compile("sgd", StructuredLoss(), metrics=[StructuredAccuracy()])
    x, y = np.array([[1, 2, 3], [4, 1, 0]]), np.array([[0, 1, 2], [0, 0, -1]])
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"from 0 to 1, .* label: \[2\]"):
        model.fit(x, y, verbose=0)
    message = r"`sample_weight` must have the shape \[batch, 1\].* received {}.*class_weight"
    for received, given in {
        r"\(None, 3\)": {"sample_weight": np.ones([2, 3])},
        r"\(None,\)": {"class_weight": {0: 1.0, 1: 2.0, 2: 1.0}},
    }.items():
        with pytest.raises(ValueError, match=message.format(received)):
            model.fit(x, np.minimum(y, 1), **given, verbose=0)


@pytest.mark.many
def test_no_warning_of_tracing_again(caplog):
    layer = _crf()
    with caplog.at_level(logging.WARNING, "tensorflow"):
        for size in range(1, 7):
            scores = np.zeros([size, size + 1, 3], np.float32)
            for mask in (None, np.ones([size, size + 1])):
                layer.best(scores, mask)
                layer.log_partition(scores, mask)
                assert layer.sample(scores, size, mask).shape == (size, size, size + 1)
    assert not caplog.records
