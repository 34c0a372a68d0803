"""`TopDownDecoder`: base class of models of labeled trees, which score trees and grow them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Literal, get_args

import keras
import numpy as np
import tensorflow as tf

from kerasrec._src.errors import SentenceFirst
from kerasrec._src.graph.graph import TaggedGraph
from kerasrec._src.layers.argument_checks import check_choice, check_number
from kerasrec._src.layers.beam_search import Candidates, search_trees
from kerasrec._src.layers.choices import (
    Choice,
    Choices,
    Drawn,
    Given,
    Limits,
    Ranked,
    num_sets,
)
from kerasrec._src.layers.growth import (
    ROOT,
    Decision,
    GrownTrees,
    Place,
    grow_trees,
    grower,
    root_places,
)
from kerasrec._src.layers.inputs import DenseGradientEmbedding
from kerasrec._src.layers.kernel_cell import Initializer
from kerasrec._src.layers.recursive import Engine
from kerasrec._src.layers.saved_arguments import SavedByArguments
from kerasrec._src.layers.shared_sublayers import MadeOnce, freeze_sublayers
from kerasrec._src.layers.top_down import TopDown, TopDownCell
from kerasrec._src.layers.tree_checks import check, check_indices, check_none, check_sizes
from kerasrec._src.layers.tree_layer import both_inputs
from kerasrec._src.layers.trees import as_indices
from kerasrec._src.private import in_symbolic_scope

# The slots that may follow in an encoding of `kerasrec.datasets`: for a root, then for a node in
# each slot.
ALLOWED_SLOTS = {
    # There are first dependents on both sides; a dependent has its next sibling on its own side.
    "left_right": ((0, 1), (0, 1, 2), (0, 1, 3), (0, 1, 2), (0, 1, 3)),
    # There are a first child and a next sibling; a root has no sibling.
    "first_child": ((0,), (0, 1), (0, 1)),
}


class TopDownDecoder(SavedByArguments):
    """Base class of distributions over trees with a token at each node, from the root down.

    `cell` makes a node's state from the tokens above it. From the state, `decide`, which a subclass
    implements, computes how likely each token is at the node, and in which slots children grow. It
    is written once: the same lines score given trees and grow new ones. A subclass creates its
    layers in `__init__` and builds them in `build`. `TreeDecoder` is the model of Zhang et al.
    2016.

    Calling a decoder gives the log-likelihood of given trees, and `generate` grows trees from the
    same distribution. Its bounds, `allowed_slots` and `max_depth`, are part of it: where no child
    may grow, the slot is empty with probability 1, whatever its logit, and the probabilities of all
    trees within the bounds add up to 1. A tree outside them has probability 0, and scoring it
    raises an error.

    To train it with `kerasrec.training.TreeNegativeLogLikelihood`, use as targets the tokens, int
    `[batch, nodes]`, as `kerasrec.datasets.encode_left_right` and `encode_first_child` label trees,
    but -1 where a token is given and not to be predicted.

    Args:
        cell: A `TopDownCell` that reads the parent.
        num_tokens: The size of the vocabulary, token 0 included, an int.
        embedding_dim: The size of the tokens' vectors, which the cell reads, an int.
        allowed_slots: The slots in which a tree node may have children: for a root, then for a node
            in each slot, a sequence of ints; or `"left_right"` or `"first_child"` for the slots of
            `kerasrec.datasets.encode_left_right` or `encode_first_child`. By default all.
        max_depth: The largest number of levels of a tree, an int; nodes on the last level have no
            children. It also bounds the trees to score, so it must be at least the number of levels
            of any tree to train on.
        dropout: The fraction of the tokens' vectors, and of the states that predict, to drop in
            training.
        embeddings_initializer: The initializer of the tokens' vectors.
        engine: The way to run the recursion, for given trees and for growing ones: "waves", which
            "auto" chooses, or "compiled", in loops that XLA compiles. Results are the same up to
            rounding, which may change a token that is drawn. See `Recursive`.
        **kwargs: The options of every Keras layer: `name`, `dtype` and `trainable`.

    Call arguments:
        tokens: The tokens, int `[batch, nodes]`; token 0 is padding and stands at no tree node.
        children: The children, int `[batch, nodes, arity]`, as for `TopDown`.
        initial_state: The roots' states, as for `TopDown`.
        training: Whether dropout is on, a bool.

    Output shape:
        Two terms of the log-likelihood for each tree node, of its token and of its children,
        float32 `[batch, nodes, 2]`; zero for padding.

    Raises:
        tf.errors.InvalidArgumentError: If `children` are not trees, if a tree has more than
            `max_depth` levels or a child where `allowed_slots` allows none, or if a token is not
            from 1 to `num_tokens` - 1.

    Example:

    >>> class CoinDecoder(kerasrec.layers.TopDownDecoder):
    ...     def __init__(self, cell, num_tokens, embedding_dim, **kwargs):
    ...         super().__init__(cell, num_tokens, embedding_dim, **kwargs)
    ...         self.words = keras.layers.Dense(num_tokens)
    ...     def build(self, tokens_shape, children_shape):
    ...         self.words.build((None, self.cell.units))
    ...         super().build(tokens_shape, children_shape)
    ...     def decide(self, states, choose):
    ...         fair = tf.zeros([tf.shape(states)[0], self.cell.arity])
    ...         return choose.token(self.words, states), choose.children(fair)
    >>> cell = kerasrec.layers.TopDownTreeLSTMCell(4, arity=2)
    >>> decoder = CoinDecoder(cell, num_tokens=10, embedding_dim=4, max_depth=3)
    >>> decoder.build((None, None), (None, None, 2))
    >>> grown = decoder.generate(5, seed=1)
    >>> decoder(grown.tokens, grown.children).shape[-1]
    2
    """

    def __init__(
        self,
        cell: TopDownCell,
        num_tokens: int,
        embedding_dim: int,
        *,
        allowed_slots: Literal["left_right", "first_child"] | Sequence[Sequence[int]] | None = None,
        max_depth: int = 100,
        dropout: float = 0.0,
        embeddings_initializer: Initializer = "uniform",
        engine: Engine = "auto",
        **kwargs: Any,
    ):
        if not isinstance(cell, TopDownCell) or cell.input_from != "parent" or cell.arity is None:
            raise ValueError(
                "`cell` must be a kerasrec.layers.TopDownCell with a given `arity` and "
                'input_from="parent", since each node is predicted from its ancestors; '
                f"received {cell!r}."
            )
        check_number("`num_tokens`", num_tokens, smallest=2)  # One of them is padding.
        check_number("`embedding_dim`", embedding_dim)
        check_number("`max_depth`", max_depth)
        check_choice(f"`engine` of {type(self).__name__}", engine, get_args(Engine))
        super().__init__(**{"dtype": cell.dtype_policy, **kwargs})
        self.supports_jit = False
        self.cell = cell
        self.num_tokens = num_tokens
        self.embedding_dim = embedding_dim
        self.allowed_slots = allowed_slots
        self.max_depth = max_depth
        self.dropout = dropout
        self.engine = engine
        policy = self.dtype_policy
        self.top_down = TopDown(cell, engine=engine, dtype=policy, name="top_down")
        self.embedding = DenseGradientEmbedding(
            num_tokens, embedding_dim, embeddings_initializer, dtype=policy, name="embedding"
        )
        self.drop = keras.layers.Dropout(dropout, dtype=policy)
        self._allowed = _is_allowed(allowed_slots, cell.arity)
        self._generate: MadeOnce[Any] = MadeOnce(self)

    def __call__(self, tokens: Any, children: Any = None, *args: Any, **kwargs: Any) -> Any:
        """Calls the decoder: `decoder(tokens, children)` or `decoder([tokens, children])`."""
        inputs = both_inputs(self.name, tokens, children)
        with SentenceFirst():
            return super().__call__(*inputs, *args, **kwargs)

    def build(self, tokens_shape: Any, children_shape: Any, *_: Any) -> None:
        """Creates the weights that all decoders have; a subclass builds the layers of `decide`."""
        self.embedding.build(tokens_shape)
        self.top_down.build((*tokens_shape, self.embedding_dim), children_shape)
        freeze_sublayers(self)

    def call(
        self, tokens: Any, children: Any, initial_state: Any = None, training: bool = False
    ) -> Any:
        """Returns terms of the log-likelihood of given trees; see the class."""
        self._check_inputs(tokens, children)
        if in_symbolic_scope():
            return tf.zeros([*tf.unstack(tf.shape(tokens)), 2])
        tokens, children = as_indices(tokens), as_indices(children)
        with tf.control_dependencies(check_sizes(tokens, children) + check_indices(children)):
            children = tf.cast(children, tf.int32)
            slots, depths = _slots_and_depths(children)
        is_node = (slots != ROOT) | (tf.range(tf.shape(slots)[1]) == 0)
        with tf.control_dependencies(self._check_tokens(tokens, is_node)):
            tokens = tf.where(is_node, tf.cast(tokens, tf.int32), 0)
        x = self.drop(self.embedding(tokens), training=training)
        states = self.top_down(x, children, initial_state=initial_state)
        allowed, has_child = self._allowed_children(slots, depths), children >= 0
        # Slots and depths have a meaning only in trees that `top_down` has checked.
        with tf.control_dependencies([states]):
            self._check_bounds(depths, has_child & ~allowed)
        # Padding is left out before the softmax over all tokens, the largest part of the work.
        states, tokens, has_child, allowed = (
            tf.boolean_mask(rows, is_node) for rows in (states, tokens, has_child, allowed)
        )
        given = Given(allowed, self.num_tokens, tokens, has_child)
        token, growth = self._decide(self.drop(states, training=training), given)
        terms = tf.stack([token.log_likelihood, growth.log_likelihood], axis=-1)
        shape = tf.concat([tf.shape(is_node, tf.int64), [2]], 0)
        return tf.scatter_nd(tf.where(is_node), terms, shape)

    def _check_inputs(self, tokens: Any, children: Any) -> None:
        """Raises ValueError for tensors that cannot be trees of this decoder."""
        x_shape = (*tokens.shape, self.embedding_dim)
        self.top_down.check_inputs(x_shape, children.shape, children.dtype)
        if not tf.as_dtype(tokens.dtype).is_integer and not in_symbolic_scope():
            raise ValueError(
                f"`tokens` of {self.name} must be integers, received dtype {tokens.dtype}. Give "
                "the Keras Input dtype='int32'."
            )

    def _check_tokens(self, tokens: Any, is_node: Any) -> list[tf.Operation]:
        """Checks, when the graph runs, that nodes have tokens of the vocabulary, and padding 0."""
        lost = check_none(
            ~is_node & (tokens != 0),
            f"{self.name} got a token at a tree node that is the child of no node, so that it "
            "would not be read. Make it a child, or give it 0, the token of padding. "
            "[tree, node]: {} token: {}",
            tokens,
        )
        return lost + check_none(
            is_node & ~((tokens > 0) & (tokens < self.num_tokens)),
            f"{self.name} needs a token from 1 to {self.num_tokens - 1} at every tree node. "
            "[tree, node]: {} token: {}",
            tokens,
        )

    def _allowed_children(self, slots: Any, depths: Any) -> Any:
        """The slots in which nodes may have children, bool `[..., arity]`, by slot and depth."""
        last = min(self.max_depth, tf.int32.max) - 1
        return tf.gather(self._allowed, slots + 1) & (depths < last)[..., tf.newaxis]

    def _check_bounds(self, depths: Any, misplaced: Any) -> None:
        """Checks, when the graph runs, that trees are such as can grow.

        Args:
            depths: The depth of each tree node, int32 `[batch, nodes]`.
            misplaced: Whether a child is where `allowed_slots` allows none, bool
                `[batch, nodes, arity]`.
        """
        check_none(
            depths >= min(self.max_depth, tf.int32.max),
            f"{self.name} got a tree of more than max_depth={self.max_depth} levels, which it "
            "never grows. Give the decoder a larger max_depth, or leave such trees out. "
            "[tree, node]: {} levels of the deepest tree: {}",
            tf.reduce_max(depths) + 1,
        )
        check_none(
            misplaced,
            f"{self.name} got a child in a slot in which `allowed_slots` allows none. "
            "[tree, node, slot]: {}",
        )

    def _decide(self, states: Any, choose: Choices) -> tuple[Choice, Choice]:
        """Calls `decide` and checks its result."""
        decided = self.decide(states, choose)
        is_pair = isinstance(decided, tuple) and all(isinstance(of, Choice) for of in decided)
        dtypes = [choice.value.dtype for choice in decided] if is_pair else None
        if dtypes != [tf.int32, tf.bool]:
            raise ValueError(
                f"`decide` of {type(self).__name__} must return the results of choose.token and "
                f"choose.children, in this order; it returned {decided!r}."
            )
        return decided

    def decide(self, states: tf.Tensor, choose: Choices) -> tuple[Choice, Choice]:
        """Chooses the tokens of tree nodes, and which children they have.

        Args:
            states: The cell's outputs at the nodes, `[nodes, units]`.
            choose: The way to choose: `choose.token(layer, features)` and `choose.children(logits)`
                give the values of a given tree or of one that grows, and their log-likelihoods; see
                `Choices`. The arguments of the second call may be computed from the value of the
                first.

        Returns:
            The tokens and the children, as `choose` gave them.
        """
        raise NotImplementedError(f"{type(self).__name__} must implement `decide`.")

    def generate(
        self,
        roots: int | Sequence[int] | np.ndarray | tf.Tensor,
        seed: int | tf.Tensor = 0,
        temperature: float | tf.Tensor = 1.0,
        initial_state: Sequence[tf.Tensor] | None = None,
        *,
        top_k: int | None = None,
        top_p: float | None = None,
        forbidden_tokens: Sequence[int] = (),
        num_beams: int | None = None,
        num_results: int | None = None,
    ) -> GrownTrees:
        """Grows a tree from each root, in one static graph that is traced once.

        Trees are drawn, or with `num_beams` searched for. Graphs are traced for each set of the
        last five options.

        Args:
            roots: The roots' tokens, int `[batch]`, -1 where the model is to choose; or the number
                of trees, for which the model chooses all roots.
            seed: An int; the same seed, weights and place in the batch give the same tree.
            temperature: A float that divides all logits: 1 draws from the distribution that scores
                given trees, 0 chooses the likeliest value at each node.
            initial_state: The roots' states, `[batch, units]` each; zeros by default.
            top_k: Tokens are drawn from this number of likeliest tokens of a node, an int.
            top_p: Tokens are drawn from the fewest likeliest tokens of a node that together have at
                least this probability, a float.
            forbidden_tokens: Tokens that no node gets, such as that of unknown words, a list of
                ints. A root that is given may have one.
            num_beams: The number of partial trees to keep in a beam search for each root, an int.
                The likeliest tree that was found is returned. The likeliest choice at each node may
                lead to one that is far less likely, such as one that goes on to the last level.
            num_results: The number of likeliest trees that a beam search returns for each root, an
                int of at most `num_beams`. They are distinct, and the likeliest comes first. By
                default one, without an axis for it.

        Returns:
            A `GrownTrees`. Its `log_likelihood` is that of the process that draws the trees, as
            the REINFORCE estimator needs it. At temperature 1 it equals the result of calling the
            decoder on these trees, with all terms of a tree added up except those of given roots'
            tokens, which are not drawn. At another temperature it is that of the divided logits,
            and at 0 it is 0, since nothing is left to chance. Where tokens are ruled out, the
            others share their probability. With `num_beams` it is that of the decoder. With
            `num_results`, that is the second axis of all tensors; where there are fewer trees, the
            rest have no nodes and the log-likelihood -inf.

        Raises:
            ValueError: If the decoder was not built, if `roots` or `seed` are not integers, if an
                option has no meaning, if `num_results` is more than `num_beams`, or if `num_beams`
                is given together with another `temperature`, `top_k` or `top_p`, which are for
                drawing.
            tf.errors.InvalidArgumentError: If a root is not a token, the number of trees or the
                temperature is negative, or `initial_state` has another number of trees.
        """
        self._check_built()
        expected = "integers [batch], tokens or -1, or the number of trees"
        roots = as_indices(_integers("roots", roots, expected, ranks=(0, 1)))
        seed = _integers("seed", seed, "an integer", ranks=(0,))
        limits = self._limits(top_k, top_p, forbidden_tokens)
        self._check_beams(num_beams, num_results, temperature, limits)
        options = limits, num_beams, num_results
        key = self.max_depth, *options
        generate = self._generate.get(key, lambda: self._new_generate(*options))
        with SentenceFirst():
            roots = self._checked_roots(roots)
            return generate(
                roots,
                tf.cast(seed, tf.int64),
                tf.cast(temperature, tf.float32),
                self.top_down.initial_states(initial_state, tf.size(roots)),
            )

    def _new_generate(self, *options: Any) -> Any:
        # TensorFlow warns of many traces of one Python function; it counts partials separately.
        run = partial(self._grow, *options)
        return tf.function(run, self.generate_signature(), autograph=False)

    def _limits(self, top_k: Any, top_p: Any, forbidden: Any) -> Limits:
        """Which tokens may be drawn; raises ValueError for invalid arguments."""
        check_number("`top_k` of generate", top_k, is_optional=True)
        if top_p is not None and not (isinstance(top_p, float | int) and 0 < top_p <= 1):
            raise ValueError(
                f"`top_p` of generate must be a probability above 0 and at most 1, received "
                f"{top_p!r}."
            )
        tokens = np.asarray(forbidden)
        is_list = tokens.ndim == 1 and (tokens.dtype.kind in "iu" or not tokens.size)
        tokens = np.unique(tokens.astype(int)) if is_list else tokens
        is_token = is_list and set(tokens) <= set(range(1, self.num_tokens))
        if not is_token or len(tokens) == self.num_tokens - 1:
            raise ValueError(
                "`forbidden_tokens` of generate must be a list of tokens from 1 to "
                f"{self.num_tokens - 1}, but not all of them; received {forbidden!r}."
            )
        return Limits(top_k, top_p, tuple(tokens.tolist()))

    def _check_beams(
        self, num_beams: Any, num_results: Any, temperature: Any, limits: Limits
    ) -> None:
        """Raises ValueError for invalid numbers of beam search, or options that exclude it."""
        check_number("`num_beams` of generate", num_beams, is_optional=True)
        check_number("`num_results` of generate", num_results, is_optional=True)
        if num_results and num_results > (num_beams or 0):
            raise ValueError(
                f"`num_results` of generate is {num_results}, the number of trees that a beam "
                f"search returns for each root, so `num_beams` must be at least {num_results}; "
                f"received {num_beams}. To draw several trees from a root, repeat it in `roots`."
            )
        is_one = isinstance(temperature, float | int) and temperature == 1
        if num_beams and not (is_one and limits.top_k is limits.top_p is None):
            raise ValueError(
                "`num_beams` of generate searches for the likeliest tree, and draws nothing: leave "
                "`temperature`, `top_k` and `top_p` out, or `num_beams`."
            )

    def _checked_roots(self, roots: Any) -> Any:
        """The checked roots of `generate`, int32 `[batch]`."""
        if roots.shape.rank == 0:
            sentence = "`roots`, the number of trees, must be at least 0, received {}"
            with tf.control_dependencies(check(roots >= 0, sentence, roots)):
                return tf.fill([roots], -1)
        with tf.control_dependencies(self._check_roots(roots)):
            return tf.cast(roots, tf.int32)

    def generate_signature(self) -> list[tf.TensorSpec | list[tf.TensorSpec]]:
        """Returns the specs of all arguments of `generate`, for an exported function."""
        return [
            tf.TensorSpec([None], tf.int32, "roots"),
            tf.TensorSpec([], tf.int64, "seed"),
            tf.TensorSpec([], tf.float32, "temperature"),
            [tf.TensorSpec([None, size], self.compute_dtype) for size in self.cell.state_sizes],
        ]

    @property
    def num_traces(self) -> int:
        """The number of times `generate` has been traced."""
        return sum(run.experimental_get_tracing_count() for run in self._generate.values())

    def _grow(
        self,
        limits: Limits,
        num_beams: int | None,
        num_results: int | None,
        roots: Any,
        seed: Any,
        temperature: Any,
        initial_state: Any,
    ) -> GrownTrees:
        is_warm = check(
            temperature >= 0, "`temperature` must be at least 0, received {}", temperature
        )
        checks = [*self._check_roots(roots), *is_warm]
        with tf.control_dependencies(checks):
            roots = tf.identity(roots)
        if num_beams is None:
            draw = partial(Drawn, roots=roots, temperature=temperature, limits=limits)
            decide = self._decisions(draw)
            return grow_trees(self.cell, decide, list(initial_state), seed, self.engine)
        num_possible = self.num_tokens - 1 - len(limits.forbidden)
        num_ranks = min(num_beams, num_possible), min(num_beams, num_sets(self.cell.arity))
        rank = partial(Ranked, roots=roots, forbidden=limits.forbidden, num_ranks=num_ranks)
        numbers = num_beams, num_results or 1, num_ranks
        found = search_trees(self.cell, self._decisions(rank), list(initial_state), *numbers)
        return found if num_results else GrownTrees(*(of[:, 0] for of in found))

    def _check_roots(self, roots: Any) -> list[tf.Operation]:
        """Checks, when the graph runs, that roots are tokens or -1."""
        is_token = (roots >= -1) & (roots < self.num_tokens) & (roots != 0)
        return check(
            tf.reduce_all(is_token),
            f"`roots` of generate must be tokens from 1 to {self.num_tokens - 1}, or -1 where the "
            "model chooses. Received from {} to {}",
            tf.reduce_min(roots),
            tf.reduce_max(roots),
        )

    def _decisions(
        self, choices: Callable[..., Choices]
    ) -> Callable[[list[Any], Place | Candidates], Decision]:
        """Returns a function from the states and places of nodes to decisions.

        Args:
            choices: Returns the choices, from the first arguments of `Choices` and the places.
        """

        def decide(states: list[Any], place: Place | Candidates) -> Decision:
            allowed = self._allowed_children(place.slot, place.depth)
            token, growth = self._decide(states[0], choices(allowed, self.num_tokens, place))
            log_likelihood = token.log_likelihood + growth.log_likelihood
            return Decision(token.value, growth.value, self.embedding(token.value), log_likelihood)

        return decide

    def tagged_graph(self) -> TaggedGraph:
        """Returns the static tagged graph in which trees grow; the decoder must be built."""
        self._check_built()
        roots, temperature = tf.constant([-1]), tf.constant(1.0)
        draw = partial(Drawn, roots=roots, temperature=temperature, limits=Limits())
        states = self.top_down.initial_states(None, 1)
        batch = tf.constant(1)
        grow = grower(self.cell, self._decisions(draw), self.engine, batch)
        return grow.tagged_graph(root_places(batch, tf.constant(0, tf.int64)), states)

    def _check_built(self) -> None:
        if not self.built:
            raise ValueError(
                f"{self.name} has no weights yet. Call it on trees first, or build it."
            )

    def compute_output_shape(
        self, tokens_shape: Any, children_shape: Any, initial_state_shape: Any = None
    ) -> Any:
        """Returns the shape of the output."""
        return (*tokens_shape, 2)

    def compute_output_spec(self, tokens: Any, children: Any, *_: Any, **__: Any) -> Any:
        """Returns a symbolic output, so that a functional model is built without compiling."""
        self._check_inputs(tokens, children)
        return keras.KerasTensor((*tokens.shape, 2), "float32")


def _is_allowed(allowed_slots: str | Sequence[Sequence[int]] | None, arity: int) -> Any:
    """The slots that may have children, bool `[1 + arity, arity]`: of roots, of nodes by slot."""
    if allowed_slots is None:
        return np.ones([1 + arity, arity], bool)
    rows = ALLOWED_SLOTS.get(allowed_slots, ()) if isinstance(allowed_slots, str) else allowed_slots
    is_list = isinstance(rows, list | tuple) and len(rows) == 1 + arity
    is_rows = is_list and all(isinstance(row, list | tuple) for row in rows)
    if not is_rows or any(slot not in range(arity) for row in rows for slot in row):
        raise ValueError(
            '`allowed_slots` must be "left_right" (with arity 4), "first_child" (with arity 2), or '
            f"{1 + arity} rows of slots from 0 to {arity - 1}: of a root, then of a node in each "
            f"slot; received {allowed_slots!r}."
        )
    return np.array([[slot in row for slot in range(arity)] for row in rows])


def _integers(name: str, given: Any, expected: str, ranks: Sequence[int]) -> Any:
    """A tensor of integers whose rank is one of those given."""
    tensor = None if given is None else tf.convert_to_tensor(given)
    if tensor is None or not tensor.dtype.is_integer or tensor.shape.rank not in ranks:
        shown = given if tensor is None else f"{tensor.dtype.name} of shape {tensor.shape}"
        raise ValueError(f"`{name}` must be {expected}; received {shown}.")
    return tensor


def _slots_and_depths(children: Any) -> tuple[Any, Any]:
    """Each tree node's slot and depth, int32 `[batch, nodes]`.

    Roots and padding have slot -1 and depth 0. Inputs that are not trees also get some numbers.
    """
    batch, nodes, _ = tf.unstack(tf.shape(children))
    edges = tf.cast(tf.where(children >= 0), tf.int32)
    trees, parents, slots = tf.unstack(edges, axis=1)
    below = tf.stack([trees, tf.gather_nd(children, edges)], 1)
    slots = tf.tensor_scatter_nd_update(tf.fill([batch, nodes], ROOT), below, slots)
    everyone = tf.tile(tf.range(nodes)[tf.newaxis], [batch, 1])
    # Each step looks twice as far up as the one before; a root is above itself.
    _, depths, _ = tf.while_loop(
        lambda reach, *_: reach < nodes,
        lambda reach, depths, above: (
            reach * 2,
            depths + tf.gather(depths, above, batch_dims=1),
            tf.gather(above, above, batch_dims=1),
        ),
        (
            tf.constant(1),
            tf.cast(slots != ROOT, tf.int32),
            tf.tensor_scatter_nd_update(everyone, below, parents),
        ),
    )
    return slots, depths
