"""The common part of layers from `x` and `children` to states of tree nodes."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from kerasrec._src.errors import SentenceFirst
from kerasrec._src.layers.saved_arguments import SavedByArguments
from kerasrec._src.layers.trees import as_indices
from kerasrec._src.links import links_of
from kerasrec._src.private import comes_from_layers, mask_of, set_mask


class TreeLayer(SavedByArguments):
    """Base class of layers that read trees, padded or ragged, and return states of their nodes."""

    @property
    def _takes_words(self) -> bool:
        """Whether `x` contains words, not features."""
        raise NotImplementedError

    @property
    def returns_all_states(self) -> bool:
        """Whether the states of all tree nodes are returned, not only those of roots."""
        return True

    def __call__(self, x: Any = None, children: Any = None, *args: Any, **kwargs: Any) -> Any:
        """Calls the layer: `layer(x, children)`, or with a list of both, and of edges, if any.

        Raises:
            TypeError: If an argument has another name.
        """
        parameters = inspect.signature(self.call).parameters.values()
        names = [parameter.name for parameter in parameters]
        others = [name for name in kwargs if name not in names]
        first = [each.name for each in parameters if each.kind is not each.KEYWORD_ONLY]
        if len(args) > len(first) - 2:
            raise TypeError(
                f"{self.name} takes only {', '.join(first)} by position. Pass other arguments by "
                "name: layer(x, children, edges=edges)."
            )
        if x is None or others:
            received = f"received {', '.join(others)}" if others else "`x` is missing"
            raise TypeError(
                f"{self.name} takes {', '.join(names)}; {received}. Call layer(x, children): the "
                "inputs of tree nodes, then the indices of their children."
            )
        if children is None and isinstance(x, list | tuple) and len(x) == 3 and "edges" in names:
            x, children, kwargs["edges"] = x
        inputs = both_inputs(self.name, x, children, True, self._takes_words)
        with SentenceFirst():
            outputs = super().__call__(*inputs, *args, **kwargs)
        mask_symbolic(outputs, inputs[1])
        return outputs

    def check(self, x: Any, children: Any, mask: Any = None) -> None:
        """Raises ValueError for arguments of a call that this layer does not accept."""
        raise NotImplementedError

    def compute_output_spec(
        self,
        x: Any,
        children: Any,
        *,
        edges: Any = None,
        mask: Any = None,
        training: bool = False,
    ) -> Any:
        """Returns symbolic outputs, so that a functional model is built without compiling."""
        self.check(x, children, mask)

        def symbolic(shape: Any) -> keras.KerasTensor:
            is_rows = is_ragged(x) and len(shape) == 3
            return keras.KerasTensor(shape, self.compute_dtype, ragged=is_rows)

        return self._outputs(symbolic, x.shape, children.shape)

    def _zeros(self, x: Any, children: Any) -> Any:
        """Outputs of the right shapes, from which Keras learns them without compiling."""

        def zeros(shape: Any) -> Any:
            if is_ragged(x) and len(shape) == 3:
                rows = [tf.shape(x.values)[0], shape[-1]]
                return x.with_values(tf.zeros(rows, self.compute_dtype))
            return tf.zeros(shape, self.compute_dtype)

        nodes = None if is_ragged(x) else tf.shape(x)[1]
        return self._outputs(zeros, (num_trees(x), nodes), children.shape)

    def _outputs(self, make: Callable[[Any], Any], x_shape: Any, children_shape: Any) -> Any:
        """The result of `make` for the shape of each output."""
        shapes = self.compute_output_shape(x_shape, children_shape)
        return [make(shape) for shape in shapes] if isinstance(shapes, list) else make(shapes)


def is_ragged(x: Any) -> bool:
    """Whether a tensor, symbolic or not, is ragged."""
    return isinstance(x, tf.RaggedTensor) or getattr(x, "ragged", False)


def num_trees(x: Any) -> tf.Tensor:
    """The number of trees in a batch, padded or ragged; an int32 scalar."""
    return tf.cast(x.nrows(), tf.int32) if is_ragged(x) else tf.shape(x)[0]


def as_rows(
    x: tf.RaggedTensor, children: tf.RaggedTensor, edges: tf.RaggedTensor | None = None
) -> tuple[Any, Any, Any]:
    """All with int64 row splits; children are in rows even if all have the same length.

    Args:
        x: The inputs of tree nodes, `[batch, (nodes), features]` or `[batch, (nodes)]`.
        children: The children, `[batch, (nodes), (children)]` or `[batch, (nodes), arity]`.
        edges: Features of edges, with one more axis than `children`, or with one row for each node;
            None if there are none.
    """

    def with_rows(of: tf.RaggedTensor) -> tf.RaggedTensor:
        of = of.with_row_splits_dtype(tf.int64)
        if of.ragged_rank > 1:
            return of
        return of.with_values(tf.RaggedTensor.from_tensor(of.values, row_splits_dtype=tf.int64))

    if edges is not None:
        of_nodes = edges.shape.rank == 3
        edges = edges.with_row_splits_dtype(tf.int64) if of_nodes else with_rows(edges)
    return x.with_row_splits_dtype(tf.int64), with_rows(children), edges


def check_children(name: str, children: Any) -> None:
    """Raises a ValueError if `children`, or their shape, are missing."""
    if children is None:
        raise ValueError(
            f"{name} needs two inputs, layer(x, children): the inputs of tree nodes, [batch, "
            "nodes, ..], and the indices of their children, [batch, nodes, arity]. In a "
            "keras.Sequential only the first layer can have two inputs, and no keras.Input before "
            "it: call that model with [x, children], or use the functional API. Layers around "
            "other layers, such as keras.layers.TimeDistributed, pass one input."
        )


def both_inputs(
    name: str, x: Any, children: Any, takes_ragged: bool = False, takes_words: bool = True
) -> tuple[Any, Any]:
    """Returns `x` and `children` of a call, whether given separately or as one list.

    Args:
        name: The layer's name.
        x: The inputs of tree nodes.
        children: The children; None if `x` is a list of both.
        takes_ragged: Whether both may be ragged.
        takes_words: Whether `x` may contain integers.

    Raises:
        ValueError: If `children` are missing, if either tensor is sparse, or if one is ragged where
            the layer or the other tensor does not allow it; or if they seem to be swapped.
    """
    if children is None and isinstance(x, list | tuple) and len(x) == 2:
        x, children = x
    if hasattr(x, "dtype"):
        check_children(name, children)
    for what, given in (("x", x), ("children", children)):
        if not hasattr(given, "dtype"):
            raise ValueError(
                f"`{what}` of {name} has type {type(given).__name__}; expected an array or tensor "
                f"of a batch of trees. Pass np.array({what}); of trees, pass the arrays of a "
                "batch: `(x, children), labels = next(iter(kerasrec.datasets.tree_batches("
                "[encode_tree(tree, vocabulary)], batch_size=1)))`."
            )
    one_is_padded = not (is_ragged(x) and is_ragged(children))
    for what, given, filler in (("x", x, ""), ("children", children, "default_value=-1")):
        if is_ragged(given) and (one_is_padded or not takes_ragged):
            other = "children" if what == "x" else "x"
            both = f", or also {other} in rows" if takes_ragged else ""
            raise ValueError(
                f"`{what}` of {name} must be padded, with as many nodes in `x` as in `children`, "
                f"received a ragged tensor. Give {what}.to_tensor({filler}){both}."
            )
        if isinstance(given, tf.SparseTensor):
            raise ValueError(
                f"`{what}` of {name} must be dense, received a sparse tensor. Give "
                f"tf.sparse.to_dense({what})."
            )
    dtypes = [tf.as_dtype(given.dtype) for given in (x, children) if hasattr(given, "dtype")]
    if not takes_words and [dtype.is_integer for dtype in dtypes] == [True, False]:
        raise ValueError(
            f"`x` of {name} are {dtypes[0].name} and `children` {dtypes[1].name}. Are "
            "they swapped? Call layer(x, children): features of nodes, then integers."
        )
    return x, children


def refuse_mask(name: str, mask: Any) -> None:
    """Raises ValueError for a mask, which tree layers do not read.

    `keras.Sequential` passes a list with an entry for each input, which is None without a mask.
    """
    if any(part is not None for part in keras.tree.flatten(mask)):
        raise ValueError(
            f"{name} takes no `mask`: `children` determine the nodes. To leave out a node, omit it "
            "in `x` and `children`."
        )


def mark_states(states_or_mask: Any) -> Any:
    """Marks states of tree nodes, or their mask, and returns it.

    Layers in between pass on only the mask. Ragged states have none, and
    `keras.layers.MultiHeadAttention` removes it from its inputs.
    """
    states_or_mask._is_of_tree_nodes = True
    return states_or_mask


def are_states(x: Any) -> bool:
    """Whether `x`, symbolic or not, is known to be computed from the states of all tree nodes.

    A symbolic tensor knows all layers before it. Any other tensor, or its Keras mask, has a mark.
    """
    if not isinstance(x, keras.KerasTensor):
        return any(getattr(marked, "_is_of_tree_nodes", False) for marked in (x, mask_of(x)))
    if not comes_from_layers(x):
        return False
    sources = keras.utils.get_source_inputs(x)
    if any(source is x for source in sources):
        return False  # Keras 3.10 to 3.13 make no function without a layer.
    before = keras.Function(sources, x, name="before").operations
    return any(_returns_all_states(operation) for operation in before)


def _returns_all_states(operation: Any) -> bool:
    if isinstance(operation, TreeLayer):
        return operation.returns_all_states
    is_model = isinstance(operation, keras.Model)
    return is_model and any(map(_returns_all_states, operation.layers))


def node_mask(children: Any) -> tf.Tensor:
    """Which places of padded trees hold tree nodes, bool `[batch, nodes]`."""
    is_called = links_of(as_indices(children)).is_called
    return tf.reshape(is_called, tf.shape(children)[:2])


@keras.saving.register_keras_serializable("kerasrec")
class NodeMask(keras.Operation):
    """Computes which places of padded trees hold tree nodes, as the mask of a tree layer.

    Call arguments:
        children: The indices of each tree node's children, int `[batch, nodes, arity]`.

    Output shape:
        bool `[batch, nodes]`, False for padding.
    """

    def call(self, children: Any) -> tf.Tensor:
        """Computes the mask; the tree layer next to it checks the trees."""
        return node_mask(children)

    def compute_output_spec(self, children: Any) -> keras.KerasTensor:
        """Returns the symbolic mask."""
        return keras.KerasTensor(children.shape[:2], "bool")

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> NodeMask:
        """Returns an operation with a new name.

        When Keras loads a model, tree layers make another one with the next free name, which may be
        the saved one. A model that is built on the loaded one could not have both.
        """
        return cls()


def mask_symbolic(outputs: Any, children: Any) -> None:
    """Gives symbolic outputs `[batch, nodes, units]` of a tree layer their mask.

    Keras passes only `x` to `compute_mask`. Without a symbolic mask, a functional model has only
    the one that `call` sets, which `keras.layers.MultiHeadAttention` takes off the tensors that it
    reads, so that others that read them would take padding for tree nodes.

    Args:
        outputs: The layer's outputs, a tensor or a list.
        children: The children with which it was called.
    """
    if isinstance(children, keras.KerasTensor) and not is_ragged(children):
        for output in keras.tree.flatten(outputs):
            if len(output.shape) == 3:
                set_mask(output, NodeMask()(children))
