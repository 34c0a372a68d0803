"""JitCompiled: a model that XLA compiles as a whole, for one tree at a time."""

from __future__ import annotations

import functools
from typing import Any

import keras
import tensorflow as tf

from kerasrec._src.errors import SentenceFirst
from kerasrec._src.layers.saved_arguments import SavedByArguments
from kerasrec._src.layers.shared_sublayers import MadeOnce
from kerasrec._src.layers.tree_layer import is_ragged
from kerasrec._src.powers_of_two import next_power_of_two
from kerasrec._src.private import (
    in_stateless_scope,
    in_symbolic_scope,
    in_xla,
    layers_in,
    not_inlined,
)


@keras.saving.register_keras_serializable("kerasrec")
class JitCompiled(SavedByArguments):
    """Predicts one tree at a time with a model, all of which XLA compiles.

    A model spends most of the time for one tree between TensorFlow's ops. In a program that XLA
    compiles there are none, so that a tree takes 20% to 60% of the time, in a SavedModel as well.
    Wrap a trained model, and export, save or call the result:

        compiled = keras.Model(model.inputs, JitCompiled(model)(model.inputs))

    XLA compiles once for each size, for one to five seconds. Sizes are few, since a tree is padded
    to a power of two of nodes, at least 16; predict a tree of each before speed matters. Results
    are those of the model up to rounding, and errors are the same: if a result is NaN, the model
    predicts again without XLA. That is also how batches of several trees run, and training.

    Args:
        model: A functional model of padded trees, whose tree layers may have any `engine`, but not
            `shared_nodes=True`. Layers that read text stand before it:
            `keras.Model(text, JitCompiled(model)(reader(text)))`. It must ignore padding, as tree
            layers do, and its outputs must be floats.
        **kwargs: The options of every Keras layer: `name`, `dtype` and `trainable`.

    Call arguments:
        inputs: The inputs of the model.
        training: Whether it is called in training, a bool.

    Output shape:
        That of the model. Outputs of all tree nodes, `[1, nodes, ...]`, have as many nodes as the
        first input.

    Raises:
        ValueError: If the model is not functional, has inputs that are text or ragged, outputs that
            are not floats, or a layer with `shared_nodes=True`.
        TraceError: If XLA cannot compile a layer or recursive function of the model.

    Example:

    >>> words = keras.Input([None], dtype="int32")
    >>> children = keras.Input([None, 2], dtype="int32")
    >>> embedding = keras.layers.Embedding(10, 8)
    >>> states = kerasrec.layers.TreeLSTM(4, embedding=embedding)(words, children)
    >>> model = keras.Model([words, children], states)
    >>> compiled = kerasrec.layers.JitCompiled(model)
    >>> compiled([np.array([[0, 1, 2]]), np.array([[[1, 2], [-1, -1], [-1, -1]]])]).shape
    TensorShape([1, 4])
    """

    def __init__(self, model: keras.Model, **kwargs: Any):
        if not (isinstance(model, keras.Model) and getattr(model, "inputs", None)):
            raise ValueError(
                "`model` must be a functional model, keras.Model(inputs, outputs); "
                f"received {model!r}."
            )
        if any(x.dtype == "string" or is_ragged(x) for x in model.inputs):
            raise ValueError(
                f"XLA takes neither text nor ragged tensors, which are inputs of {model.name}. "
                "Leave the layers that read text out of `model` and put them before JitCompiled; "
                "of ragged trees, pass padded ones."
            )
        if any(getattr(layer, "shared_nodes", False) for layer in layers_in(model)):
            raise ValueError(
                f"A layer of {model.name} has shared_nodes=True, which XLA cannot compile. Call or "
                "export the model without JitCompiled."
            )
        if not all(tf.as_dtype(x.dtype).is_floating for x in model.outputs):
            raise ValueError(
                f"An output of {model.name} is not a float, which would be NaN in a wrong tree. "
                "Leave the last layers out of `model` and put them after JitCompiled."
            )
        super().__init__(**kwargs)
        self.autocast = False  # The model casts its inputs itself.
        self.model = model
        self._runs: MadeOnce[Any] = MadeOnce(model)

    @SentenceFirst()
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Calls the layer, and raises the errors of the tree layers in the model."""
        return super().__call__(*args, **kwargs)

    def call(self, inputs: Any, training: bool = False) -> Any:
        """Predicts; see the class."""
        if training or in_xla() or in_symbolic_scope() or in_stateless_scope():
            return self.model(inputs, training=training)
        pairs = list(zip(keras.tree.flatten(inputs), self.model.inputs, strict=True))
        specs = [tf.TensorSpec(x.shape, x.dtype) for _, x in pairs]
        given = [tf.cast(tensor, x.dtype) for tensor, x in pairs]
        signature = keras.tree.pack_sequence_as(inputs, specs)
        run = self._runs.get(str(signature), lambda: self._new_run(signature))
        return run(keras.tree.pack_sequence_as(inputs, given))

    def _new_run(self, signature: Any) -> Any:
        """A function of inputs that have a signature, traced once for all sizes."""
        predict = functools.partial(self.model, training=False)
        compiled = tf.function(predict, autograph=False, jit_compile=True)
        not_compiled = not_inlined(predict)

        def run(inputs: Any) -> Any:
            batch, nodes, *_ = tf.unstack(tf.shape(keras.tree.flatten(inputs)[0]))

            def one() -> Any:
                padded = keras.tree.map_structure(_padded, inputs, signature)
                outputs = compiled(padded)
                given = [
                    output[:, :nodes] if len(spec.shape) > 1 and spec.shape[1] is None else output
                    for output, spec in zip(
                        keras.tree.flatten(outputs), self.model.outputs, strict=True
                    )
                ]
                outputs = keras.tree.pack_sequence_as(outputs, given)
                failed = [tf.reduce_any(tf.math.is_nan(output)) for output in given]
                return tf.cond(tf.reduce_any(failed), many, lambda: outputs)

            def many() -> Any:
                return not_compiled(inputs)

            return tf.cond(tf.equal(batch, 1), one, many)

        return tf.function(run, input_signature=[signature], autograph=False)

    def compute_output_spec(self, inputs: Any, training: bool = False) -> Any:
        """Returns the symbolic outputs of the model."""
        return self.model.compute_output_spec(inputs)


def _padded(tensor: tf.Tensor, spec: tf.TensorSpec) -> tf.Tensor:
    """Pads open axes, except that of trees, to a power of two, at least 16; children with -1."""
    is_children = tensor.dtype.is_integer and len(spec.shape) > 2

    def missing(axis: int) -> tf.Tensor:
        size = tf.shape(tensor)[axis]
        return tf.maximum(next_power_of_two(size), 16) - size

    open_axes = [axis for axis, size in enumerate(spec.shape) if axis and size is None]
    more = [[0, missing(axis) if axis in open_axes else 0] for axis in range(len(spec.shape))]
    return tf.pad(tensor, more, constant_values=-1 if is_children else 0)
