"""Layers that score structures, against enumerations of all structures."""

import itertools
from collections.abc import Callable
from typing import NamedTuple

import keras
import numpy as np
import pytest
import tensorflow as tf

import kerasrec
from docs.run_pages import BLOCK, ROOT
from kerasrec.layers import (
    HMM,
    Alignment,
    EditDistance,
    LinearChainCRF,
    Semiring,
    StructuredAccuracy,
    StructuredLoss,
    TreeCRF,
)
from tests.parameters import few_of

_MASK = np.array([[1, 1, 1], [1, 0, 1], [0, 1, 0], [0, 0, 0]], bool)
_WORDS = np.array([[3, 1, 4], [3, 0, 1], [0, 2, 0], [0, 0, 0]])
_TAGS = 3


class Case(NamedTuple):
    """A layer, its scores, and the mask; all structures of an example, with their scores.

    Args:
        layer: The layer.
        scores: Its outputs.
        mask: Which of them there are.
        plain: Takes the layer, and the scores and the mask of an example.
        known: Labels, all known.
        partly: Labels that do not tell all, with a function of them and of structures for which
            structures they may stand for.
    """

    layer: keras.layers.Layer
    scores: tf.Tensor
    mask: np.ndarray
    plain: Callable
    known: list
    partly: list
    may_be: Callable

    def structures(self):
        """For each example, arrays of its structures, and their scores."""
        found = [self.plain(self.layer, *row) for row in zip(self.scores, self.mask, strict=True)]
        return [(np.array(keys), tf.stack(scores)) for keys, scores in found]


def _with_random_weights(layer):
    random = np.random.default_rng(0)
    for variable in layer.trainable_variables:
        variable.assign(random.normal(size=variable.shape))
    return layer


def _crf():
    layer = LinearChainCRF(_TAGS, dtype="float64")
    layer.build([None, None, _TAGS])
    scores = np.random.default_rng(1).normal(size=[4, 3, _TAGS])
    return _chain(_with_random_weights(layer), tf.constant(scores))


def _hmm():
    layer = HMM(_TAGS, 5, dtype="float64")
    layer.build([None, None])
    scores = _with_random_weights(layer)(_WORDS)
    emissions = keras.ops.softmax(layer.emissions, 1).numpy()
    np.testing.assert_allclose(scores, np.log(emissions.T[_WORDS]))
    return _chain(layer, scores)


def _chain(layer, scores):
    known = [[0, 2, 1], [1, 7, 2], [-1, 2, 0], [-1, -1, -1]]
    partly = [[0, -1, 1], [-1, 5, 2], [5, -1, 1], [0, 0, 0]]
    return Case(layer, scores, _MASK, _sequences, known, partly, _agrees)


def _agrees(labels, structure, mask):
    return np.all((labels < 0) | (structure == labels) | ~mask)


def _sequences(layer, scores, mask):
    """All sequences of tags."""
    first, last = layer.boundary_scores
    found = []
    places = np.flatnonzero(mask)
    for tags in itertools.product(range(_TAGS), repeat=len(places)):
        score = tf.zeros([], scores.dtype)
        score += sum(scores[place, tag] for place, tag in zip(places, tags, strict=True))
        if tags:
            score += first[tags[0]] + last[tags[-1]]
        score += sum(layer.transition_scores[pair] for pair in itertools.pairwise(tags))
        structure = np.full(mask.shape, -1)
        structure[places] = tags
        found.append((structure, score))
    return zip(*found, strict=True)


def _trees():
    layer = TreeCRF(2, dtype="float64")
    scores = tf.constant(np.random.default_rng(1).normal(size=[4, 3, 3, 2]))
    known = np.full([4, 3, 3], -1)
    known[0, [0, 1, 2, 1, 0], [0, 1, 2, 2, 2]] = [0, 1, 1, 0, 1]
    known[1, [0, 2, 0], [0, 2, 2]] = [0, 1, 0]  # Word 1 is masked.
    known[2, 1, 1] = 0
    partly = np.full([4, 3, 3], -1)
    partly[0, 0, 1] = 1
    partly[1, 0, 2] = 1
    return Case(layer, scores, _MASK, _binary_trees, known, partly, _has_phrases)


def _has_phrases(labels, structure, mask):
    is_there = mask[:, np.newaxis] & mask & np.triu(np.ones(labels.shape, bool))
    return _agrees(labels, structure, is_there)


def _phrases(words):
    """The phrases of each binary tree over words."""
    if len(words) < 2:
        yield [(words[0], words[0])]
    for place in range(1, len(words)):
        for left, right in itertools.product(_phrases(words[:place]), _phrases(words[place:])):
            yield [*left, *right, (words[0], words[-1])]


def _binary_trees(layer, scores, mask):
    found = []
    words = np.flatnonzero(mask)
    for phrases in _phrases(words) if len(words) else [[]]:
        for labels in itertools.product(range(2), repeat=len(phrases)):
            structure = np.full([3, 3], -1)
            score = tf.zeros([], scores.dtype)
            for (i, j), label in zip(phrases, labels, strict=True):
                structure[i, j] = label
                score += scores[i, j, label]
            found.append((structure, score))
    return zip(*found, strict=True)


def _alignments():
    layer = EditDistance(3, initializer="normal", dtype="float64")
    layer.build([None, None])
    x, y = np.array([[1, 2], [3, 1], [2, 0], [0, 0]]), np.array([[2, 3], [1, 0], [0, 0], [0, 0]])
    scores = _with_random_weights(layer)(x, y)
    edits = layer.edits.numpy()
    expected = [[[edits[a, b], edits[a, 0], edits[0, b]] for b in (2, 3)] for a in (1, 2)]
    np.testing.assert_allclose(scores[0, :2, :2], expected)
    known = np.full([4, 3, 3], -1)
    known[0, [0, 1, 2], [0, 0, 1]] = [1, 0, 2]
    known[1, [0, 1], [0, 1]] = [0, 1]
    known[2, 0, 0] = 1
    mask = scores._keras_mask.numpy()
    # Those of edits make orders alike.
    scores = tf.constant(np.random.default_rng(1).normal(size=[4, 3, 3, 3]))
    return Case(Alignment(dtype="float64"), scores, mask, _ways, known, known, _agrees)


def _ways(layer, scores, mask):
    end = tuple(np.argwhere(mask)[-1])
    moves = [(1, 1), (1, 0), (0, 1)]

    def steps_from(place):
        if place == end:
            yield []
        for step, move in enumerate(moves):
            after = tuple(map(sum, zip(place, move, strict=True)))
            if after[0] <= end[0] and after[1] <= end[1]:
                for rest in steps_from(after):
                    yield [(*place, step), *rest]

    found = []
    for way in steps_from((0, 0)):
        structure = np.full(mask.shape, -1)
        for i, j, step in way:
            structure[i, j] = step
        found.append((structure, tf.add_n([tf.zeros([], scores.dtype), *(scores[w] for w in way)])))
    return zip(*found, strict=True)


_CASES = [_crf, _trees, _hmm, _alignments]


@pytest.fixture(scope="module", params=few_of(_CASES, _crf, many=[_trees]))
def case(request):
    return request.param()


# For what layers do alike with the sums and marginals of any structures.
fewer_cases = pytest.mark.parametrize(
    "case", few_of(_CASES, _crf, many=[]), indirect=True, scope="module"
)


def check(tape, case, found, expected):
    """Asserts that values and their gradients are as expected."""
    np.testing.assert_allclose(found, expected, atol=1e-12)
    sources = [case.scores, *case.layer.trainable_variables]
    slopes = (tape.gradient(value, sources) for value in (found, expected))
    for one, other in zip(*slopes, strict=True):
        if other is not None:
            np.testing.assert_allclose(*map(tf.convert_to_tensor, (one, other)), atol=1e-10)


def test_likelihoods_and_their_gradients(case):
    layer, scores = case.layer, case.scores
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(scores)
        known, totals = [], []
        for (keys, plain), labels, mask in zip(
            case.structures(), np.array(case.known), case.mask, strict=True
        ):
            fits = [bool(case.may_be(labels, key, mask)) for key in keys]
            assert sum(fits) == 1
            totals.append(tf.reduce_logsumexp(plain))
            known.append(plain[fits.index(True)] - totals[-1])
        found, expected = layer.log_prob(case.known, scores, case.mask), tf.stack(known)
    check(tape, case, found, expected)
    np.testing.assert_allclose(layer.log_partition(scores, case.mask), totals, atol=1e-12)


@pytest.mark.many
def test_entropies_and_their_gradients(case):
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(case.scores)
        logs = [plain - tf.reduce_logsumexp(plain) for _, plain in case.structures()]
        expected = tf.stack([-tf.reduce_sum(tf.exp(log) * log) for log in logs])
        found = case.layer.entropy(case.scores, case.mask)
    check(tape, case, found, expected)


@pytest.mark.many
def test_what_labels_do_not_tell_is_added_up(case):
    expected = []
    for (keys, plain), labels, mask in zip(
        case.structures(), np.array(case.partly), case.mask, strict=True
    ):
        fits = [bool(case.may_be(labels, key, mask)) for key in keys]
        expected.append(tf.reduce_logsumexp(plain[np.array(fits)]))
    found = case.layer.log_weight(case.partly, case.scores, case.mask)
    np.testing.assert_allclose(found, expected, atol=1e-12)


@pytest.mark.many
def test_marginals_and_counts(case):
    expected = np.zeros(case.scores.shape)
    structures = case.structures()
    for row, (keys, plain) in zip(expected, structures, strict=True):
        chances = tf.nn.softmax(plain).numpy()
        for key, chance in zip(keys, chances, strict=True):
            row[(*np.nonzero(key >= 0), key[key >= 0])] += chance
    found = case.layer.marginals(case.scores, case.mask)
    np.testing.assert_allclose(found, expected, atol=1e-12)
    counts = case.layer.count(case.scores, case.mask).numpy().tolist()
    assert counts == [len(keys) for keys, _ in structures]
    exists = Semiring(lambda scores: scores > -5e5, tf.logical_and, tf.reduce_any)
    assert case.layer.total(case.scores, exists, case.mask).numpy().all()


@pytest.mark.many
@pytest.mark.parametrize(("layer", "axes"), [(LinearChainCRF(2), 1), (TreeCRF(2), 2)])
def test_masks_of_outputs(layer, axes):
    """Keras multiplies losses by the mask of an output, so it must fit the output."""
    scores = np.random.default_rng(0).normal(size=[3] * (axes + 1) + [2]).astype(np.float32)
    mask = np.array([[1, 1, 0], [1, 0, 0], [1, 1, 1]], bool)
    inputs = [keras.Input([None] * axes + [2]), keras.Input([None], dtype="bool")]
    names = ["entropy", "log_partition", "marginals"]
    model = keras.Model(inputs, {name: layer(*inputs, output=name) for name in names})
    results = [getattr(layer, name)(scores, mask).numpy() for name in names]
    results[2] = np.sum(results[2] ** 2, -1)
    expected = [*map(np.mean, results[:2]), np.mean(results[2][mask] if axes == 1 else results[2])]
    losses = [lambda _, given: given] * 2 + [lambda _, given: tf.reduce_sum(given**2, -1)]
    model.compile(loss=dict(zip(names, losses, strict=True)))
    labels = dict.fromkeys(names, np.zeros(3))
    found = model.evaluate([scores, mask], labels, verbose=0, return_dict=True)
    found = [found[f"{name}_loss"] for name in names]
    np.testing.assert_allclose(found, expected, rtol=1e-5)


@pytest.mark.many
@fewer_cases
def test_the_best(case):
    k = 10
    best = case.layer.best(case.scores, case.mask)
    several = case.layer.k_best(case.scores, k, case.mask).numpy()
    values = case.layer.total(case.scores, Semiring.k_max(k), case.mask).numpy()
    for row, (keys, plain) in enumerate(case.structures()):
        ranked = np.argsort(-plain.numpy())[:k]
        number = len(ranked)
        np.testing.assert_array_equal(best[row], keys[ranked[0]])
        np.testing.assert_array_equal(several[row, :number], keys[ranked])
        np.testing.assert_allclose(values[row, :number], plain.numpy()[ranked])
        assert (several[row, number:] == -1).all() and (values[row, number:] < -1e29).all()


def test_the_share_of_labels_that_the_best_structures_have(case):
    right, number, weights = [], [], np.array([1.0, 0.5, 2.0, 1.0])
    for (keys, plain), labels, mask in zip(
        case.structures(), np.array(case.known), case.mask, strict=True
    ):
        best = keys[np.argmax(plain)]
        places = labels >= 0
        if mask.ndim == labels.ndim:
            places &= mask
        else:
            places &= np.triu(mask[:, np.newaxis] & mask)
        right.append(np.sum((best == labels)[places]))
        number.append(np.sum(places))
    outputs = tf.identity(case.scores)
    outputs.scored_by, outputs._keras_mask = (case.layer, []), tf.constant(case.mask)
    metric = StructuredAccuracy()
    metric.update_state(case.known, outputs)
    assert 0 < np.sum(right) < np.sum(number)
    assert float(metric.result()) == pytest.approx(np.sum(right) / np.sum(number))
    metric.reset_state()
    metric.update_state(case.known, outputs, weights)
    expected = np.dot(right, weights) / np.dot(number, weights)
    assert float(metric.result()) == pytest.approx(expected)


def test_only_layers_that_score_structures_have_such_an_accuracy():
    with pytest.raises(ValueError, match="StructuredAccuracy needs the outputs of a layer"):
        StructuredAccuracy().update_state([[1]], tf.zeros([1, 1, 2]))


def test_values_that_stand_for_weights():
    layer, emissions = LinearChainCRF(2), [[[0.0, 2.0], [1.0, 0.0], [0.0, 2.0]]]
    assert layer.best(emissions).numpy().tolist() == [[1, 0, 1]]
    with keras.StatelessScope([(layer.transitions, tf.constant([[0.0, -9.0], [-9.0, 0.0]]))]):
        assert layer.best(emissions).numpy().tolist() == [[1, 1, 1]]
    assert layer.best(emissions).numpy().tolist() == [[1, 0, 1]]


@pytest.mark.parametrize("run", [lambda step: step(), lambda step: tf.function(step)()])
def test_accuracy_has_the_weights_that_scored(run):
    layer, metric = LinearChainCRF(2), StructuredAccuracy()
    layer.build([1, 3, 2])
    emissions = tf.constant([[[0.0, 2.0], [1.0, 0.0], [0.0, 2.0]]])

    def step():  # In Keras' training, metrics come after the update.
        scores = layer(emissions)
        layer.transitions.assign([[0.0, -9.0], [-9.0, 0.0]])
        metric.update_state([[1, 0, 1]], scores)

    run(step)
    assert metric.result() == 1
    assert layer.best(layer(emissions)).numpy().tolist() == [[1, 1, 1]]


@pytest.mark.many
@fewer_cases
def test_samples(case):
    keras.utils.set_random_seed(0)
    drawn = case.layer.sample(case.scores, 4000, case.mask).numpy()
    for rows, (keys, plain) in zip(drawn, case.structures(), strict=True):
        rows, places = rows.reshape([4000, -1]), keys.reshape([len(keys), -1])
        shares = np.mean((rows[:, np.newaxis] == places).all(2), 0)
        assert shares.sum() == pytest.approx(1)
        chances = tf.nn.softmax(plain).numpy()
        assert (np.abs(shares - chances) < 5 * np.sqrt(chances / 4000) + 1e-9).all()


@pytest.mark.many
def test_equal_scores_give_one_structure():
    layer = LinearChainCRF(_TAGS)
    assert layer(np.zeros([1, 3, _TAGS])).dtype == tf.float32
    assert layer.best(np.zeros([1, 3, _TAGS])).numpy().tolist() == [[0, 0, 0]]
    (rows,) = layer.k_best(np.zeros([1, 3, _TAGS]), 27).numpy().tolist()
    assert sorted(rows) == [list(tags) for tags in itertools.product(range(_TAGS), repeat=3)]


@pytest.mark.slow
def test_the_grammar_of_the_guide():
    text = (ROOT / "docs/guides/structured-prediction.md").read_text()
    (code,) = (block["code"] for block in BLOCK.finditer(text) if "def inside" in block["code"])
    guide = {"kerasrec": kerasrec, "tf": tf, "Semiring": Semiring, "spans": tf.zeros([1, 6, 6])}
    exec(code, guide)
    rules, words = guide["rules"].numpy(), guide["given"][0].numpy()

    def trees(i, j, symbol):
        if j - i < 2:
            yield words[i, symbol], [[i, j]]
        for k, a, b in itertools.product(range(i + 1, j), range(2), range(2)):
            for (left, first), (right, second) in itertools.product(trees(i, k, a), trees(k, j, b)):
                yield left + right + rules[symbol, a, b], [*first, *second, [i, j]]

    scores, phrases = zip(*trees(0, 4, 0), strict=True)
    total = np.logaddexp.reduce(scores)
    logs = np.array(scores) - total
    np.testing.assert_allclose(guide["likelihood"], [total], rtol=1e-5)
    np.testing.assert_allclose(guide["entropy"], [-np.sum(np.exp(logs) * logs)], rtol=1e-5)
    assert guide["phrases"].numpy().tolist() == sorted(phrases[np.argmax(scores)])


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
    model.compile(keras.optimizers.Adam(0.1), StructuredLoss(), metrics=[StructuredAccuracy()])
    history = model.fit(_data().repeat(3), steps_per_epoch=24, epochs=3, verbose=0).history
    assert history["loss"][-1] < 0.5 * history["loss"][0]
    words, tags = next(iter(_data()))
    found = tagger.predict(words, verbose=0)
    assert np.mean(found == tags) > 0.9
    _, accuracy = model.evaluate(words, tags, verbose=0)
    assert accuracy == pytest.approx(np.mean((found == tags)[tags >= 0]))
    assert 0.8 < history["structured_accuracy"][-1] <= 1
    assert np.all((found < 0) == (tags < 0))
    # The mask tells which words there are, so labels of padded words change nothing.
    ones, weights = np.ones([16, 1]), np.linspace(0, 1, 16)
    loss, accuracy = model.evaluate(words, tags, sample_weight=ones, verbose=0)
    others = np.where(tags < 0, 1, tags)
    again = model.evaluate(words, others, sample_weight=ones, verbose=0)
    assert again == pytest.approx([loss, accuracy])
    losses = -model.layers[-1].log_prob(tags, model(words))
    weighted, _ = model.evaluate(words, tags, sample_weight=weights[:, None], verbose=0)
    assert weighted == pytest.approx(np.sum(losses * weights) / 16, rel=1e-4)
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    before_its_step = again.fit(words, tags, batch_size=16, verbose=0).history["loss"]
    assert before_its_step == pytest.approx([loss])
    tagger.export(tmp_path / "tagger")
    served = tf.saved_model.load(tmp_path / "tagger")
    np.testing.assert_array_equal(served.serve(tf.cast(words, tf.int32)), found)


@pytest.mark.slow
def test_the_training_loop_that_every_strategy_uses():
    words, tags = next(iter(_data()))
    losses = []
    for fit in (keras.Model.fit, kerasrec.training.fit):
        keras.utils.set_random_seed(1)
        model, _ = _tagger()
        model.compile("sgd", StructuredLoss(), metrics=[StructuredAccuracy()])
        batches = tf.data.Dataset.from_tensor_slices((words, tags)).batch(8)
        history = fit(model, batches, epochs=2, verbose=0).history
        losses.append([history["loss"], history["structured_accuracy"]])
    np.testing.assert_allclose(*losses, rtol=1e-5)
    # Replicas weigh their parts by the examples in them, not by their words.
    assert StructuredLoss().divisor(tags) == 16


@pytest.mark.slow
def test_fit_of_trees(tmp_path):
    """Words are brackets: 1 begins a phrase of 2 words, 2 ends it. Others are single."""
    keras.utils.set_random_seed(0)
    words = keras.Input([None], dtype="int32")
    vectors = keras.layers.Embedding(4, 8)(words)
    first, last = (keras.layers.Dense(8)(vectors) for _ in range(2))
    pairs = keras.ops.expand_dims(first, 2) + keras.ops.expand_dims(last, 1)
    layer = TreeCRF(1)
    scores = keras.layers.Dense(1)(keras.layers.ReLU()(pairs))
    there = keras.ops.not_equal(words, 0)
    model = keras.Model(words, layer(scores, mask=there))
    parser = keras.Model(words, layer(scores, mask=there, output="best"))
    model.compile(keras.optimizers.Adam(0.05), StructuredLoss())
    x = np.array([[3, 1, 2, 0, 0], [1, 2, 3, 1, 2], [1, 2, 3, 3, 0]])
    y = np.full([3, 5, 5], -1)
    y[[0, 1, 1, 2], [1, 0, 3, 0], [2, 1, 4, 1]] = 0
    losses = model.fit(x, y, epochs=60, verbose=0).history["loss"]
    assert losses[-1] < 0.5 * losses[0]
    model.fit(x[:, :3], y[:, :3, :3], verbose=0)  # Another length.
    found = parser.predict(x, verbose=0)
    assert (found[y == 0] == 0).all()
    assert [np.sum(tree == 0) for tree in found] == [5, 9, 7]
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    loss = model.evaluate(x, y, verbose=0)
    assert again.evaluate(x, y, verbose=0) == pytest.approx(loss)
    log_probs = layer.log_prob(y, model.predict(x, verbose=0), x != 0)
    assert loss == pytest.approx(-np.mean(log_probs), rel=1e-4)


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


@pytest.mark.parametrize(
    "layer",
    [LinearChainCRF(3, use_boundary=False, name="a"), HMM(2, 4), TreeCRF(2), EditDistance(3)],
)
def test_configurations(layer):
    config = layer.get_config()
    again = type(layer).from_config(config)
    assert again.get_config() == config
    assert again.dtype == "float32"


@pytest.mark.slow
def test_what_is_impossible():
    layer = LinearChainCRF(2, dtype="float64")
    scores = layer(np.array([[[0.5, -np.inf], [-np.inf, 0.5], [1.0, 2.0]]]))
    total = 1.0 + np.logaddexp(1.0, 2.0)
    np.testing.assert_allclose(layer.log_partition(scores), [total])
    assert layer.count(scores).numpy() == [2]
    chance = np.exp(3.0 - total)
    marginals = [[[1, 0], [0, 1], [1 - chance, chance]]]
    np.testing.assert_allclose(layer.marginals(scores), marginals, atol=1e-12)
    np.testing.assert_allclose(
        layer.entropy(scores), -chance * np.log(chance) - (1 - chance) * np.log(1 - chance)
    )
    assert layer.k_best(scores, 3).numpy()[0].tolist() == [[0, 1, 1], [0, 1, 0], [-1, -1, -1]]
    assert (layer.sample(scores, 5).numpy()[..., :2] == [0, 1]).all()


@pytest.mark.many
def test_impossible_neighbors():
    layer = LinearChainCRF(2, dtype="float64")
    layer.build([None, None, 2])
    layer.transitions.assign([[-np.inf, 0.0], [0.0, -np.inf]])
    layer.last.assign([0.0, -np.inf])
    scores = tf.constant([[[1.0, 2.0], [0.5, 0.0], [0.0, 3.0]]], tf.float64)
    assert layer.best(scores).numpy().tolist() == [[0, 1, 0]]
    assert layer.k_best(scores, 2).numpy().tolist() == [[[0, 1, 0], [-1, -1, -1]]]
    with tf.GradientTape() as tape:
        tape.watch(scores)
        entropy = layer.entropy(scores)
    assert entropy.numpy() == [0]
    assert (tape.gradient(entropy, scores).numpy() == 0).all()


@pytest.mark.many
@pytest.mark.parametrize("size", few_of([-1e5, 1e5], many=[-1e5]))
def test_large_scores_are_not_impossible(size):
    layer = LinearChainCRF(2)
    scores = np.full([1, 20, 2], size, np.float32)
    scores[..., 1] = -np.inf
    best, nothing = layer.k_best(scores, 2).numpy()[0]
    assert (best == 0).all() and (nothing == -1).all()
    np.testing.assert_allclose(layer.log_partition(scores), [20 * size], rtol=1e-6)
    np.testing.assert_allclose(layer.marginals(scores), scores == size, atol=1e-5)


def test_steps_of_no_weight_that_an_alignment_does_not_have():
    scores = np.full([1, 2, 2, 3], -np.inf, np.float32)
    scores[0, 0, 0, 0] = 2.0
    steps = [[[0, -1], [-1, -1]]]
    assert Alignment().log_weight(steps, scores).numpy() == [2]


@pytest.mark.parametrize(
    "layer", few_of([LinearChainCRF(2), TreeCRF(2), HMM(2, 3)], many=[]), ids=lambda of: of.name
)
def test_batches_without_words(layer):
    shape = [3, 0, 0, 2] if isinstance(layer, TreeCRF) else [3, 0, 2]
    layer.build(shape)
    scores = np.zeros(shape, np.float32)
    assert layer.log_partition(scores).numpy().tolist() == [0, 0, 0]
    assert layer.log_prob(np.zeros(shape[:-1]), scores).numpy().tolist() == [0, 0, 0]
    assert layer.best(scores, np.zeros(shape[:2], bool)).shape == shape[:-1]


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


@pytest.mark.slow
def test_the_edit_distance(tmp_path):
    x, y = (keras.Input([None], dtype="int32") for _ in range(2))
    layer = EditDistance(3)
    model = keras.Model([x, y], layer(x, y))
    assert model.output_shape == (None, None, None, 3)
    assert layer(x, y, output="best").dtype == "int32"
    strings = [np.array([[1, 2, 3, 1, 2], [3, 3, 0, 0, 0]]), np.array([[2, 3, 3, 2], [1, 3, 3, 0]])]
    scores = model(strings)
    assert layer.total(scores, Semiring.max()).numpy().tolist() == [-2, -1]
    # Without the mask of Keras.
    found = Alignment().total(scores.numpy(), Semiring.max(), scores._keras_mask)
    assert found.numpy().tolist() == [-2, -1]
    model.compile("sgd", StructuredLoss())
    best = layer.best(scores)
    loss = model.evaluate(strings, best, verbose=0)
    assert loss == pytest.approx(-np.mean(layer.log_prob(best, scores)), rel=1e-5)
    model.fit(strings, best, epochs=3, verbose=0)
    assert model.evaluate(strings, best, verbose=0) < loss
    distances = keras.Model([x, y], layer(x, y, output="log_partition"))
    distances.export(tmp_path / "distances")
    served = tf.saved_model.load(tmp_path / "distances")
    given = [tf.constant(item, tf.int32) for item in strings]
    np.testing.assert_allclose(served.serve(given), distances(strings), rtol=1e-5)


def test_mistakes():
    with pytest.raises(ValueError, match=r"num_tags=3, and its scores must have the shape"):
        LinearChainCRF(3)(np.zeros([1, 2, 4]))
    with pytest.raises(ValueError, match=r"num_labels=2, and its scores must have the shape"):
        TreeCRF(2)(np.zeros([1, 2, 2]))
    with pytest.raises(ValueError, match=r"float16 has too few digits\. Give it dtype='float32'"):
        TreeCRF(2, dtype="mixed_float16")
    with pytest.raises(ValueError, match="Let that layer be the model's last"):
        StructuredLoss()(tf.zeros([1, 2]), tf.zeros([1, 2, 3]))
    with pytest.raises(ValueError, match=r"both axes .* same size; received \(1, 2, 3, 2\)"):
        TreeCRF(2)(np.zeros([1, 2, 3, 2]))
    layer, scores = LinearChainCRF(3), np.zeros([1, 2, 3], np.float32)
    for given in (keras.Input([None, 3]), scores):
        for output in ("worst", "k_best"):
            with pytest.raises(ValueError, match=f"one of scores, best.*'{output}'.*a method"):
                layer(given, output=output)
    for semiring in ("max", Semiring.max):
        with pytest.raises(ValueError, match=r"must be a kerasrec.layers.Semiring, such as Semir"):
            layer.total(scores, semiring)
    with pytest.raises(ValueError, match=r"not be ragged\. Pad them by scores\.to_tensor\(\)"):
        layer(tf.ragged.constant([[[1.0, 2.0, 3.0]], []], ragged_rank=1, inner_shape=(3,)))
