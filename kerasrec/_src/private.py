"""The one place with names of TensorFlow and Keras that are not public.

A comment or docstring next to each explains why there is no public way, and the damage if the name
changes. None has changed since TensorFlow 2.18 and Keras 3.10, the oldest versions that kerasrec
supports. `docs/releasing.md` lists the names.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import keras
import tensorflow as tf

# Keras works out the shapes of subclassed models by calling them inside scopes in which variables
# have other values than usual: their initializers' output, or the caller's tensors. Programs traced
# there must not be kept. Without these names, kerasrec cannot be imported.
from keras.src.backend import in_stateless_scope
from keras.src.backend.common.global_state import get_global_attribute
from keras.src.backend.common.symbolic_scope import in_symbolic_scope

# `context`: Tools such as `tf.debugging.enable_check_numerics` see each op that is made or run, by
# callbacks in a list that the context has for each thread. There is no public way to make ops that
# they do not see. `record`: Tapes see ops that Python makes through TensorFlow's public functions,
# but not ops that are made from their definitions, as kerasrec makes them. Without the modules,
# kerasrec cannot be imported; if `op_callbacks`, `record_operation` or `stop_recording` is renamed,
# recursive functions raise AttributeError.
from tensorflow.python.eager import context, record

# The first marks that a graph is traced for `tf.function(jit_compile=True)`, and the second looks
# for the mark. There is no public way. Without the names, kerasrec cannot be imported.
from tensorflow.python.ops.control_flow_ops import XLAControlFlowContext
from tensorflow.python.ops.control_flow_util import GraphOrParentsInXlaContext

__all__ = [
    "OF_GRADIENTS",
    "OUTPUT_SHAPES",
    "added_losses",
    "as_in_xla",
    "build_optimizer_of_model",
    "comes_from_layers",
    "compile_time",
    "copy_gradient",
    "copy_held_function",
    "graph_held",
    "has_own_gradient",
    "in_order_of_metrics",
    "in_stateless_scope",
    "in_symbolic_scope",
    "in_xla",
    "innermost_layer",
    "losses_of_outputs",
    "mask_of",
    "not_inlined",
    "op_callbacks",
    "optimized_variables",
    "rows_from",
    "set_gradient",
    "set_mask",
    "show_to_tapes",
    "unseen_by_op_callbacks",
    "unseen_by_tapes",
    "update_averages",
    "update_slice",
    "with_outer_graphs",
]

# Attributes of an op that record which gradient it was given, and how many outputs a loop had
# before its gradient added some. Gradients of copies read them. If one is renamed, an op with its
# own `tf.custom_gradient`, or a loop in a body, has a wrong gradient or fails.
_GRADIENT = "_gradient_op_type"
OF_GRADIENTS = frozenset({_GRADIENT, "_num_original_outputs"})

# The attribute of a NodeDef in which TensorBoard's Graphs page looks for shapes. If it changes,
# `to_tensorboard` writes a graph without them.
OUTPUT_SHAPES = "_output_shapes"


def has_own_gradient(operation: tf.Operation) -> bool:
    """Whether `tf.custom_gradient` defines the gradient of an op; see `OF_GRADIENTS`."""
    return _GRADIENT in operation.node_def.attr


def set_gradient(operation: tf.Operation, gradient: Callable[..., Any]) -> None:
    """Gives an op a gradient function of (op, cotangents), which goes with its graph.

    `tf.custom_gradient` registers one for as long as the process runs. TensorFlow's loader of
    functions does it like this. If the name changes, gradients of recursive functions are None or
    wrong.
    """
    operation._gradient_function = gradient


def copy_gradient(operation: tf.Operation, copy: tf.Operation) -> None:
    """Gives the copy of an op that calls a function the gradient of that function.

    TensorFlow's own copies (lift_to_graph.py) take it like this. If the name changes, values that
    come through `tf.function` in a body have no gradient.
    """
    copy._gradient_function = operation._gradient_function


def copy_held_function(name: str, operation: tf.Operation, copy: tf.Operation) -> None:
    """Makes a function that an op holds, and those inside it, known in the graph of its copy.

    TensorFlow has no other way to call in one graph a function that only another knows. If a name
    changes, `tf.while_loop`, `tf.map_fn`, `tf.cond` and `tf.function` in a body raise
    AttributeError.
    """
    copy.graph._add_function_recursive(operation.graph._get_function(name))


def graph_held(operation: tf.Operation, attribute: str) -> list[tf.Graph]:
    """The graphs of the functions that an op holds: what it calls, its branches, a loop's body.

    The op's public attributes have names and definitions, not the tensors that were traced. If the
    name changes, `tf.function`, `tf.cond` and `tf.while_loop` in a body raise AttributeError.
    """
    held = operation.get_attr(attribute)
    functions = held if isinstance(held, list) else [held]
    return [operation.graph._get_function(function.name).graph for function in functions]


def with_outer_graphs(graph: tf.Graph) -> list[tf.Graph]:
    """A graph, the graph that was being built when that of its function was begun, and so on.

    The class of such graphs is not public. If the name changes, a call of a recursive function
    inside `tf.cond` or `tf.while_loop` in a body is no longer told apart from one outside, and
    fails with another error.
    """
    outer = getattr(graph, "outer_graph", None)
    return [graph] if outer is None else [graph, *with_outer_graphs(outer)]


def not_inlined(function: Callable[..., Any], **options: Any) -> Any:
    """A `tf.function` whose call stays a call, so that it costs nothing where it is not made.

    `tf.function` has no other way to do this. If the attribute changes, results are the same, and
    small runs that XLA compiles, and the first steps of all programs, take longer.

    Args:
        function: The function.
        **options: Other options of `tf.function`.
    """
    attributes = {"_noinline": True}
    return tf.function(function, autograph=False, experimental_attributes=attributes, **options)


def in_xla() -> bool:
    """Whether the graph that is being built is to be compiled by XLA as a whole."""
    if tf.executing_eagerly():
        return False
    return bool(GraphOrParentsInXlaContext(tf.compat.v1.get_default_graph()))


@contextmanager
def as_in_xla() -> Iterator[None]:
    """A context in which graphs are built to be compiled by XLA, whether they are marked or not.

    Where a tape is outside of `tf.function(jit_compile=True)`, the graph of a second derivative
    does not.
    """
    scope = None if in_xla() else XLAControlFlowContext()
    if scope:
        scope.Enter()
    try:
        yield
    finally:
        if scope:
            scope.Exit()


def compile_time(number: tf.Tensor) -> tf.Tensor:
    """An int32 scalar that XLA knows when it compiles, as no constant of TensorFlow's graph.

    TensorFlow's bridge to XLA moves constants into the bodies of loops, and loses those bodies
    where loops stand in functions. The op has no function in TensorFlow's public names. If it is
    renamed, recursive functions fail inside of `tf.function(jit_compile=True)`.
    """
    zero, one = tf.zeros([1], tf.int32), tf.ones([1], tf.int32)
    return tf.reshape(_op_of_xla("XlaDynamicSlice", number[tf.newaxis], zero, one), [])


class _OpCallbacks(threading.local):
    """The op callbacks of a thread while ops are unseen; those that see ops are TensorFlow's."""

    def __init__(self) -> None:
        self.are_unseen = False
        self.others: list[Callable[..., Any]] = []

    def swap(self) -> None:
        seen = context.context().op_callbacks
        seen[:], self.others = self.others, list(seen)
        self.are_unseen = not self.are_unseen


_op_callbacks = _OpCallbacks()


def op_callbacks() -> tuple[Callable[..., Any], ...]:
    """The callbacks of debugging tools that see the ops that this thread makes."""
    return (*context.context().op_callbacks, *_op_callbacks.others)


@contextmanager
def unseen_by_op_callbacks(are_unseen: bool = True) -> Iterator[None]:
    """A context for ops that debugging tools do not see, such as those of an engine.

    They may compute or keep NaN that nothing reads. And in a plain `tf.Graph`, the tools put their
    own ops between an op and its readers.

    Args:
        are_unseen: False for a part, inside of such a context, whose ops the tools see.
    """
    if are_unseen == _op_callbacks.are_unseen:
        yield
        return
    _op_callbacks.swap()
    try:
        yield
    finally:
        _op_callbacks.swap()


def unseen_by_tapes() -> Any:
    """A context with ops that tapes do not see; see `show_to_tapes`."""
    return record.stop_recording()


def show_to_tapes(inputs: Sequence[tf.Tensor], outputs: Sequence[tf.Tensor]) -> None:
    """Has tapes see ops of the graph that is being built as one op, with the gradient of the graph.

    `tf.custom_gradient` would hide the ops from `tf.gradients`, of graphs around this one.

    Args:
        inputs: The inputs of the op.
        outputs: Its outputs.
    """
    _show_to_tapes(inputs, inputs, outputs)


def _show_to_tapes(
    inputs: Sequence[tf.Tensor], starts: Sequence[tf.Tensor], outputs: Sequence[tf.Tensor]
) -> None:
    """`show_to_tapes` for ops that begin with other tensors, `starts`, which equal the inputs."""

    def gradient(*cotangents: tf.Tensor | tf.IndexedSlices) -> list[Any]:
        with unseen_by_tapes():
            # Cotangents of cotangents may also come from inputs; tapes go that way themselves.
            # tf.gradients does not stop at results of a tf.function, so it stops at copies.
            copies = tf.nest.map_structure(tf.identity, cotangents, expand_composites=True)
            gradients = tf.gradients(outputs, starts, list(copies), stop_gradients=starts)
        given = [gradient for gradient in gradients if gradient is not None]
        cotangents, copies, given = (
            tf.nest.flatten(tensors, expand_composites=True)
            for tensors in (cotangents, copies, given)
        )
        _show_to_tapes([*inputs, *cotangents], [*starts, *copies], given)
        return gradients

    record.record_operation("Recursion", outputs, inputs, gradient)


def mask_of(tensor: Any) -> tf.Tensor | None:
    """The mask that Keras passes along with a tensor.

    Keras hands masks to `call` and `compute_mask` only. If the name changes, padding counts as tree
    nodes, in layers and in the loss.
    """
    return getattr(tensor, "_keras_mask", None)


def set_mask(tensor: tf.Tensor, mask: tf.Tensor | None) -> None:
    """Gives a tensor a mask that Keras passes along with it; see `mask_of`.

    `compute_mask` sees a layer's results, and no values from inside its `call`.
    """
    tensor._keras_mask = mask


def added_losses(layer: keras.layers.Layer) -> list[tf.Tensor]:
    """The losses that a layer, and those in it, have added by `add_loss` or `activity_regularizer`.

    The public `losses` also has regularizers of weights; their tensors are new whenever it is
    asked. If a name changes, no cell can be called.
    """
    return [loss for part in layers_in(layer) for loss in part._get_own_losses()]


def layers_in(layer: keras.layers.Layer) -> list[keras.layers.Layer]:
    """A layer and those it holds, at any depth.

    The public `layers` is one of models. If the name changes, no cell can be called, nor a
    recursive function that reads a layer.
    """
    return list(layer._flatten_layers())


def innermost_layer() -> Any:
    """The layer with the running call, or None.

    Keras keeps it with the scopes of names, and has no public way to ask for it. Without the
    import, kerasrec cannot be imported. If another name changes, losses that layers add in a
    recursive function are not refused: they are left out, or make the training fail.
    """
    scopes = get_global_attribute("name_scope_stack")
    return scopes[-1].caller if scopes else None


def build_optimizer_of_model() -> None:
    """Builds the optimizer of a model if its first training step is being traced.

    Keras builds it in the step, and TensorFlow then traces the step again, since only the first
    trace may make variables. The model is found as `innermost_layer` is: if the name changes, the
    first step takes longer.
    """
    scopes = get_global_attribute("name_scope_stack")
    if tf.executing_eagerly() or tf.distribute.has_strategy() or not scopes:
        return  # Under a strategy, Keras builds it before the step.
    model = scopes[0].caller
    is_keras_step = getattr(type(model), "train_step", None) is keras.Model.train_step
    if not is_keras_step or model.train_function is None or in_symbolic_scope():
        return
    optimizer = model.optimizer
    if optimizer is not None and not optimizer.built and all(x.built for x in layers_in(model)):

        def build() -> None:
            with keras.name_scope(optimizer.name):
                optimizer.build(model.trainable_weights)

        with ThreadPoolExecutor(1) as outside:  # There, no function is being traced.
            outside.submit(build).result()


@contextmanager
def unnoticed_by_keras() -> Iterator[None]:
    """Within it, layers may be made that change neither names nor seeds of those made afterwards.

    Keras counts layers in names such as `dense_1`. If the name of its counts changes, later layers
    have other default names.
    """
    counts = get_global_attribute("object_name_uids", default={})
    before, state = dict(counts), random.getstate()
    try:
        yield
    finally:
        counts.clear()
        counts.update(before)
        random.setstate(state)


def comes_from_layers(tensor: keras.KerasTensor) -> bool:
    """Whether a symbolic tensor knows the layers before it.

    `keras.utils.get_source_inputs` fails where it does not. If the name changes, a tree layer on
    another one in a functional model is no longer refused without `read_inner_inputs`, and silently
    leaves out the states of inner nodes.
    """
    return hasattr(tensor, "_keras_history")


def optimized_variables(optimizer: keras.optimizers.Optimizer) -> list[keras.Variable]:
    """The variables that an optimizer was built for.

    `Optimizer.variables` are its own. If the name changes, training with `OptimizerPerLayer` raises
    AttributeError.
    """
    return optimizer._trainable_variables


def losses_of_outputs(model: keras.Model) -> list[keras.metrics.Mean]:
    """The metrics in which a compiled model counts the loss of each output, if it has several.

    Among `Model.metrics` they cannot be told from a user's own. If a name changes, these losses are
    wrong on several replicas whose parts of a batch differ.
    """
    return list(getattr(getattr(model, "_compile_loss", None), "metrics", ()))


def in_order_of_metrics(model: keras.Model, values: dict[str, Any]) -> Any:
    """Values of metrics in the order in which `evaluate` lists them; a single one is not a list.

    Keras has no public way from names to this order. If the name changes, `evaluate` of a model on
    several replicas raises AttributeError unless it is to return a dict.
    """
    return model._flatten_metrics_in_order(values)


def update_averages(optimizer: keras.optimizers.Optimizer) -> None:
    """Updates an optimizer's moving averages of the weights, if `use_ema` asks for them.

    `Optimizer.apply` does it, which `OptimizerPerLayer` replaces. If the name changes, training
    with it raises AttributeError.
    """
    optimizer._update_model_variables_moving_average(optimizer._trainable_variables)


def update_slice(buffer: tf.Tensor, values: tf.Tensor, start: tf.Tensor) -> tf.Tensor:
    """A buffer with other rows from `start` on, in a program that XLA compiles.

    XLA writes them in place. Its op has no function in TensorFlow's public names. If the op is
    renamed, the engine "compiled" fails when it is traced.
    """
    begin = tf.stack([start, *([0] * (buffer.shape.rank - 1))])
    updated = _op_of_xla("XlaDynamicUpdateSlice", buffer, values, begin)
    updated.set_shape(buffer.shape)
    return updated


def rows_from(buffer: tf.Tensor, start: tf.Tensor, number: tf.Tensor) -> tf.Tensor:
    """A number of rows of a buffer, in a program that XLA compiles.

    `tf.slice` makes XLA compile again for each start that it can know before, and with it for all
    values that the start is computed from. As for `update_slice`, there is no public name.
    """
    rest = buffer.shape[1:]
    begin = tf.stack([start, *([0] * rest.rank)])
    sizes = [tf.shape(buffer)[1 + at] if size is None else size for at, size in enumerate(rest)]
    rows = _op_of_xla("XlaDynamicSlice", buffer, begin, tf.stack([number, *sizes]))
    rows.set_shape([None, *rest])
    return rows


def _op_of_xla(name: str, *inputs: tf.Tensor) -> tf.Tensor:
    graph = tf.compat.v1.get_default_graph()
    return graph.create_op(name, list(inputs), [inputs[0].dtype]).outputs[0]
