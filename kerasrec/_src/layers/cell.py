"""`RecursiveCell`: the computation at one tree node."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar

import keras
import tensorflow as tf

from kerasrec._src.layers.argument_checks import check_rate
from kerasrec._src.layers.saved_arguments import SavedByArguments
from kerasrec._src.private import added_losses, layers_in
from kerasrec._src.public import TraceError, map_fn
from kerasrec._src.trace.tracer import token_types

# The words of errors for a None where a tensor is expected.
_OF_NONE = ("NoneType", "None values not supported", "NOT CONVERTIBLE TO TENSOR")


class RecursiveCell(SavedByArguments):
    """Base class of cells, which play the same role for trees as those of `keras.layers.RNN`.

    A cell computes the states of a leaf from its inputs, and those of an inner node from its
    children's states. `kerasrec.layers.Recursive` applies the cell over trees, to many tree nodes
    at once: the first axis of all tensors counts tree nodes.

    A subclass sets `state_size`, creates weights in `build`, and implements `call`, which returns
    the node's output and its new states, as the cells of Keras do. By default, a leaf is an inner
    node whose children have the states of `get_initial_state`; to compute leaves differently, the
    subclass also implements `call_leaf`. The output is the first state, unless the cell sets
    `output_size`. Parents read only states.

    A cell for any number of children may read them one after the other, as an RNN reads a sequence:
    it implements `call_child`, from one child and the states that the child before it left. `call`
    then gets the states that the last child left, `[nodes, units]` each.

    A cell may also read features of the edges to its children, which are given to the layer as
    `edges`: its `call`, or its `call_child`, has an argument `edges`.

    A cell is saved with the arguments of its constructor. It needs a `get_config` only for those
    that Keras cannot save.

    Args:
        arity: The largest number of children of a tree node, a positive int. A missing child has
            the states of `get_initial_state`. None for any number of children, as ragged rows.
        read_inner_inputs: Whether inner nodes also read inputs; otherwise `call` gets None for
            them. False ignores the inputs of inner nodes. None requires that inner nodes have no
            inputs, where that can be checked: a word other than 0 at an inner node is an error, and
            so is the output of another tree layer.
        dropout: The fraction of the input features to drop in training, separately for each tree
            node.
        recurrent_dropout: The fraction of the first state to drop in training where a neighboring
            tree node reads it.
        seed: The seed of the dropout, an int.
        **kwargs: The options of every Keras layer: `name`, `dtype` and `trainable`.

    Call arguments:
        inputs: The inputs, float `[nodes, features]`, or None without `read_inner_inputs`.
        states: A list with an entry for each child: the list of its states, `[nodes, units]` each.
            With `arity=None` a list of the children's states, RaggedTensors
            `[nodes, (children), units]`; with `call_child` the states after the last child.
        training: Whether the call is in training, a bool; passed to a cell whose `call` takes it.
        edges: The features of the edges to the children, a list of `[nodes, features]`, or a
            RaggedTensor `[nodes, (children), features]` with `arity=None`; passed to a cell whose
            `call` takes it. Zeros for a missing child.

    Output shape:
        The output `[nodes, output_size]`, and a list of the new states, `[nodes, units]` each.

    Attributes:
        state_size: The number of units of each state, an int or a sequence of ints.
        output_size: The number of units of the output, an int. A cell whose output is not its first
            state sets it, even if the two have the same number of units.
        supports_jit: Whether XLA may compile a training step that contains the cell, a bool, if its
            layer has `engine="compiled"`. False, unless a subclass sets it: XLA supports no
            assertions and not all ops.
        num_edge_features: The number of features of an edge, an int, which the layer sets before
            `build`; None without `edges`.

    Example:

    >>> class SumCell(kerasrec.layers.RecursiveCell):
    ...     state_size = 8
    ...     def call_leaf(self, inputs):
    ...         return inputs, [inputs]
    ...     def call(self, inputs, states):
    ...         (left,), (right,) = states
    ...         total = left + right
    ...         return total, [total]
    >>> x = keras.ops.ones([1, 3, 8])  # one tree: a root and two leaves
    >>> children = np.array([[[1, 2], [-1, -1], [-1, -1]]])
    >>> float(kerasrec.layers.Recursive(SumCell())(x, children)[0, 0])
    2.0
    """

    state_size: int | Sequence[int]
    goes_down: ClassVar[bool] = False
    in_attributes = ("arity", "read_inner_inputs", "dropout", "recurrent_dropout", "seed")
    # Cells that multiply by the arity need an int; only cells for any number of children have None.
    arity: Any

    def __init__(
        self,
        *,
        arity: int | None = 2,
        read_inner_inputs: bool | None = None,
        dropout: float = 0.0,
        recurrent_dropout: float = 0.0,
        seed: int | None = None,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        if arity is not None and (not isinstance(arity, int) or arity < 1):
            raise ValueError(
                f"`arity` must be a positive integer, received {arity!r}; None stands for any "
                "number of children."
            )
        if self.reads_in_order and arity is not None:
            raise ValueError(
                f"{type(self).__name__} has a `call_child`, which reads any number of children in "
                f"order: its `arity` must be None, received {arity!r}."
            )
        if read_inner_inputs not in (None, True, False):
            raise ValueError(
                "`read_inner_inputs` must be True (inner nodes read inputs), False (their inputs "
                "are ignored) or None (they must have none), received "
                f"{read_inner_inputs!r}."
            )
        for name, rate in (("dropout", dropout), ("recurrent_dropout", recurrent_dropout)):
            check_rate(f"`{name}`", rate)
        # XLA may not support the ops of a subclass.
        self.supports_jit = False
        self.arity: Any = arity
        self.read_inner_inputs = read_inner_inputs
        self.dropout = dropout
        self.recurrent_dropout = recurrent_dropout
        self.seed = seed
        self.num_edge_features: int | None = None
        self._output_size: int | None = None

    def __call__(self, inputs: Any, states: Any, *args: Any, **kwargs: Any) -> Any:
        """Runs `call`, with weights and inputs cast to the cell's dtype.

        Raises:
            ValueError: If `states` are those of one node, as `keras.layers.RNN` passes them.
        """
        if self.arity is not None and not self.goes_down:
            for child in states:
                if not isinstance(child, list | tuple):
                    raise ValueError(
                        f"{self.name} needs the states of each child of a node, a list of lists; "
                        f"received {child!r} among them. keras.layers.RNN, which passes the states "
                        "of one, is for sequences: kerasrec.layers.Recursive(cell) goes up trees."
                    )
        return super().__call__(inputs, states, *args, **kwargs)

    def call(self, inputs: Any, states: Sequence[Any]) -> tuple[tf.Tensor, list[tf.Tensor]]:
        """Computes inner nodes. A subclass may also take `training`, a bool, and `edges`.

        Args:
            inputs: The inputs, `[nodes, features]`, or None without `read_inner_inputs`.
            states: A list with an entry for each child: the list of its states, `[nodes, units]`
                each. With `arity=None` there is a RaggedTensor `[nodes, (children), units]` for
                each state, with a row for each node: reduce it with `tf.reduce_sum(state, axis=1)`
                or the like, and compute on each child with `kerasrec.map_fn`. If the cell has a
                `call_child`, a list of the states that the last child left, `[nodes, units]` each.

        Returns:
            The node's output `[nodes, output_size]`, and a list of its new states, `[nodes, units]`
            each.
        """
        raise NotImplementedError(f"{type(self).__name__} must implement `call`.")

    def call_child(self, child: Sequence[Any], states: Sequence[Any]) -> list[tf.Tensor]:
        """Reads one child of each node, after the children before it.

        A cell that implements it gets its children in their order, one at a time, whatever their
        number: `call` gets the states after the last one. It may also take `training`, a bool, and
        `edges`, the features of the edge to the child, `[nodes, features]`.

        Args:
            child: The list of the child's states, `[nodes, units]` each.
            states: The states that the child before it left, `[nodes, units]` each; those of
                `states_before_children` at the first child.

        Returns:
            A list of the states that this child leaves, of the sizes in `state_size`.
        """
        raise NotImplementedError(f"{type(self).__name__} must implement `call_child`.")

    def states_before_children(self, inputs: Any) -> list[tf.Tensor]:
        """Returns the states before the first child, which `call_child` reads.

        They are those of `get_initial_state`, unless a subclass computes them from the node's own
        inputs. Inner nodes that read no inputs always begin with `get_initial_state`.

        Args:
            inputs: The inputs, `[nodes, features]`.
        """
        return self.get_initial_state(keras.ops.shape(inputs)[0])

    def call_leaf(self, inputs: Any, **kwargs: Any) -> tuple[tf.Tensor, list[tf.Tensor]]:
        """Computes leaves; by default as nodes whose children have initial states, or empty rows.

        A cell with `call_child` gets the states from `states_before_children`.

        Args:
            inputs: The inputs, `[nodes, features]`.
            **kwargs: `training`, if `call` or `states_before_children` takes it.

        Returns:
            The same as `call`.
        """
        if self.reads_in_order:
            training = kwargs.get("training", False)
            before = call_in_order(self, self.states_before_children, inputs, training=training)
            return self.call(inputs, before, **_taken(self, self.call, kwargs))
        if self.arity is None:
            # Looked up, so that `engine="compiled"` knows where the rows come from.
            empty = tf.RaggedTensor.from_row_splits(tf.zeros([0], tf.int32), [0, 0], validate=False)
            rows = tf.gather(empty, tf.zeros_like(inputs[:, 0], tf.int32))
            none = map_fn(lambda _: [state[0] for state in self.get_initial_state(1)], rows)
            if self.num_edge_features is not None:
                no_edge = tf.zeros([self.num_edge_features], self.compute_dtype)
                kwargs["edges"] = map_fn(lambda _: no_edge, rows)
            return self.call(inputs, none, **kwargs)
        size = keras.ops.shape(inputs)[0]
        if self.num_edge_features is not None:
            no_edges = tf.zeros([size, self.num_edge_features], self.compute_dtype)
            kwargs["edges"] = [no_edges] * self.arity
        return self.call(inputs, [self.get_initial_state(size)] * self.arity, **kwargs)

    def get_initial_state(self, batch_size: int | tf.Tensor | None = None) -> list[tf.Tensor]:
        """Returns the states of a missing child, or of roots whose states are not given.

        They are zeros, unless a subclass overrides this method.

        Args:
            batch_size: The number of tree nodes, an int or a 0-d tensor.

        Returns:
            A list of states, `[batch_size, units]` each.
        """
        shapes = [(batch_size, size) for size in self.state_sizes]
        return [keras.ops.zeros(shape, self.compute_dtype) for shape in shapes]

    @property
    def output_size(self) -> int:
        """The number of units of the output."""
        return self.state_sizes[0] if self._output_size is None else self._output_size

    @output_size.setter
    def output_size(self, units: int) -> None:
        self._output_size = units

    def __setattr__(self, name: str, value: Any) -> None:
        """Sets an attribute; `output_size` even if it already reads the same, which Keras skips."""
        super().__setattr__("_output_size" if name == "output_size" else name, value)

    @property
    def has_separate_output(self) -> bool:
        """Whether the output is not the first state."""
        overridden = type(self).output_size is not RecursiveCell.output_size
        return overridden or self._output_size is not None

    @property
    def reads_in_order(self) -> bool:
        """Whether the cell reads its children one after the other, with `call_child`."""
        return type(self).call_child is not RecursiveCell.call_child

    @property
    def takes_edges(self) -> bool:
        """Whether the cell reads features of edges."""
        method = self.call_child if self.reads_in_order else self.call
        return "edges" in _names(self, method)

    @property
    def num_slots(self) -> Any:
        """The number of children that have separate weights; 1 where all share them."""
        return self.arity or 1

    @property
    def state_sizes(self) -> list[int]:
        """`state_size` as a list."""
        size = getattr(self, "state_size", None)
        if size is None:
            raise ValueError(
                f"{type(self).__name__} has no `state_size`. Set it, in the class or in __init__, "
                "to the number of units of the state, or to a list of them if there are several."
            )
        return [size] if isinstance(size, int) else list(size)

    def get_build_config(self) -> dict[str, Any] | None:
        """Returns the shapes that the cell was built for, as Keras saves them."""
        config = super().get_build_config()
        of_layer = {"num_edge_features": self.num_edge_features, "arity": self.arity}
        return config and {**config, **of_layer}

    def build_from_config(self, config: dict[str, Any]) -> None:
        """Builds the cell from the result of `get_build_config`."""
        self.num_edge_features = config.get("num_edge_features")
        self.arity = config.get("arity", self.arity)
        super().build_from_config(config)


def arguments(local: dict[str, Any], *own: str) -> dict[str, Any]:
    """The arguments of a constructor by name, from its `locals()`, those in `kwargs` among them.

    With `super().__init__(**arguments(locals()))`, as its first line, a constructor passes all its
    arguments on, without repeating the names in its signature.

    Args:
        local: The constructor's `locals()`.
        *own: The names of arguments that are not passed on.
    """
    without = {"self", "kwargs", "__class__", *own}
    return {**{name: local[name] for name in local if name not in without}, **local["kwargs"]}


def call_cell(
    cell: RecursiveCell, method: Callable[..., Any], *args: Any, training: bool, **options: Any
) -> list[tf.Tensor]:
    """Calls a cell for tree nodes; returns its states, after its output if that is not a state.

    Args:
        cell: Any cell.
        method: `cell.call`, `cell.call_leaf`, or `cell`, which casts weights and inputs first.
        *args: The arguments of the method.
        training: Passed to a cell whose `call` takes it.
        **options: Further arguments, each passed to a method that takes it by name.

    Raises:
        TraceError: If the results of the cell do not match its `state_size` and `output_size`, if
            it adds a loss, or reads inputs of inner nodes without `read_inner_inputs`.
    """
    named = cell.call if method is cell else method
    taken = _taken(cell, named, {"training": training, **options})
    with _refusing_losses(cell):
        with _explaining(cell, args):
            result = method(*args, **taken)
        output, states = _output_and_states(cell, result)
    results = [output, *states] if cell.has_separate_output else states
    _check_types(cell, named, results)
    return results


def call_in_order(
    cell: RecursiveCell, method: Callable[..., Any], *args: Any, training: bool, **options: Any
) -> list[tf.Tensor]:
    """Calls a method of a cell with `call_child` that returns states only; checks and returns them.

    Args:
        cell: Any cell.
        method: `cell.states_before_children` or `cell.call_child`.
        *args: The arguments of the method.
        training: Passed to a method that takes it.
        **options: Further arguments, each passed to a method that takes it by name.

    Raises:
        TraceError: If its results do not match the cell's `state_size`, or if it adds a loss.
    """
    taken = _taken(cell, method, {"training": training, **options})
    with _refusing_losses(cell):
        states = method(*args, **taken)
    if units_of(_as_list(states)) != cell.state_sizes:
        raise TraceError(
            f"`{method.__name__}` of {type(cell).__name__} must return a list of states of "
            f"{cell.state_sizes} units, as its `state_size` requires. Received {states!r}."
        )
    _check_types(cell, method, _as_list(states))
    return list(_as_list(states))


def _check_types(cell: RecursiveCell, method: Callable[..., Any], results: Sequence[Any]) -> None:
    """Raises a TraceError if results are not those of one node each, in the cell's dtype."""
    what = f"the result of `{method.__name__}` of {type(cell).__name__}"
    for found in token_types(results, what):
        if found.shape is None or len(found.shape) != 1 or found.dtype != cell.compute_dtype:
            raise TraceError(
                f"{what[0].upper()}{what[1:]} is {found} per node; expected [nodes, units] of "
                f"{cell.compute_dtype}, the dtype of the cell. Use tf.cast for another dtype, and "
                f"keep one row for each node. {_of_another_dtype(cell)}".rstrip()
            )


def units_of(values: Sequence[Any]) -> list[int | None]:
    """The sizes of the last axes of tensors; None for a value that has none, or an unknown one."""
    shapes = [tf.TensorShape(getattr(value, "shape", [])) for value in values]
    return [shape[-1] if shape.rank else None for shape in shapes]


def _as_list(states: Any) -> Sequence[Any]:
    return states if isinstance(states, list | tuple) else [states]


def _refusing_losses(cell: RecursiveCell) -> contextlib.AbstractContextManager[None]:
    """A context in which a cell is called; a TraceError if that adds a loss."""
    return without_losses(
        cell,
        f"{type(cell).__name__} adds a loss, by `add_loss` or by the `activity_regularizer` of a "
        "layer in it. A cell is called inside the recursion, and its losses cannot leave it. "
        "Compute the loss from the layer's outputs, as with `return_sequences=True`.",
    )


@contextlib.contextmanager
def _explaining(cell: RecursiveCell, args: Sequence[Any]) -> Iterator[None]:
    """A context in which a cell is called; explains errors about a None or about mixed dtypes."""
    try:
        yield
    except Exception as error:
        is_of_none = any(words in str(error) for words in _OF_NONE)
        fix = _of_another_dtype(cell) if cell.compute_dtype in str(error) else ""
        if args[0] is None and not cell.read_inner_inputs and is_of_none:
            fix = (
                "`inputs` is None at inner nodes unless read_inner_inputs=True. Give the cell this "
                "option if inner nodes have inputs, or compute only from the states."
            )
        if not fix:
            raise
        message = f"{type(cell).__name__}.call failed: {str(error).rstrip('.')}. {fix}"
        raise TraceError(message) from error


def _of_another_dtype(cell: RecursiveCell) -> str:
    """Advice if a layer in a cell computes in another dtype than the cell; otherwise ""."""
    own = cell.compute_dtype
    for layer in layers_in(cell):
        if layer.compute_dtype != own:
            return (
                f"The cell computes in {own}, and `{layer.name}` in it in {layer.compute_dtype}: "
                "make it with dtype=self.dtype_policy."
            )
    return ""


@contextlib.contextmanager
def without_losses(layer: keras.layers.Layer, message: str) -> Iterator[None]:
    """A context in which a layer is called; raises a TraceError if it adds a loss."""
    before = set(map(id, added_losses(layer)))
    yield
    if not before.issuperset(map(id, added_losses(layer))):
        raise TraceError(message)


def is_ready_made(cell: RecursiveCell) -> bool:
    """Whether a cell is one of this package, with Keras' own activations.

    Such a cell keeps rows apart, draws no random numbers, and computes the same in training and
    outside of it, since dropout comes from its layer. A user's own cell may do anything; so may the
    layers in it, which ask Keras whether they are in training.
    """
    names = ("activation", "recurrent_activation")
    activations = [getattr(cell, name) for name in names if hasattr(cell, name)]
    is_ready = type(cell).__module__.startswith(f"{__package__}.") and len(layers_in(cell)) == 1
    return is_ready and all(map(is_of_keras, activations))


def is_of_keras(activation: Callable[..., Any]) -> bool:
    """Whether an activation is one of `keras.activations`."""
    return getattr(keras.activations, getattr(activation, "__name__", ""), None) is activation


def check_methods(cell: RecursiveCell, layer_name: str, has_edges: bool) -> None:
    """Raises a ValueError if a method of a cell does not take what its layer passes to it."""
    passed = {"call": ["inputs", "states"], "get_initial_state": ["batch_size"]}
    if cell.reads_in_order:
        passed = {"call_child": ["child", "states"], "states_before_children": ["inputs"], **passed}
    if not cell.goes_down:
        passed["call_leaf"] = ["inputs"]
    for name, given in passed.items():
        reads_edges = name == "call_child" or (name == "call" and not cell.reads_in_order)
        named = ["slot"] * cell.goes_down + ["edges"] * (has_edges and reads_edges) + ["training"]
        method, what = getattr(cell, name), f"`{name}` of {type(cell).__name__}"
        signature = inspect.signature(method)
        try:
            signature.bind(*given, **_taken(cell, method, dict.fromkeys(named)))
        except TypeError as error:
            if reads_edges and not has_edges and "'edges'" in str(error):
                raise ValueError(
                    f"{layer_name} got no `edges`, but its cell reads them: {what} has an argument "
                    "`edges`. Call layer(x, children, edges=edges), or give the argument the "
                    "default None if the cell can do without them."
                ) from error
            fix = ""
            if name == "call_child" and "inputs" in signature.parameters:
                fix = " Put what it reads of `inputs` into `states_before_children`."
            elif "edges" in signature.parameters and not reads_edges:
                fix = " Read `edges` in `call_child`."
            raise ValueError(
                f"{what} gets {', '.join(given)} by position, and {', '.join(named)} by name if it "
                f"has such arguments. Its arguments are {signature}: {error}.{fix}"
            ) from error


def check_initial_state(cell: RecursiveCell) -> None:
    """Raises a ValueError if `get_initial_state` of a cell does not return its states."""
    with tf.init_scope():
        states = cell.get_initial_state(2)
    types = [(getattr(of, "shape", None), getattr(of, "dtype", None)) for of in _as_list(states)]
    if types != [((2, size), cell.compute_dtype) for size in cell.state_sizes]:
        expected = ", ".join(f"[batch_size, {size}]" for size in cell.state_sizes)
        raise ValueError(
            f"`get_initial_state` of {type(cell).__name__} must return a list of states, as its "
            f"`state_size` and dtype require: {expected} of {cell.compute_dtype}. With "
            f"batch_size=2 it returned {states!r}."
        )


def _taken(
    cell: RecursiveCell, method: Callable[..., Any], options: dict[str, Any]
) -> dict[str, Any]:
    """Those of some options that a method takes by name."""
    names = _names(cell, method)
    return {name: value for name, value in options.items() if name in names}


def _names(cell: RecursiveCell, method: Callable[..., Any]) -> set[str]:
    """The names of a method's arguments, with those that its `**kwargs` pass on.

    They go to the same method of a base class; `call_leaf` of the last one calls other methods.
    """
    bases = [vars(base) for base in type(cell).__mro__]
    inherited = [members[method.__name__] for members in bases if method.__name__ in members]
    names: set[str] = set()
    for each in [method, *inherited]:
        parameters = inspect.signature(each).parameters
        names |= set(parameters)
        if all(parameter.kind is not parameter.VAR_KEYWORD for parameter in parameters.values()):
            return names
    return names | _names(cell, cell.call) | _names(cell, cell.states_before_children)


def _output_and_states(cell: RecursiveCell, result: Any) -> tuple[Any, list[Any]]:
    """The checked results of `call` or `call_leaf`."""
    name, sizes = type(cell).__name__, cell.state_sizes
    # Not `states[0], states`, since in `call` the argument `states` has those of the children.
    right = f"hidden, [hidden{', ...' * (len(sizes) > 1)}]"
    is_pair = isinstance(result, tuple | list) and len(result) == 2
    output, states = result if is_pair else (None, None)
    states = list(_as_list(states))
    units = units_of([output, *states])
    if units != [cell.output_size, *sizes]:
        got = f"units {units[0]} and {units[1:]}" if is_pair else repr(result)
        raise TraceError(
            f"`call` and `call_leaf` of {name} must return an output of {cell.output_size} units "
            f"and a list of states of {sizes} units, as its `output_size` and `state_size` "
            f"require: `return output, states`. Received {got}."
        )
    if not cell.has_separate_output and output is not states[0]:
        raise TraceError(
            f"The output of {name} is not its first state. Compute it once, and return it as "
            f"both output and state: `hidden = ...; return {right}`. For another output, set "
            "`self.output_size` in `__init__`."
        )
    return output, states
