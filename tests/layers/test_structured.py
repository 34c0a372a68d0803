"""Layers that score structures, against enumerations of all structures."""

import itertools

import keras
import numpy as np
import pytest
import tensorflow as tf

from kerasrec.layers import HMM, LinearChainCRF, Semiring, StructuredLoss

_MASK = np.array([[1, 1, 1], [1, 0, 1], [0, 1, 0], [0, 0, 0]], bool)
_WORDS = np.array([[3, 1, 4], [3, 0, 1], [0, 2, 0], [0, 0, 0]])
_TAGS = 3


def _with_random_weights(layer):
    random = np.random.default_rng(0)
    for variable in layer.trainable_variables:
        variable.assign(random.normal(size=variable.shape))
    return layer


def _crf():
    layer = LinearChainCRF(_TAGS, dtype="float64")
    layer.build([None, None, _TAGS])
    scores = np.random.default_rng(1).normal(size=[4, 3, _TAGS])
    return _with_random_weights(layer), tf.constant(scores)


def _hmm():
    layer = HMM(_TAGS, 5, dtype="float64")
    layer.build([None, None])
    scores = _with_random_weights(layer)(_WORDS)
    emissions = keras.ops.softmax(layer.emissions, 1).numpy()
    np.testing.assert_allclose(scores, np.log(emissions.T[_WORDS]))
    return layer, scores


def _plain(layer, scores, mask):
    """The score of each sequence of tags, by the tags; TensorFlow only adds."""
    first, last = layer.ends
    found = {}
    rows = tf.boolean_mask(scores, mask)
    for tags in itertools.product(range(_TAGS), repeat=len(rows)):
        score = tf.add_n([tf.zeros([], scores.dtype), *(rows[i, t] for i, t in enumerate(tags))])
        if tags:
            score += first[tags[0]] + last[tags[-1]]
        found[tags] = score + sum(layer.moves[pair] for pair in itertools.pairwise(tags))
    return found


def _log_sum(scores):
    return tf.reduce_logsumexp(tf.stack(list(scores)))


def _spread(tags, mask):
    """Tags at their places; -1 where masked."""
    row = np.full(mask.shape, -1)
    row[mask] = tags
    return row.tolist()


@pytest.fixture(scope="module", params=[_crf, pytest.param(_hmm, marks=pytest.mark.many)])
def chain(request):
    layer, scores = request.param()
    return layer, scores, [_plain(layer, *row) for row in zip(scores, _MASK, strict=True)]


def test_sums_and_their_gradients(chain):
    layer, scores, _ = chain
    variables = [scores, *layer.trainable_variables]
    tags = [[0, 2, 1], [1, 7, 2], [-1, 2, 0], [-1, -1, -1]]
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(scores)
        # Traced anew, so that the gradient reaches the weights.
        plain = [_plain(layer, *row) for row in zip(scores, _MASK, strict=True)]
        totals = [_log_sum(each.values()) for each in plain]
        known = [
            each[tuple(np.array(row)[mask])]
            for each, row, mask in zip(plain, tags, _MASK, strict=True)
        ]
        expected = tf.stack([one - total for one, total in zip(known, totals, strict=True)])
        found = layer.log_prob(tags, scores, _MASK)
        entropies, expected_entropies = layer.entropy(scores, _MASK), []
        for each, total in zip(plain, totals, strict=True):
            logs = tf.stack(list(each.values())) - total
            expected_entropies.append(-tf.reduce_sum(tf.exp(logs) * logs))
        expected_entropies = tf.stack(expected_entropies)
    np.testing.assert_allclose(layer.log_partition(scores, _MASK), totals)
    np.testing.assert_allclose(found, expected)
    np.testing.assert_allclose(entropies, expected_entropies, atol=1e-12)
    for one, other in [(found, expected), (entropies, expected_entropies)]:
        for variable in variables:
            slope, wanted = (tape.gradient(value, variable) for value in (one, other))
            if wanted is not None:
                slope, wanted = tf.convert_to_tensor(slope), tf.convert_to_tensor(wanted)
                np.testing.assert_allclose(slope, wanted, atol=1e-10)


def test_unknown_tags_are_added_up(chain):
    layer, scores, plain = chain
    tags = [[0, -1, 1], [-1, 5, 2], [5, -1, 1], [0, 0, 0]]
    expected = []
    for each, row, mask in zip(plain, tags, _MASK, strict=True):
        row = np.array(row)[mask]
        fits = [score for key, score in each.items() if np.all((row < 0) | (row == key))]
        expected.append(_log_sum(fits))
    np.testing.assert_allclose(layer.log_weight(tags, scores, _MASK), expected)


def test_marginals_and_counts(chain):
    layer, scores, plain = chain
    expected = np.zeros(scores.shape)
    for row, each, mask in zip(expected, plain, _MASK, strict=True):
        total = _log_sum(each.values())
        for tags, score in each.items():
            row[np.flatnonzero(mask), list(tags)] += np.exp(score - total)
    np.testing.assert_allclose(layer.marginals(scores, _MASK), expected, atol=1e-12)
    impossible = tf.tensor_scatter_nd_update(scores, [[0, 1, 2]], [-np.float64(1e6)])
    assert layer.count(scores, _MASK).numpy().tolist() == [27, 9, 3, 1]
    assert layer.count(impossible, _MASK).numpy().tolist() == [18, 9, 3, 1]


@pytest.mark.many
def test_the_best(chain):
    layer, scores, plain = chain
    ranked = [sorted(each, key=each.get, reverse=True) for each in plain]
    found = layer.best(scores, _MASK).numpy().tolist()
    assert found == [_spread(r[0], mask) for r, mask in zip(ranked, _MASK, strict=True)]
    several = layer.k_best(scores, 10, _MASK).numpy().tolist()
    values = layer.total(scores, Semiring.of_k_best(10), _MASK).numpy()
    for row, value, rank, each, mask in zip(several, values, ranked, plain, _MASK, strict=True):
        missing = 10 - len(rank[:10])
        assert row == [_spread(r, mask) for r in rank[:10]] + [[-1] * 3] * missing
        np.testing.assert_allclose(value[: 10 - missing], [each[r] for r in rank[:10]])
        assert (value[10 - missing :] < -5e5).all()


@pytest.mark.many
def test_samples(chain):
    layer, scores, plain = chain
    keras.utils.set_random_seed(0)
    drawn = layer.sample(scores, 4000, _MASK).numpy()
    assert drawn.shape == (4, 4000, 3)
    for rows, each, mask in zip(drawn, plain, _MASK, strict=True):
        assert (rows[:, ~mask] == -1).all()
        total = _log_sum(each.values())
        for tags, score in each.items():
            chance = float(np.exp(score - total))
            share = np.mean((rows[:, mask] == np.array(tags, int)).all(1))
            assert abs(share - chance) < 5 * np.sqrt(chance * (1 - chance) / 4000) + 1e-9


@pytest.mark.many
def test_equal_scores_give_one_structure():
    layer = LinearChainCRF(_TAGS)
    assert layer(np.zeros([1, 3, _TAGS])).dtype == tf.float32
    assert layer.best(np.zeros([1, 3, _TAGS])).numpy().tolist() == [[0, 0, 0]]
    (rows,) = layer.k_best(np.zeros([1, 3, _TAGS]), 27).numpy().tolist()
    assert sorted(rows) == [list(tags) for tags in itertools.product(range(_TAGS), repeat=3)]


def _data():
    """Batches of different lengths: tags alternate, and only some words tell which comes first."""
    random = np.random.default_rng(0)

    def batches():
        for length in [5, 3, 8, 6] * 6:
            tags = (random.integers(0, 2, [16, 1]) + np.arange(length)) % 2
            words = np.where(random.uniform(size=tags.shape) < 0.6, tags + 1, 3)
            words[:, 0] = tags[:, 0] + 1
            words[::2, -1] = 0
            yield words, np.where(words > 0, tags, -1)

    spec = tf.TensorSpec([None, None], tf.int64)
    return tf.data.Dataset.from_generator(batches, output_signature=(spec, spec))


def _tagger():
    words = keras.Input([None], dtype="int32")
    vectors = keras.layers.Embedding(5, 8, mask_zero=True)(words)
    layer = LinearChainCRF(2)
    scores = keras.layers.Dense(2)(vectors)
    return keras.Model(words, layer(scores)), keras.Model(words, layer(scores, output="best"))


@pytest.mark.many
def test_fit_save_and_load(tmp_path):
    keras.utils.set_random_seed(1)
    model, tagger = _tagger()
    assert model.output_shape == (None, None, 2)
    assert (tagger.output_shape, tagger.output.dtype) == ((None, None), "int32")
    model.compile(keras.optimizers.Adam(0.1), StructuredLoss())
    losses = model.fit(_data().repeat(3), steps_per_epoch=24, epochs=3, verbose=0).history["loss"]
    assert losses[-1] < 0.5 * losses[0]
    words, tags = next(iter(_data()))
    found = tagger.predict(words, verbose=0)
    assert np.mean(found == tags) > 0.9
    assert np.all((found < 0) == (tags < 0))
    # The mask says which words there are, so what padded words are labeled with changes nothing.
    loss = model.evaluate(words, tags, verbose=0)
    assert model.evaluate(words, np.where(tags < 0, 1, tags), verbose=0) == pytest.approx(loss)
    losses = -model.layers[-1].log_prob(tags, model(words))
    weights = np.linspace(0, 1, 16)
    weighted = model.evaluate(words, tags, sample_weight=weights, verbose=0)
    assert weighted == pytest.approx(np.sum(losses * weights) / 16, rel=1e-4)
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    assert again.evaluate(words, tags, verbose=0) == pytest.approx(loss)
    again.fit(_data(), verbose=0)
    tagger.export(tmp_path / "tagger")
    served = tf.saved_model.load(tmp_path / "tagger")
    np.testing.assert_array_equal(served.serve(tf.cast(words, tf.int32)), found)


@pytest.mark.slow
def test_a_hidden_markov_model_learns_without_labels():
    keras.utils.set_random_seed(0)
    words = keras.Input([None], dtype="int32")
    model = keras.Model(words, HMM(2, 4)(words))
    x = np.tile([0, 1, 2, 3, 0, 1], [8, 1])
    unknown = np.full_like(x, -1)
    model.compile(keras.optimizers.Adam(0.1), StructuredLoss())
    losses = model.fit(x, unknown, batch_size=8, epochs=40, verbose=0).history["loss"]
    assert losses[-1] < 0.8 * losses[0]


@pytest.mark.parametrize("layer", [LinearChainCRF(3, use_boundary=False, name="a"), HMM(2, 4)])
def test_configurations(layer):
    config = layer.get_config()
    again = type(layer).from_config(config)
    assert again.get_config() == config
    assert again.dtype == "float32"


@pytest.mark.many
def test_half_precision_around_it():
    keras.config.set_dtype_policy("mixed_float16")
    try:
        layer = LinearChainCRF(2)
        scores = layer(tf.ones([1, 40, 2], tf.float16))
    finally:
        keras.config.set_dtype_policy("float32")
    assert scores.dtype == tf.float32
    np.testing.assert_allclose(layer.log_partition(scores), [40 * (1 + np.log(2))], rtol=1e-5)


def test_mistakes():
    with pytest.raises(ValueError, match=r"num_tags=3, and its scores must have the shape"):
        LinearChainCRF(3)(np.zeros([1, 2, 4]))
    with pytest.raises(ValueError, match="Let that layer be the model's last"):
        StructuredLoss()(tf.zeros([1, 2]), tf.zeros([1, 2, 3]))
    with pytest.raises(ValueError, match="`output` must be one of scores, best"):
        LinearChainCRF(3)(keras.Input([None, 3]), output="worst")
