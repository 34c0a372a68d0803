"""Runs tokens through a compiled machine: in blocks of one size, with room that grows.

XLA needs sizes that are known when it compiles. So tokens run in blocks of one size, and a machine
begins with little room. A token that needs more begins again, in the same machine compiled for more
room. Most calls are one block that needs little room. They cost one launch; everything else is in a
separate function, which costs nothing unless it is called.
"""

from __future__ import annotations

import os
from collections.abc import Callable

import tensorflow as tf

from kerasrec._src.emit.results import State, Tensors
from kerasrec._src.private import not_inlined

_BLOCK = 128
_GROWTH = 16


class Blocks:
    """Runs all tokens.

    Args:
        attempt: Runs the tokens of a block; XLA can compile it. Its arguments are (size, first,
          num_tokens, tensors `[_BLOCK]`): the room, the token to begin with, and the number of real
          tokens, int32. It returns a dict of `token`: int32, the one that did not finish, or
          `num_tokens`; `fault`: int32, 0 unless an op failed; `results`: `[_BLOCK]` each; `sums`:
          over the tokens that finished; and anything else that `check` reads.
        check: Takes the result of the last attempt, and num_tokens; returns ops that fail unless
          the block finished.
        first_size: The room with which a block begins.
        most: The largest room.
    """

    def __init__(
        self,
        attempt: Callable[[tf.Tensor, tf.Tensor, tf.Tensor, Tensors], State],
        check: Callable[[State, tf.Tensor], list[tf.Operation]],
        first_size: int,
        most: int,
    ):
        self._attempt = tf.function(attempt, jit_compile=True, autograph=False)
        self.check = check
        self.most = most
        self.first_size = min(first_size, most)

    def run(self, tensors: Tensors) -> Tensors:
        """Runs all tokens.

        Args:
            tensors: The tensors, `[tokens]` each.

        Returns:
            The results, `[tokens]` each, then the sums.
        """
        with tf.device("/device:CPU:0"):
            num_tokens = tf.shape(tensors[0])[0]
            # Zero if there is more than one block, because blocks run in parallel.
            at_once = tf.where(num_tokens <= _BLOCK, num_tokens, 0)
            state = self._begin(_block(_padded(tensors), 0), at_once)

            def apart() -> Tensors:
                return self._run_blocks(tensors, state)

            found = tf.cond(
                state["token"] >= num_tokens,
                lambda: state["results"] + state["sums"],
                not_inlined(apart),
            )
            num_results = len(state["results"])
            return [item[:num_tokens] for item in found[:num_results]] + found[num_results:]

    def _begin(self, given: Tensors, num_tokens: tf.Tensor) -> State:
        return self._attempt(tf.constant(self.first_size), tf.constant(0), num_tokens, given)

    def _run_blocks(self, tensors: Tensors, like: State) -> Tensors:
        """Runs tokens in blocks, which run in parallel on the cores.

        Args:
            tensors: The tensors, `[tokens]` each.
            like: The result of an attempt, for its structure.

        Returns:
            The results, with further rows after those of the tokens, then the sums.
        """
        num_tokens, padded = tf.shape(tensors[0])[0], _padded(tensors)
        num_blocks = tf.shape(padded[0])[0] // _BLOCK
        kinds = [*like["results"], *like["sums"]]
        empty = [tf.TensorArray(item.dtype, num_blocks, element_shape=item.shape) for item in kinds]

        def iterate(
            block: tf.Tensor, arrays: list[tf.TensorArray]
        ) -> tuple[tf.Tensor, list[tf.TensorArray]]:
            left = num_tokens - block * _BLOCK
            state = self._run_block(_block(padded, block), tf.minimum(left, _BLOCK))
            pairs = zip(arrays, [*state["results"], *state["sums"]], strict=True)
            return block + 1, [array.write(block, item) for array, item in pairs]

        _, arrays = tf.while_loop(
            lambda block, _: block < num_blocks,
            iterate,
            (0, empty),
            parallel_iterations=os.cpu_count() or 1,
            name="blocks",
        )
        num_results = len(like["results"])
        results = [array.concat() for array in arrays[:num_results]]
        return results + [tf.reduce_sum(array.stack(), axis=0) for array in arrays[num_results:]]

    def _run_block(self, given: Tensors, num_tokens: tf.Tensor) -> State:
        """Runs a block with more and more room."""

        def goes_on(state: State, size: tf.Tensor) -> tf.Tensor:
            is_stopped = (state["token"] < num_tokens) & tf.equal(state["fault"], 0)
            return is_stopped & (size < self.most)

        def go_on(state: State, size: tf.Tensor) -> tuple[State, tf.Tensor]:
            size = tf.where(size > self.most // _GROWTH, self.most, size * _GROWTH)
            first = state["token"]
            found = self._attempt(size, first, num_tokens, given)
            pairs = zip(state["results"], found["results"], strict=True)
            is_known = tf.range(_BLOCK) < first
            found["results"] = [tf.where(is_known, old, new) for old, new in pairs]
            pairs = zip(state["sums"], found["sums"], strict=True)
            found["sums"] = [old + new for old, new in pairs]
            return found, size

        state, _ = tf.while_loop(
            goes_on,
            go_on,
            (self._begin(given, num_tokens), tf.constant(self.first_size)),
            parallel_iterations=1,
            name="sizes",
        )
        with tf.control_dependencies(self.check(state, num_tokens)):
            return tf.nest.map_structure(tf.identity, state)


def _padded(tensors: Tensors) -> Tensors:
    """The tensors padded with zeros to whole blocks, at least one."""
    num_tokens = tf.shape(tensors[0])[0]
    num_rows = tf.maximum((num_tokens + _BLOCK - 1) // _BLOCK, 1) * _BLOCK
    return [tf.pad(tensor, [[0, num_rows - num_tokens]]) for tensor in tensors]


def _block(padded: Tensors, block: tf.Tensor | int) -> Tensors:
    """The tensors `[_BLOCK]` of a block."""
    return [tf.slice(tensor, [block * _BLOCK], [_BLOCK]) for tensor in padded]
