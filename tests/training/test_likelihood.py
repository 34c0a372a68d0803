"""The loss and the metric of log-likelihoods against plain Python."""

import math

import keras
import numpy as np
import pytest

from kerasrec.training import TreeNegativeLogLikelihood, TreePerplexity

# A given root and two tokens; a lone root whose token counts; padding has no terms.
LABELS = [[-1, 4, 7], [2, -1, -1]]
TERMS = [[[-9.0, -0.5], [-1.0, -0.25], [-2.0, -0.125]], [[-4.0, -2.0], [0.0, 0.0], [0.0, 0.0]]]
FIRST, SECOND = 1.0 + 2.0 + 0.5 + 0.25 + 0.125, 4.0 + 2.0


@pytest.mark.parametrize(
    "reduction, expected",
    [
        ("sum_over_batch_size", (FIRST + SECOND) / 2),
        ("sum", FIRST + SECOND),
        (None, [FIRST, SECOND]),
    ],
)
def test_loss_is_the_sum_of_what_counts(reduction, expected):
    loss = TreeNegativeLogLikelihood(reduction=reduction)
    np.testing.assert_allclose(loss(np.array(LABELS), np.array(TERMS)), expected, rtol=1e-6)


def test_weights_of_trees():
    weights = np.array([[0.0], [3.0]])
    loss = TreeNegativeLogLikelihood()(np.array(LABELS), np.array(TERMS), sample_weight=weights)
    assert float(loss) == pytest.approx(3 * SECOND / 2)
    perplexity = TreePerplexity()
    perplexity.update_state(np.array(LABELS), np.array(TERMS), sample_weight=weights)
    assert float(perplexity.result()) == pytest.approx(math.exp(4.0))
    with pytest.raises(ValueError, match="TreePerplexity expects sample weights of trees"):
        perplexity.update_state(np.array(LABELS), np.array(TERMS), sample_weight=weights[:, 0])


def test_impossible_terms_that_do_not_count():
    labels, terms = np.array([[-1, 4]]), np.array([[[-np.inf, -0.5], [-1.0, -0.5]]])
    assert float(TreeNegativeLogLikelihood()(labels, terms)) == 2
    perplexity = TreePerplexity()
    perplexity.update_state(np.array([[3, 4]]), np.array([[[-1.0, -np.inf], [-1.0, -0.5]]]))
    assert float(perplexity.result()) == pytest.approx(math.e)


def test_a_mask_changes_nothing():
    inputs = keras.Input([3, 2])
    terms = keras.Model(inputs, keras.layers.Masking(0.0)(inputs))(np.array(TERMS))
    assert terms._keras_mask is not None
    loss = TreeNegativeLogLikelihood()
    assert float(loss(np.array(LABELS), terms)) == pytest.approx((FIRST + SECOND) / 2)


@pytest.mark.parametrize("growth", [False, True])
def test_perplexity_is_over_all_tokens_of_all_batches(growth):
    perplexity = TreePerplexity(growth=growth)
    for tree in (0, 1):
        perplexity.update_state(np.array(LABELS[tree : tree + 1]), np.array(TERMS[tree : tree + 1]))
    total = FIRST + SECOND if growth else 1.0 + 2.0 + 4.0
    assert float(perplexity.result()) == pytest.approx(math.exp(total / 3), rel=1e-6)
    perplexity.reset_state()
    perplexity.update_state(np.array([[1]]), np.array([[[-0.5, -1.0]]]))
    assert float(perplexity.result()) == pytest.approx(math.exp(1.5 if growth else 0.5), rel=1e-6)


@pytest.mark.parametrize("growth", [False, True])
def test_perplexity_of_no_tokens_is_none(growth):
    perplexity = TreePerplexity(growth=growth)
    perplexity.update_state(np.array([[-1, -1, -1]]), np.array(TERMS[:1]))
    assert math.isnan(perplexity.result())
    perplexity.update_state(np.array(LABELS[1:]), np.array(TERMS[1:]))
    assert math.isfinite(perplexity.result())


def test_configurations_come_back():
    loss = TreeNegativeLogLikelihood(reduction="sum", name="nats")
    again = keras.losses.deserialize(keras.losses.serialize(loss))
    assert (again.reduction, again.name) == ("sum", "nats")
    metric = TreePerplexity(growth=True, name="all")
    again = keras.metrics.deserialize(keras.metrics.serialize(metric))
    assert (again.growth, again.name) == (True, "all")


@pytest.mark.slow
def test_a_model_trains_on_it():
    model = keras.Sequential([keras.Input([3, 2]), keras.layers.EinsumDense("bnf,f->bnf", [3, 2])])
    model.compile("sgd", TreeNegativeLogLikelihood(), metrics=[TreePerplexity()])
    history = model.fit(np.array(TERMS), np.array(LABELS), epochs=2, verbose=0).history
    assert history["loss"][1] < history["loss"][0]
    assert math.isfinite(history["tree_perplexity"][1])


@pytest.mark.parametrize("shape", [(2, 3), (2, 4, 2), (2, 3, 5)])
def test_shapes_that_do_not_fit(shape):
    for use in (TreeNegativeLogLikelihood().call, TreePerplexity().update_state):
        with pytest.raises(ValueError, match=r"y_pred of shape \[batch, nodes, 2\]"):
            use(np.array(LABELS), np.zeros(shape))
