"""Runs programs of plain numbers one token at a time, at the speed of machine code.

Recursion that is sequential by nature, such as Ackermann's function, has no tokens to batch: a wave
holds one, and an op of TensorFlow costs more than all the arithmetic of a call. Here the program is
a small machine with one stack (`scalar_machine.py`), compiled by XLA as one loop.

XLA needs sizes that are known when it compiles. Tokens go through in blocks of one size. The stack,
and the log that the gradient reads, begin small; a run that outgrows them goes on, or that token
begins again, in the same machine compiled for more.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

import tensorflow as tf

from kerasrec.engine.calls import present, tensors_of_present
from kerasrec.engine.forward_only import ForwardOnly
from kerasrec.engine.limits import NUM_LABELS
from kerasrec.engine.results import Gradients, Outcome, Tensors
from kerasrec.engine.scalar_forward import Forward
from kerasrec.engine.scalar_gradient import Gradient
from kerasrec.engine.scalar_ops import gradient_obstacles
from kerasrec.graph.custom_gradient import custom_gradient
from kerasrec.graph.graph import Node, Value

_BLOCK = 128
_NUM_FRAMES = 1 << 12
_NUM_ROWS = 1 << 14
_GROWTH = 16


class ScalarRun(ForwardOnly):
    """One run of a program of plain numbers.

    Its gradient runs the program again. What the gradient cannot do here, and second gradients, are
    left to an engine of waves.
    """

    def run(self, arguments: Tensors) -> Outcome:
        """Runs all tokens."""
        way = Forward(self.graph, self.shared)
        compiled = tf.function(way.run, jit_compile=True, autograph=False)

        def run_block(given: Tensors, num_tokens: tf.Tensor) -> Tensors:
            def goes_on(state: dict, size: tf.Tensor) -> tf.Tensor:
                is_done = (state["token"] >= num_tokens) | (state["fault"] > 0)
                return ~is_done & (size < self.limits.max_depth)

            def run(state: dict, size: tf.Tensor) -> tuple[dict, tf.Tensor]:
                size = _more(size, _NUM_FRAMES, self.limits.max_depth)
                return compiled(way.grown(state, size), given, num_tokens), size

            state, _ = _grow_until_done(goes_on, run, way.first_state(_BLOCK))
            return self._checked(way, state, num_tokens)

        outputs = self.graph.bodies[self.graph.entry].outputs
        return Outcome(_in_blocks(run_block, arguments, _dtypes(outputs)), {})

    def backward(self, cotangents: Tensors, shared: dict[Value, tf.Tensor]) -> Gradients:
        """Runs all tokens again, and back; arguments as in `LevelRun.backward`."""
        if gradient_obstacles(self.graph):
            return super().backward(cotangents, shared)
        way = Gradient(self.graph, self.shared)
        entry = self.graph.bodies[self.graph.entry]
        given = tensors_of_present(entry.gradient_parameters, cotangents)
        shared_tensors = [self.shared[value] for value in way.wanted]
        num_arguments, num_given = len(self.arguments), len(given)

        @custom_gradient
        def gradient(*tensors: tf.Tensor) -> tuple:
            arguments = list(tensors[:num_arguments])
            found = self._gradient(way, arguments, list(tensors[num_arguments:][:num_given]))

            def second(*further: tf.Tensor) -> list:
                first = self._gradient_by_waves(way, list(tensors), num_arguments, num_given)
                return tf.gradients(first, list(tensors), list(further))

            return tuple(found), second

        found = list(gradient(*self.arguments, *given, *shared_tensors))
        sums = found[len(found) - len(way.wanted) :]
        of_arguments = iter(found)
        return Gradients(
            [None if node is None else next(of_arguments) for node in entry.gradient_outputs],
            dict(zip(way.wanted, sums, strict=True)),
        )

    def _gradient(self, way: Gradient, arguments: Tensors, cotangents: Tensors) -> Tensors:
        """Gradients of the arguments that have one, then of the SHARED values."""
        compiled = tf.function(way.run, jit_compile=True, autograph=False)
        num_arguments = len(arguments)
        most_rows = min(self.limits.max_memory // way.row_bytes, (1 << 31) - 1)

        def run_block(given: Tensors, num_tokens: tf.Tensor) -> Tensors:
            def goes_on(state: dict, num_rows: tf.Tensor) -> tf.Tensor:
                return (state["token"] < num_tokens) & (num_rows < most_rows)

            def run(state: dict, num_rows: tf.Tensor) -> tuple[dict, tf.Tensor]:
                num_rows = _more(num_rows, _NUM_ROWS, most_rows)
                num_frames = tf.minimum(num_rows, self.limits.max_depth)
                grown = way.grown(state, num_frames, num_rows)
                state = compiled(grown, given[:num_arguments], given[num_arguments:], num_tokens)
                return state, num_rows

            state, _ = _grow_until_done(goes_on, run, way.first_state(_BLOCK))
            check = tf.debugging.Assert(
                state["token"] >= num_tokens,
                [
                    f"{self.limits.name}: the gradient of one token keeps more bytes than "
                    f"max_memory={self.limits.max_memory}."
                ],
            )
            with tf.control_dependencies([check]):
                return [tf.identity(tensor) for tensor in [*state["results"], *state["sums"]]]

        dtypes = _dtypes(present(self.graph.bodies[self.graph.entry].gradient_outputs))
        sums = [value.type.tensor_spec() for value in way.wanted]
        return _in_blocks(run_block, [*arguments, *cotangents], dtypes, sums)

    def _gradient_by_waves(
        self, way: Gradient, tensors: Tensors, num_arguments: int, num_given: int
    ) -> Tensors:
        """The same, of ops that TensorFlow can differentiate."""
        shared = dict(zip(way.wanted, tensors[num_arguments + num_given :], strict=True))
        waves = self.waves(self.plan, {**self.shared, **shared}, self.limits)
        waves.forward(tensors[:num_arguments])
        entry = self.graph.bodies[self.graph.entry]
        given = iter(tensors[num_arguments : num_arguments + num_given])
        cotangents = [None if node is None else next(given) for node in entry.gradient_parameters]
        found = waves.backward(cotangents, waves.store.shared)
        return [item for item in found.arguments if item is not None] + [
            tf.convert_to_tensor(found.shared[value]) for value in way.wanted
        ]

    def _checked(self, way: Forward, state: dict, num_tokens: tf.Tensor) -> Tensors:
        """The results, or an error if the run failed or was stopped."""
        registers, fault = state["registers"], state["fault"]

        def tag() -> tf.Tensor:
            places = registers["stack"]["places"][: registers["depth"], 0]
            return tf.gather(way.machine.layout.labels, tf.reverse(places[-NUM_LABELS:], [0]))

        is_done = (state["token"] >= num_tokens) | (fault > 0)
        nothing = tf.constant(0, tf.int64)
        is_within = self.limits.check(
            self.graph, registers["depth"], tf.where(is_done, 0, 1), nothing, tag
        )
        message = tf.gather(["", *way.messages], fault)
        is_right = tf.raw_ops.Assert(
            condition=tf.equal(fault, 0), data=[self.limits.name, message], summarize=1
        )
        with tf.control_dependencies([is_within, is_right]):
            return [tf.identity(result) for result in state["results"]]


def _more(size: tf.Tensor, first: int, most: int) -> tf.Tensor:
    """The next size of a buffer."""
    grown = tf.where(size > most // _GROWTH, most, size * _GROWTH)
    return tf.minimum(tf.where(size > 0, grown, first), most)


def _dtypes(nodes: Sequence[Node]) -> list[tf.DType]:
    return [node.types[0].dtype for node in nodes]


def _in_blocks(
    run_block: Callable[[Tensors, tf.Tensor], Tensors],
    tensors: Tensors,
    dtypes: Sequence[tf.DType],
    sums: Sequence[tf.TensorSpec] = (),
) -> Tensors:
    """Runs tokens a block at a time, blocks side by side on the cores.

    Args:
        run_block: from `[_BLOCK]` tensors and how many of the block are real, to one `[_BLOCK]`
          for each of `dtypes`, then the sums.
        tensors: `[tokens]` each.
        dtypes: of results that each token has.
        sums: specs of results that are summed over the tokens.

    Returns:
        `[tokens]` for each of `dtypes`, then the sums.
    """
    num_tokens = tf.shape(tensors[0])[0]
    num_blocks = (num_tokens + _BLOCK - 1) // _BLOCK
    missing = num_blocks * _BLOCK - num_tokens
    padded = [tf.pad(tensor, [[0, missing]]) for tensor in tensors]
    specs = [*(tf.TensorSpec([_BLOCK], dtype) for dtype in dtypes), *sums]
    empty = [tf.TensorArray(spec.dtype, num_blocks, element_shape=spec.shape) for spec in specs]

    def iterate(block: tf.Tensor, arrays: list[tf.TensorArray]) -> tuple:
        start = block * _BLOCK
        given = [tf.ensure_shape(item[start : start + _BLOCK], [_BLOCK]) for item in padded]
        results = run_block(given, tf.minimum(num_tokens - start, _BLOCK))
        pairs = zip(arrays, results, strict=True)
        return block + 1, [array.write(block, result) for array, result in pairs]

    with tf.device("/device:CPU:0"):
        _, arrays = tf.while_loop(
            lambda block, _: block < num_blocks,
            iterate,
            (0, empty),
            parallel_iterations=os.cpu_count() or 1,
            name="blocks",
        )
        num_each = len(specs) - len(sums)
        of_each = [array.concat()[:num_tokens] for array in arrays[:num_each]]
        return of_each + [tf.reduce_sum(array.stack(), axis=0) for array in arrays[num_each:]]


def _grow_until_done(
    goes_on: Callable[[dict, tf.Tensor], tf.Tensor],
    run: Callable[[dict, tf.Tensor], tuple[dict, tf.Tensor]],
    state: dict,
) -> tuple[dict, tf.Tensor]:
    """Runs a state with more and more room; the size is 0 before the first time."""
    invariants = tf.nest.map_structure(
        lambda item: tf.TensorShape([None, item.shape[1]]) if item.shape.rank == 2 else item.shape,
        state,
    )
    return tf.while_loop(
        lambda state, size: tf.equal(size, 0) | goes_on(state, size),
        run,
        (state, tf.constant(0)),
        shape_invariants=(invariants, tf.TensorShape([])),
        parallel_iterations=1,
        name="sizes",
    )
