"""Trees that are scored and grown, against plain Python that shares no code with the layer."""

import functools
import itertools
import math

import keras
import numpy as np
import pytest
import tensorflow as tf

from kerasrec._src.layers.choices import Given
from kerasrec.layers import TopDownTreeLSTMCell, TreeDecoder
from tests.frames.helpers import never_by_waves
from tests.layers.helpers import nested, slopes
from tests.parameters import few_of

NUM_TOKENS, DIM, UNITS = 7, 3, 4
ALL_SLOTS = ((0, 1), (0, 1), (0, 1))
LEFT_RIGHT = ((0, 1), (0, 1, 2), (0, 1, 3), (0, 1, 2), (0, 1, 3))


def decoder(arity=4, allowed_slots="left_right", bias=-0.9, **options):
    """A decoder with random weights; `bias` is that of growing a child."""
    cell = TopDownTreeLSTMCell(UNITS, arity=arity, dtype=options.get("dtype"))
    layer = TreeDecoder(cell, NUM_TOKENS, DIM, allowed_slots=allowed_slots, **options)
    layer.build((None, None), (None, None, arity))
    random = np.random.default_rng(4)
    layer.set_weights([random.normal(size=weight.shape) for weight in layer.weights])
    layer.growth.bias.assign([bias] * arity)
    return layer


@pytest.mark.slow
def test_growing_reads_weights_that_a_layer_gets_later():
    """It silently grew trees with those from before."""
    layer = decoder(1, None, bias=-1e3, max_depth=1)
    states = [tf.ones([1, UNITS])] * 2
    assert layer.generate([-1], temperature=0, initial_state=states).tokens[0, 0] != 2
    layer.words.enable_lora(1)
    layer.words.lora_kernel_a.assign(np.ones([UNITS, 1]))
    layer.words.lora_kernel_b.assign(100 * np.eye(NUM_TOKENS)[[2]])
    assert layer.generate([-1], temperature=0, initial_state=states).tokens[0, 0] == 2


@pytest.mark.many
def test_a_layer_that_was_quantized_gives_no_tokens():
    """Its integers were silently taken for the kernel."""
    layer = decoder(2, "first_child")
    layer.words.quantize("int8")
    choose = Given(tf.constant([1]), tf.constant([[True, False]]), layer._allowed[:1], NUM_TOKENS)
    with pytest.raises(ValueError, match=r"model.quantize\('int8', filters=.* != 'words'\)"):
        choose.token(layer.words, tf.zeros([1, UNITS]))


@pytest.fixture(scope="module")
def decoders():
    """Decoders with different graphs, by name, each traced once for all tests."""

    @functools.cache
    def make(arity, allowed_slots):
        layer = decoder(arity, allowed_slots, max_depth=5)
        return layer, layer.get_weights()

    return make


@pytest.fixture
def layer(decoders):
    """The usual decoder, for trees of at most 5 levels, with the weights it began with."""
    layer, weights = decoders(4, "left_right")
    layer.set_weights(weights)
    return layer


@pytest.fixture
def free(decoders):
    """A decoder of two slots, in which any may have children."""
    layer, weights = decoders(2, None)
    layer.set_weights(weights)
    return layer


def let_grow(layer, bias):
    layer.growth.bias.assign([bias] * layer.cell.arity)


class Plain:
    """Zhang et al. 2016 by Python recursion on float64, from a decoder's weights."""

    def __init__(self, layer, allowed_slots=LEFT_RIGHT):
        self.cell = [weight.numpy().astype(float) for weight in layer.cell.weights]
        self.embeddings = layer.embedding.get_weights()[0].astype(float)
        self.words = [weight.astype(float) for weight in layer.words.get_weights()]
        self.growth = [weight.astype(float) for weight in layer.growth.get_weights()]
        self.allowed_slots = allowed_slots
        self.max_depth = layer.max_depth

    def begin(self):
        return [np.zeros(UNITS)] * 2

    def word_chances(self, states):
        logits = states[0] @ self.words[0] + self.words[1]
        chances = np.exp(logits[1:] - logits[1:].max())
        return np.concatenate([[0.0], chances / chances.sum()])

    def growth_chances(self, states, token):
        read = np.concatenate([states[0], self.embeddings[token]])
        return 1 / (1 + np.exp(-(read @ self.growth[0] + self.growth[1])))

    def below(self, states, token, slot):
        kernel, recurrent, bias = self.cell
        total = (
            self.embeddings[token] @ kernel[slot * DIM : (slot + 1) * DIM]
            + states[0] @ recurrent[slot * UNITS : (slot + 1) * UNITS]
            + bias[slot * 4 * UNITS : (slot + 1) * 4 * UNITS]
        )
        i, f, u, o = np.split(total, 4)
        gate = [1 / (1 + np.exp(-one)) for one in (i, f, o)]
        memory = gate[1] * states[1] + gate[0] * np.tanh(u)
        return [gate[2] * np.tanh(memory), memory]

    def terms(self, tokens, children):
        """log p of words and of growth of one tree, by node."""
        found = {}

        def visit(node, states, slot, levels):
            token = tokens[node]
            growth = 0.0
            chances = self.growth_chances(states, token)
            for place in self.allowed_slots[slot + 1] if levels > 1 else ():
                is_there = children[node][place] >= 0
                growth += math.log(chances[place] if is_there else 1 - chances[place])
            found[node] = [math.log(self.word_chances(states)[token]), growth]
            for place, child in enumerate(children[node]):
                if child >= 0:
                    visit(child, self.below(states, token, place), place, levels - 1)

        visit(0, self.begin(), -1, self.max_depth)
        return found

    def likeliest(self, max_depth):
        """The tree that always takes what is likeliest, as nested tuples."""

        def visit(states, slot, depth):
            token = int(self.word_chances(states).argmax())
            chances = self.growth_chances(states, token)
            grows = {
                place: visit(self.below(states, token, place), place, depth + 1)
                for place in self.allowed_slots[slot + 1]
                if chances[place] > 0.5 and depth < max_depth
            }
            return (token, grows)

        return visit(self.begin(), -1, 1)


def height(tree):
    return 1 + max(map(height, tree[1].values()), default=0)


def size(tree):
    return 1 + sum(map(size, tree[1].values()))


TOKENS = np.array([[3, 1, 6, 2, 5, 0], [4, 2, 0, 0, 0, 0]])
CHILDREN = np.full((2, 6, 4), -1)
CHILDREN[0, 0, :2] = [1, 2]  # first dependents of the root
CHILDREN[0, 1, 2] = 3  # a sibling further left
CHILDREN[0, 3, 1] = 4  # a first dependent to the right
CHILDREN[1, 0, 1] = 1


@pytest.mark.many
def test_terms_of_given_trees(layer):
    found = layer(TOKENS, CHILDREN).numpy()
    plain = Plain(layer)
    wanted = np.zeros((2, 6, 2))
    for row in range(2):
        for node, terms in plain.terms(TOKENS[row], CHILDREN[row]).items():
            wanted[row, node] = terms
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(layer([TOKENS, CHILDREN]), found)


@pytest.mark.slow
def test_a_tree_grows_from_the_likeliest_decisions(free):
    let_grow(free, 0.3)
    grown = free.generate(2, temperature=0.0)
    wanted = Plain(free, ALL_SLOTS).likeliest(max_depth=5)
    assert height(wanted) > 2
    for tokens, children in zip(grown.tokens.numpy(), grown.children.numpy(), strict=True):
        assert nested(tokens, children) == wanted


@pytest.mark.slow
def test_padding_is_not_drawn_at_an_infinite_temperature(free):
    roots = free.generate(100, temperature=np.inf).tokens[:, 0].numpy()
    assert set(roots) == set(range(1, NUM_TOKENS))


@pytest.mark.slow
@pytest.mark.parametrize("arity", few_of([1, 2], many=[2]))
def test_small_trees_grow_as_often_as_they_are_likely(arity, decoders):
    """Shares of 20,000 grown trees against the exact probability of each with few nodes."""
    layer, weights = decoders(arity, None)
    layer.set_weights(weights)
    let_grow(layer, -0.5)
    plain = Plain(layer, [range(arity)] * (1 + arity))
    num_trees = 20_000
    grown = layer.generate(num_trees, seed=5)
    found = {}
    for tokens, children in zip(grown.tokens.numpy(), grown.children.numpy(), strict=True):
        if (tokens > 0).sum() <= 3:
            tree = str(nested(tokens, children))
            found[tree] = found.get(tree, 0) + 1
    words = range(1, NUM_TOKENS)
    trees = [((word,), [[-1] * arity]) for word in words]
    for slot, first, second in itertools.product(range(arity), words, words):
        trees.append(((first, second), [[1 if place == slot else -1 for place in range(arity)]]))
    if arity == 2:  # both at once: they must not be drawn together
        trees += [(chosen, [[1, 2]]) for chosen in itertools.product(words, words, words)]
    checked = 0.0
    for tokens, (first, *_) in trees:
        children = np.array([first, *[[-1] * arity] * (len(tokens) - 1)])
        chance = math.exp(np.sum(list(plain.terms(tokens, children).values())))
        share = found.get(str(nested(tokens, children)), 0) / num_trees
        spread = math.sqrt(chance * (1 - chance) / num_trees)
        assert abs(share - chance) < 4.5 * spread + 1e-4
        checked += chance
    assert checked > 0.3


@pytest.mark.slow
def test_likelihood_of_grown_trees_is_that_of_scoring_them(layer):
    let_grow(layer, 0.0)
    grown = layer.generate(50, seed=1)
    scored = tf.reduce_sum(layer(grown.tokens, grown.children), [1, 2])
    np.testing.assert_allclose(grown.log_likelihood, scored, rtol=1e-5, atol=1e-5)
    plain = Plain(layer)
    terms = plain.terms(grown.tokens[7].numpy(), grown.children[7].numpy())
    np.testing.assert_allclose(grown.log_likelihood[7], np.sum(list(terms.values())), rtol=1e-5)


@pytest.mark.slow
def test_gradients_of_growing_are_those_of_scoring(layer):
    """The terms of a policy gradient; the trees themselves have none."""
    weights = tf.range(20.0)
    with tf.GradientTape() as tape:
        grown = layer.generate(20, seed=1)
        loss = tf.reduce_sum(grown.log_likelihood * weights)
    found = tape.gradient(loss, layer.trainable_variables)
    with tf.GradientTape() as tape:
        scored = tf.reduce_sum(layer(grown.tokens, grown.children), [1, 2])
        loss = tf.reduce_sum(scored * weights)
    wanted = tape.gradient(loss, layer.trainable_variables)
    for mine, theirs in zip(found, wanted, strict=True):
        theirs = tf.convert_to_tensor(theirs)
        np.testing.assert_allclose(tf.convert_to_tensor(mine), theirs, rtol=1e-3, atol=1e-3)
        assert np.abs(theirs).max() > 0.01


@pytest.mark.slow
def test_both_engines_score_and_grow_alike(layer):
    """Values and gradients; what is drawn may differ only where a draw is next to its bound."""
    compiled = decoder(max_depth=5, engine="compiled")
    weights = tf.range(20.0)
    roots = [-1] * 18 + [2, 5]
    found = []
    with never_by_waves():
        for each in (layer, compiled):
            with tf.GradientTape() as tape:
                grown = each.generate(roots, seed=1)
                scored = tf.reduce_sum(each(TOKENS, CHILDREN, training=True), [1, 2])
                losses = [tf.reduce_sum(grown.log_likelihood * weights), tf.reduce_sum(scored)]
                loss = tf.add_n(losses)
            gradients = tape.gradient(loss, each.trainable_variables)
            likeliest = each.generate(3, temperature=0)
            found.append([*grown, scored, *likeliest, *map(tf.convert_to_tensor, gradients)])
    assert found[0][0].shape[1] > 1
    for mine, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-3, atol=1e-4)


@pytest.mark.slow
def test_finite_differences_of_scoring():
    layer = decoder(dtype="float64")
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(layer(TOKENS, CHILDREN))
    gradients = tape.gradient(loss, layer.trainable_variables)

    def plainly(weights):
        layer.set_weights(weights)
        plain = Plain(layer)
        pairs = zip(TOKENS, CHILDREN, strict=True)
        return sum(np.sum(list(plain.terms(*pair).values())) for pair in pairs)

    found, wanted = slopes(plainly, layer.get_weights(), gradients)
    # The softmax is float32 inside, whatever the weights are.
    assert found == pytest.approx(wanted, rel=1e-4)


@pytest.mark.slow
def test_the_same_seed_grows_the_same_trees_whatever_grows_beside_them(layer):
    many, few = layer.generate(40, seed=3), layer.generate(4, seed=3)
    for row in range(4):
        tree = nested(many.tokens[row].numpy(), many.children[row].numpy())
        assert tree == nested(few.tokens[row].numpy(), few.children[row].numpy())
    again = layer.generate(40, seed=3)
    np.testing.assert_array_equal(many.tokens, again.tokens)
    other = layer.generate(40, seed=4)
    assert not np.array_equal(many.tokens[:, 0], other.tokens[:, 0])
    assert layer.num_traces == 1


@pytest.mark.slow
def test_given_roots(layer):
    grown = layer.generate([5, -1, 2], seed=1)
    assert grown.tokens[0, 0] == 5
    assert grown.tokens[2, 0] == 2
    assert grown.tokens[1, 0] > 0
    scored = layer(grown.tokens, grown.children).numpy()
    # Nothing is drawn where a root is given.
    wanted = scored.sum((1, 2)) - scored[:, 0, 0] * [1, 0, 1]
    np.testing.assert_allclose(grown.log_likelihood, wanted, rtol=1e-5)


@pytest.mark.slow
def test_bounds(layer, free):
    grown = decoder(bias=5.0, max_depth=1).generate(3)
    assert grown.tokens.shape == (3, 1)
    assert (grown.children.numpy() == -1).all()
    let_grow(layer, 1.0)
    deep = layer.generate(30, seed=2)
    heights = [
        height(nested(*pair))
        for pair in zip(deep.tokens.numpy(), deep.children.numpy(), strict=True)
    ]
    assert max(heights) == 5
    let_grow(free, 50.0)
    full = free.generate(2)
    assert [size(nested(*pair)) for pair in zip(*map(np.asarray, full[:2]), strict=True)] == [
        31
    ] * 2
    nothing = layer.generate(0)
    assert nothing.tokens.shape == (0, 0)
    assert nothing.children.shape == (0, 0, 4)


@pytest.mark.slow
def test_slots_that_may_not_follow_stay_empty(layer):
    let_grow(layer, 2.0)
    grown = layer.generate(20, seed=1)
    children = grown.children.numpy()
    for tree in children:
        slot_of = {child: slot for row in tree for slot, child in enumerate(row) if child >= 0}
        for node, row in enumerate(tree):
            allowed = LEFT_RIGHT[slot_of.get(node, -1) + 1]
            assert all(child < 0 or slot in allowed for slot, child in enumerate(row))


@pytest.mark.slow
def test_states_of_the_roots(layer):
    begin = [np.random.default_rng(1).normal(size=(2, UNITS)).astype("float32") for _ in range(2)]
    grown = layer.generate(2, seed=1, initial_state=begin)
    scored = layer(grown.tokens, grown.children, initial_state=begin)
    np.testing.assert_allclose(
        grown.log_likelihood, tf.reduce_sum(scored, [1, 2]), rtol=1e-5, atol=1e-5
    )
    plain = Plain(layer)
    plain.begin = lambda: [begin[0][0].astype(float), begin[1][0].astype(float)]
    terms = plain.terms(grown.tokens[0].numpy(), grown.children[0].numpy())
    np.testing.assert_allclose(grown.log_likelihood[0], np.sum(list(terms.values())), rtol=1e-4)


@pytest.mark.parametrize("has_layer", few_of([False, True], many=[]))
def test_saving_with_a_layer_for_growth(tmp_path, has_layer):
    layers = [keras.layers.Dense(6, "relu"), keras.layers.Dense(4)]
    growth = keras.Sequential(layers) if has_layer else None
    cell = TopDownTreeLSTMCell(UNITS, arity=4)
    options = {"max_depth": 4, "dropout": 0.2, "engine": "waves"}
    layer = TreeDecoder(cell, NUM_TOKENS, DIM, growth=growth, allowed_slots="left_right", **options)
    tokens = keras.Input([None], dtype="int32")
    children = keras.Input([None, 4], dtype="int32")
    model = keras.Model([tokens, children], layer(tokens, children))
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_allclose(again([TOKENS, CHILDREN]), model([TOKENS, CHILDREN]))
    loaded = again.layers[-1]
    assert type(loaded.growth) is type(layer.growth)
    assert loaded.allowed_slots == "left_right"
    assert {name: getattr(loaded, name) for name in options} == options


@pytest.mark.parametrize(
    "policy",
    few_of(["mixed_float16", "float16", "mixed_bfloat16", "bfloat16"], many=[]),
)
def test_half_precision(policy, layer):
    """Scores are close to those in float32, and trees grow."""
    wanted = layer(TOKENS, CHILDREN)
    layer = decoder(dtype=policy)
    found = layer(TOKENS, CHILDREN)
    assert found.dtype == "float32"
    tolerance = 2e-2 if policy.endswith("float16") and "b" not in policy else 1e-1
    np.testing.assert_allclose(found, wanted, atol=tolerance)
    grown = layer.generate(5, seed=1)
    scored = tf.reduce_sum(layer(grown.tokens, grown.children), [1, 2])
    np.testing.assert_allclose(grown.log_likelihood, scored, rtol=5e-2, atol=0.3)


@pytest.mark.slow
def test_padding_order_and_batch_do_not_matter(layer):
    wanted = layer(TOKENS, CHILDREN).numpy()
    np.testing.assert_allclose(layer(TOKENS[::-1], CHILDREN[::-1]), wanted[::-1], rtol=1e-5)
    np.testing.assert_allclose(layer(TOKENS[1:, :2], CHILDREN[1:, :2])[0], wanted[1, :2], rtol=1e-5)
    padded = np.pad(TOKENS, ((0, 0), (0, 2)))
    more = np.pad(CHILDREN, ((0, 0), (0, 2), (0, 0)), constant_values=-1)
    np.testing.assert_allclose(layer(padded, more)[:, :6], wanted, rtol=1e-5)
    assert not layer(padded, more)[:, 6:].numpy().any()


@pytest.mark.many
def test_the_graph_prints(layer):
    text = str(layer.tagged_graph())
    assert "COLLECT nodes" in text
    assert "CALL_3" in text


@pytest.mark.slow
def test_export(tmp_path, layer):
    archive = keras.export.ExportArchive()
    archive.track(layer)
    archive.add_endpoint("generate", layer.generate, layer.generate_signature())
    archive.write_out(tmp_path / "export", verbose=False)
    served = tf.saved_model.load(tmp_path / "export")
    states = [np.zeros((20, UNITS), "float32")] * 2
    roots = np.full(20, -1, np.int32)
    found = served.generate(roots, np.int64(1), np.float32(1.0), states)
    grown = layer.generate(roots, seed=1)
    assert grown.tokens.shape[1] > 1
    np.testing.assert_array_equal(found[0], grown.tokens)
    np.testing.assert_array_equal(found[1], grown.children)


@pytest.mark.slow
def test_fit():
    """A model learns two trees by heart and grows them."""
    cell = TopDownTreeLSTMCell(16, arity=4)
    layer = TreeDecoder(cell, NUM_TOKENS, 8, allowed_slots="left_right", max_depth=9)
    tokens = keras.Input([None], dtype="int32")
    children = keras.Input([None, 4], dtype="int32")
    model = keras.Model([tokens, children], layer(tokens, children))
    model.compile(
        keras.optimizers.Adam(0.03),
        lambda _, terms: -tf.reduce_sum(terms) / tf.cast(tf.shape(terms)[0], tf.float32),
    )
    model.fit([TOKENS, CHILDREN], TOKENS, epochs=120, verbose=0)
    learned = {str(nested(*pair)) for pair in zip(TOKENS, CHILDREN, strict=True)}
    roots = np.array([3, 4], np.int32)
    grown = layer.generate(roots, temperature=0.0)
    pairs = zip(grown.tokens.numpy(), grown.children.numpy(), strict=True)
    assert {str(nested(*pair)) for pair in pairs} == learned


@pytest.mark.many
def test_bad_use(layer):
    cell = TopDownTreeLSTMCell(UNITS, arity=4)
    with pytest.raises(
        ValueError, match=r'`cell` must be .* a given `arity` and input_from="parent"'
    ):
        TreeDecoder(TopDownTreeLSTMCell(UNITS), NUM_TOKENS, DIM)
    with pytest.raises(ValueError, match='input_from="parent"'):
        TreeDecoder(TopDownTreeLSTMCell(UNITS, arity=4, input_from="self"), NUM_TOKENS, DIM)
    with pytest.raises(ValueError, match="`max_depth` must be a positive integer, received 0"):
        TreeDecoder(cell, NUM_TOKENS, DIM, max_depth=0)
    with pytest.raises(ValueError, match="`num_tokens` must be an integer of at least 2"):
        TreeDecoder(cell, 1, DIM)
    for allowed_slots in (((0, 1),), [0, 1, 2, 3, 0], "both"):
        with pytest.raises(
            ValueError, match=r"`allowed_slots` must be .* 5 rows of slots from 0 to 3"
        ):
            TreeDecoder(cell, NUM_TOKENS, DIM, allowed_slots=allowed_slots)
    with pytest.raises(ValueError, match="`growth` must be a Keras layer, received 'dense'"):
        TreeDecoder(cell, NUM_TOKENS, DIM, growth="dense")
    with pytest.raises(ValueError, match="`growth` must give a logit for each of 4 slots"):
        TreeDecoder(cell, NUM_TOKENS, DIM, growth=keras.layers.Dense(3)).build((1, 1), (1, 1, 4))
    with pytest.raises(ValueError, match="computes in float16 and its cell in float32"):
        TreeDecoder(cell, NUM_TOKENS, DIM, dtype="mixed_float16")
    with pytest.raises(ValueError, match=r"`roots` must be integers .* received float32"):
        layer.generate([1.0])
    for root in (0, NUM_TOKENS, -2, 2**32 + 1):
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"^`roots` .* 1 to 6, or -1"):
            layer.generate([1, root])
    with pytest.raises(ValueError, match="`seed` must be an integer; received None"):
        layer.generate(1, seed=None)
    with pytest.raises(ValueError, match="`seed` must be an integer; received float32"):
        layer.generate(1, seed=1.5)
    with pytest.raises(ValueError, match=r"`seed` .* an integer; received int32 of shape \(2,\)"):
        layer.generate(1, seed=[1, 2])
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"^`roots`, the number of trees"):
        layer.generate(-1)
    with pytest.raises(tf.errors.InvalidArgumentError, match="`temperature` must be at least 0"):
        layer.generate(1, temperature=-1.0)
    with pytest.raises(tf.errors.InvalidArgumentError, match="a row for each tree"):
        layer.generate([3, 4], initial_state=[np.ones((1, UNITS), "float32")] * 2)


def test_tokens_that_are_no_integers():
    for inputs in [
        (TOKENS + 0.5, CHILDREN),
        (keras.Input([None]), keras.Input([None, 4], dtype="int32")),
    ]:
        with pytest.raises(ValueError, match=r"`tokens` of .* must be integers, received dtype"):
            decoder()(*inputs)


def changed(array, place, value):
    array = array.copy()
    array[place] = value
    return array


IMPOSSIBLE = {
    "index": (
        TOKENS,
        changed(CHILDREN, (1, 0, 1), 7),
        r"index out of range.*\[\[1 0 1\]\].*\[7\]",
    ),
    "negative": (
        TOKENS,
        changed(CHILDREN, (0, 5, 3), -2),
        r"index out of range.*\[\[0 5 3\]\].*\[-2\]",
    ),
    "parents": (
        TOKENS,
        changed(CHILDREN, (0, 2, 3), 1),
        r"a node has two parents.*\[\[0 1\]\]",
    ),
    "large": (
        changed(TOKENS, (0, 2), 7),
        CHILDREN,
        r"a token from 1 to 6 at every.*\[\[0 2\]\].*\[7\]",
    ),
    "below 0": (
        changed(TOKENS, (0, 2), -1),
        CHILDREN,
        r"a token from 1 to 6.*\[\[0 2\]\].*\[-1\]",
    ),
    "padding": (
        changed(TOKENS, (0, 2), 0),
        CHILDREN,
        r"a token from 1 to 6.*\[\[0 2\]\].*\[0\]",
    ),
    "slot": (  # A root has no sibling.
        TOKENS,
        changed(CHILDREN, (1, 0), [-1, -1, 1, -1]),
        r"slot in which `allowed_slots` allows none.*\[\[1 0 2\]\]",
    ),
    "sizes": (
        TOKENS[:, :5],
        CHILDREN,
        "`x` and `children` must have the same numbers of trees",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", few_of(IMPOSSIBLE, "large", "slot", many=[]))
def test_trees_that_the_model_cannot_make(scorer, name):
    tokens, children, message = IMPOSSIBLE[name]
    # More than once, since ops parallel to the checks may also fail.
    for _ in range(4):
        with pytest.raises(tf.errors.InvalidArgumentError, match="(?s)" + message):
            scorer(tokens, children)


def test_numbers_that_int32_does_not_hold(layer):
    large = 2**32 + 1
    for tokens, children, message in [
        (changed(np.int64(TOKENS), (0, 2), large), CHILDREN, r"^\w+ needs a token from 1 to 6"),
        (TOKENS, changed(np.int64(CHILDREN), (1, 0, 1), large), "^`children` has an index out"),
    ]:
        with pytest.raises(tf.errors.InvalidArgumentError, match=message + r".*\[4294967297\]"):
            layer(tokens, children)


@pytest.fixture(scope="module")
def scorer(decoders):
    """A decoder in a graph of any sizes, as in `fit`."""
    specs = [tf.TensorSpec([None, None], tf.int32), tf.TensorSpec([None, None, 4], tf.int32)]
    return tf.function(decoders(4, "left_right")[0], specs, autograph=False)


@pytest.mark.slow
def test_a_token_that_no_parent_names_is_not_lost(layer):
    for token in (99, 1, -1):
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"child of no node.*\[\[1 5\]\]"):
            layer(changed(TOKENS, (1, 5), token), CHILDREN)
