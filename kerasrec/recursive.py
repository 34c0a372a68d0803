"""`@kerasrec.recursive`: a Python function that calls itself, as one static graph.

`_pipeline` takes a function through the compiler; docs/compiler.md follows one.
"""

from __future__ import annotations

import copy
import functools
import inspect
import operator
import sys
import warnings
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, overload

import keras
import numpy as np
import tensorflow as tf

from kerasrec.engine import check_passes
from kerasrec.engine.choice import ENGINES, Engine
from kerasrec.engine.limits import Limits, memory_of_machine
from kerasrec.engine.lower import Program, lower
from kerasrec.engine.marks import marked
from kerasrec.errors import SentenceFirst, SignatureError, TraceError
from kerasrec.graph.graph import FunctionGraphs, TaggedGraph
from kerasrec.graph.types import Kind, Type
from kerasrec.inspect.record import Recorder
from kerasrec.inspect.run_trace import RunTrace
from kerasrec.trace.autograph import not_converted
from kerasrec.trace.private import in_stateless_scope, outer_graph
from kerasrec.trace.program import trace
from kerasrec.trace.ragged import call, entries_of
from kerasrec.trace.signature import Signature, check_shapes, signature_of
from kerasrec.trace.source import UsersFrames, current_source, name_of
from kerasrec.trace.tracer import active_tracer, is_inside_traced_graph
from kerasrec.transform.connected import output_result, table_result
from kerasrec.transform.extend import extend
from kerasrec.transform.tag import tag

MAX_DEPTH = 200_000
MAX_WIDTH = 1 << 23
# The same numbers as for the warning of tf.function.
_WATCHED_CALLS = 10
_MANY_NEW = 5
# Flat outputs, tables by name, and marks by result.
_Results = tuple[tuple[tf.Tensor, ...], dict[str, tf.Tensor], dict[str, tf.Tensor]]
_NUMBERS_AND_STRINGS = (int, float, complex, str, bytes, np.generic)


@dataclass
class _Compiled:
    """All stages of a function under one signature."""

    graphs: FunctionGraphs
    tagged: TaggedGraph
    extended: TaggedGraph
    program: Program
    returns: Any
    specs: Sequence[tf.TensorSpec]
    run: Any
    recorder: Recorder
    has_checked_passes: bool = False

    @functools.cached_property
    def run_in_session(self) -> Any:
        """`run` by waves, for graphs of TensorFlow 1.

        In these, version 2.21 mixes up the frames of nested loops around a function that XLA
        compiles.
        """
        return _runner(lower(self.extended, self.program.limits, "waves"), self.specs)

    @functools.cached_property
    def run_one(self) -> Any:
        """`run` for one token, with tensors that have no token axis."""
        specs = [tf.TensorSpec(spec.shape[1:], spec.dtype, spec.name) for spec in self.specs]
        one = functools.partial(_run_one, self.run)
        return tf.function(one, input_signature=specs, autograph=False)


@dataclass
class _Arguments:
    """What a function is called with from outside.

    Args:
        tensors: flat, with a token axis unless `is_scalar`.
        is_scalar: whether all came without one.
        rows: a RaggedTensor whose entries the tokens are, if any was given.
        signature: of the tensors.
    """

    tensors: list[tf.Tensor]
    is_scalar: bool
    rows: tf.RaggedTensor | None
    signature: Signature

    def tokens(self) -> list[tf.Tensor]:
        """The tensors with a token axis."""
        return _as_token(self.tensors) if self.is_scalar else self.tensors


@keras.saving.register_keras_serializable("kerasrec")
class RecursiveFunction:
    """What `@kerasrec.recursive` makes of a Python function.

    Calling it from outside starts the recursion, for one token or many:

    * Every argument and every value has a leading token axis, `[tokens, ...]`, as seen by the
      Python function. Arguments from outside have it too; a Python number or a 0-d tensor is one
      token, and is repeated where other arguments have more.
    * If all arguments are 0-d, so is the result.
    * Entries of `tf.RaggedTensor`s `[rows, (k), ...]` are tokens, and other arguments are repeated
      for each entry of their row; so the result is ragged, with the same row splits.

    It is compiled once for each signature (dtypes, shapes without the token axis, structure), and
    differentiable in its arguments and in all tensors and variables it closes over. Each signature
    takes some megabytes until `clear_cache` forgets it.

    Copies work as for Python functions: `copy.copy` and `copy.deepcopy` return the function itself,
    or for a method, that of the copied object. `pickle` stores its name; cloudpickle also takes
    functions that have no name in an imported module. Compiled signatures are not copied.
    """

    def __init__(
        self,
        python_function: Callable[..., Any],
        returns: Any = None,
        max_depth: int = MAX_DEPTH,
        max_width: int = MAX_WIDTH,
        max_memory: int | None = None,
        engine: Engine = "auto",
        parallel_tokens: int | None = None,
        recompute: bool = False,
    ):
        if not callable(python_function):
            raise TraceError(
                f"@kerasrec.recursive was given {python_function!r}, which is not a function. Put "
                "it directly above the function, below @staticmethod or @classmethod."
            )
        if engine not in ENGINES:
            raise TraceError(f"engine is {engine!r}; it must be one of {', '.join(ENGINES)}.")
        if parallel_tokens is not None and parallel_tokens < 1:
            raise TraceError(
                f"parallel_tokens is {parallel_tokens}; it must be at least 1, or None for all."
            )
        functools.update_wrapper(self, python_function)
        self.python_function = python_function
        self.name = name_of(python_function)
        self.returns = returns
        self.max_depth = max_depth
        self.max_width = max_width
        self.max_memory = memory_of_machine() if max_memory is None else max_memory
        self.engine = engine
        self.parallel_tokens = parallel_tokens
        self.recompute = recompute
        self.python_signature = inspect.signature(python_function)
        # keras.layers.Lambda uses `inspect`, which takes objects with `__get__` for builtins.
        self.__signature__ = self.python_signature
        self._keywords = [
            parameter.name
            for parameter in self.python_signature.parameters.values()
            if parameter.kind is parameter.KEYWORD_ONLY
        ]
        self._decorated: RecursiveFunction | None = None
        self._compiled: dict[tuple[Any, ...], _Compiled] = {}
        self._were_new: deque[bool] = deque(maxlen=_WATCHED_CALLS)
        self._has_warned = False

    def __get__(self, instance: Any, owner: type | None = None) -> RecursiveFunction:
        """Bound method, cached per instance or class, with its own compilation cache."""
        if instance is None:
            return self
        methods = _Methods.of(instance).by_function
        if self not in methods:
            method = self._with(self.python_function.__get__(instance, owner))
            method._decorated = self
            methods[self] = method
        return methods[self]

    def __repr__(self) -> str:
        return f"<RecursiveFunction {self.name}{self.python_signature}>"

    def __copy__(self) -> RecursiveFunction:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> RecursiveFunction:
        if self._decorated is not None:
            return self._decorated.__get__(copy.deepcopy(self._instance, memo))
        python_function = copy.deepcopy(self.python_function, memo)
        if python_function is self.python_function:
            return self
        # The object of a method may hold this function; it has been copied by now.
        return memo.setdefault(id(self), self._with(python_function))

    def __reduce_ex__(self, protocol: Any) -> Any:
        """By name, if other processes can import it; otherwise by its parts."""
        if self._decorated is not None:
            return RecursiveFunction.__get__, (self._decorated, self._instance)
        name = self._importable_name()
        return super().__reduce_ex__(protocol) if name is None else name

    def get_config(self) -> dict[str, str]:
        """How Keras saves it, in a `keras.layers.Lambda`: by the name it is registered under.

        Raises:
            ValueError: if it is not registered.
        """
        name = keras.saving.get_registered_name(self)
        if keras.saving.get_registered_object(name) is not self:
            raise ValueError(
                f"Keras can save {self.name} only by a registered name. Put "
                '@keras.saving.register_keras_serializable("your_package") above '
                "@kerasrec.recursive."
            )
        return {"function": name}

    @classmethod
    def from_config(cls, config: dict[str, str]) -> RecursiveFunction:
        """The function that is registered under a name.

        Raises:
            ValueError: if there is none.
        """
        function = keras.saving.get_registered_object(config["function"])
        if not isinstance(function, RecursiveFunction):
            raise ValueError(
                f"No recursive function is registered as {config['function']!r}. Import the module "
                "that defines it before the model is loaded."
            )
        return function

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_compiled": {}}

    @not_converted
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Calls the function: from outside for all tokens, or inside another recursion."""
        tracer = active_tracer()
        if tracer is not None:
            return call(tracer, self, self.bind(args, kwargs))
        return self.with_tables(*args, **kwargs)[0]

    @not_converted
    def with_tables(self, *args: Any, **kwargs: Any) -> tuple[Any, dict[str, tf.Tensor]]:
        """Calls the function from outside; also returns the tables of `kerasrec.collect`.

        Returns:
            The result, and a dict of tables `[size, ...]` by name.
        """
        given = self._arguments(args, kwargs)
        with SentenceFirst():
            return self._run(given)

    def _run(self, given: _Arguments) -> tuple[Any, dict[str, tf.Tensor]]:
        compiled = self._compile(given.signature)
        if check_passes.IS_ON and tf.executing_eagerly() and not compiled.has_checked_passes:
            compiled.has_checked_passes = True
            limits, tokens = compiled.program.limits, given.tokens()
            check_passes.check_passes(compiled.tagged, compiled.extended, tokens, limits)
        is_session = not tf.compat.v1.executing_eagerly_outside_functions()
        run = compiled.run_in_session if is_session else compiled.run
        if not given.is_scalar:
            outputs, tables, marks = run(*given.tensors)
            if not tf.executing_eagerly():
                for tensor in outputs:  # A loop around the call may need the static size.
                    tensor.set_shape([given.tensors[0].shape[0], *tensor.shape[1:]])
        elif tf.executing_eagerly():
            outputs, tables, marks = compiled.run_one(*given.tensors)
        else:
            outputs, tables, marks = _run_one(run, *given.tensors)
        if marks and not is_session:
            outputs = [
                marked(tensor, marks.get(output_result(place)))
                for place, tensor in enumerate(outputs)
            ]
            tables = {
                name: marked(table, marks.get(table_result(name))) for name, table in tables.items()
            }
        if given.rows is not None:
            outputs = [given.rows.with_values(tensor) for tensor in outputs]
        return tf.nest.pack_sequence_as(compiled.returns, list(outputs)), tables

    @not_converted
    def function_graphs(self, *args: Any, **kwargs: Any) -> FunctionGraphs:
        """The graph of each function, before tagging; it can be printed and drawn."""
        return self._compile(self._arguments(args, kwargs).signature).graphs

    @not_converted
    def tagged_graph(self, *args: Any, **kwargs: Any) -> TaggedGraph:
        """The static tagged graph of the program; it can be printed and drawn."""
        return self._compile(self._arguments(args, kwargs).signature).tagged

    @not_converted
    def extended_graph(self, *args: Any, **kwargs: Any) -> TaggedGraph:
        """The tagged graph with its gradient; it can be printed and drawn."""
        return self._compile(self._arguments(args, kwargs).signature).extended

    @not_converted
    def execution_plan(self, *args: Any, **kwargs: Any) -> str:
        """Which engine runs the program and why, and when waves run each node, as text."""
        return str(self._compile(self._arguments(args, kwargs).signature).program)

    @not_converted
    def run_trace(self, *args: Any, **kwargs: Any) -> RunTrace:
        """Runs the function forward on these arguments and returns a record of the run.

        The record prints as a table: which nodes fired with how many tokens, wave by wave. The run
        is always by waves without a bound, whatever `engine` and `parallel_tokens` say.
        """
        if not tf.executing_eagerly():
            raise TraceError(
                f"{self.name}.run_trace(...) is called while a graph is being built, where nothing "
                "runs yet. Call it outside of tf.function and of recursive functions."
            )
        given = self._arguments(args, kwargs)
        return self._compile(given.signature).recorder.record(given.tokens())

    def clear_cache(self) -> None:
        """Forgets all signatures; the next call compiles again.

        Their memory is freed once Python has collected the garbage (`gc.collect()`) and no tape or
        `tf.function` that called them is left. With the engine "scalar" some of it has been seen to
        stay until the process ends, about 4 MB per signature with TensorFlow 2.21 on a CPU;
        probably what XLA compiled.
        """
        self._compiled.clear()
        self._were_new.clear()

    @property
    def num_traces(self) -> int:
        """How many engines TensorFlow has traced for the signatures that are kept.

        Usually one for each signature that was called; after `clear_cache` it is 0 again.
        """
        return sum(
            compiled.run.experimental_get_tracing_count() for compiled in self._compiled.values()
        )

    def bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
        """Arguments by position, keyword-only ones last, defaults filled in."""
        try:
            bound = self.python_signature.bind(*args, **kwargs)
        except TypeError as error:
            source = current_source()
            raise SignatureError(
                f"A call of {self.name}{self.python_signature} does not fit: "
                f"{error}.{f' At {source.where}.' if source else ''}"
            ) from error
        bound.apply_defaults()
        others = [name for name in bound.kwargs if name not in self._keywords]
        if others:
            raise SignatureError(
                f"{self.name} takes any keyword (**) and was given {', '.join(others)}, but the "
                "arguments of a recursive function need names in its signature. Name them there, "
                "or pass a dict."
            )
        given = (*bound.args, *(bound.kwargs[name] for name in self._keywords))
        if given and not tf.nest.flatten(given):
            raise SignatureError(
                f"{self.name} was called with nothing but empty lists, which have no dtype. For no "
                "tokens pass an empty array, such as np.zeros([0], np.int32)."
            )
        if not given:
            raise SignatureError(
                f"{self.name} was called without arguments. A recursive function needs at "
                "least one: its tokens are the rows of its arguments."
            )
        return given

    def run_python(self, args: tuple[Any, ...]) -> Any:
        """Calls the Python function with arguments as `bind` returns them."""
        count = len(args) - len(self._keywords)
        keywords = dict(zip(self._keywords, args[count:], strict=True))
        return self.python_function(*args[:count], **keywords)

    def _compile(self, signature: Signature) -> _Compiled:
        """All stages for a signature, not cached inside a stateless scope."""
        replica = tf.distribute.get_replica_context() if tf.distribute.has_strategy() else None
        number = replica.replica_id_in_sync_group if replica else None
        key = (str(signature.structure), signature.types, str(number))
        is_known = key in self._compiled
        if is_known and _is_within_reach(self._compiled[key].tagged):
            self._were_new.append(False)
            return self._compiled[key]
        with UsersFrames():
            compiled = self._pipeline(signature)
        if not in_stateless_scope():
            self._compiled[key] = compiled
            self._were_new.append(not is_known)
            self._warn_of_many(signature)
        return compiled

    def _warn_of_many(self, signature: Signature) -> None:
        """Warns once, as `tf.function` does, if many calls compile: that takes time and memory."""
        if self._has_warned or sum(self._were_new) < _MANY_NEW:
            return
        source = current_source()
        if source is None:
            return
        self._has_warned = True
        message = (
            f"{sum(self._were_new)} of the last {len(self._were_new)} calls of {self.name} "
            f"compiled it again, the last one for ({signature}). Each dtype, each shape without "
            f"the token axis and each structure of the arguments is a signature; {self.name} has "
            f"{len(self._compiled)} by now and keeps some megabytes for each. Cast arguments to "
            "one dtype and pad them to one shape, or pass rows of any length as tf.RaggedTensor. "
            f"{self.name}.clear_cache() forgets all signatures."
        )
        warnings.warn_explicit(message, UserWarning, source.file, source.line)

    @property
    def _instance(self) -> Any:
        """The object whose method this is."""
        return self.python_function.__self__  # type: ignore[attr-defined]

    def _with(self, python_function: Callable[..., Any]) -> RecursiveFunction:
        """The same options for another Python function."""
        return RecursiveFunction(
            python_function,
            self.returns,
            self.max_depth,
            self.max_width,
            self.max_memory,
            self.engine,
            self.parallel_tokens,
            self.recompute,
        )

    def _importable_name(self) -> str | None:
        """The name under which an imported module has this function; None if none has."""
        module, name = (vars(self).get(key) for key in ("__module__", "__qualname__"))
        if name is None or module == "__main__" or module not in sys.modules:
            return None
        try:
            found = operator.attrgetter(name)(sys.modules[module])
        except AttributeError:
            return None
        return name if found is self else None

    def _pipeline(self, signature: Signature) -> _Compiled:
        """Takes a function through all stages; each returns a value that can be printed."""
        traced = trace(self, signature)
        tagged = tag(traced.graphs)
        extended = extend(tagged)
        limits = Limits(self.name, self.max_depth, self.max_width, self.max_memory)
        program = lower(extended, limits, self.engine, self.parallel_tokens, self.recompute)
        specs = _specs(signature)
        run, recorder = _runner(program, specs), Recorder(program, specs)
        return _Compiled(
            traced.graphs, tagged, extended, program, traced.returns, specs, run, recorder
        )

    def _arguments(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> _Arguments:
        if is_inside_traced_graph():
            raise TraceError(
                f"{self.name} is called in the body of tf.cond, tf.while_loop, tf.map_fn or a "
                "tf.function, inside a recursive function. Choose between branches with "
                "kerasrec.cond or kerasrec.switch and call it there."
            )
        if tf.config.functions_run_eagerly():
            raise TraceError(
                f"{self.name} cannot run under tf.config.run_functions_eagerly(True): a recursive "
                "function runs in a graph. Turn it off; model.compile(run_eagerly=True) runs the "
                "rest of a model eagerly. tf.print and run_trace show what a recursion does."
            )
        bound = tuple(_array_like(item) for item in self.bind(args, kwargs))
        tensors, rows = entries_of(
            self.name, [self._tensor(item) for item in tf.nest.flatten(bound)]
        )
        for tensor in tensors:
            if tensor.shape.rank is None:
                raise SignatureError(
                    f"An argument of {self.name} has an unknown rank; set its shape "
                    "(tf.ensure_shape)."
                )
        is_scalar = all(tensor.shape.rank == 0 for tensor in tensors)
        if is_scalar:
            types = [Type(tensor.dtype, ()) for tensor in tensors]
        else:
            tensors = self._same_tokens(tensors)
            types = [Type.of(tensor, Kind.TOKEN) for tensor in tensors]
        signature = signature_of(self, bound, types)
        check_shapes(self.name, signature.names, types)
        return _Arguments(tensors, is_scalar, rows, signature)

    def _tensor(self, value: Any) -> tf.Tensor | tf.RaggedTensor:
        if isinstance(value, tf.RaggedTensor):
            return value
        try:
            return tf.convert_to_tensor(value)
        except (TypeError, ValueError) as error:
            raise SignatureError(
                f"{self.name} was given {value!r}, which cannot be converted to a tensor: {error}."
            ) from error

    def _same_tokens(self, tensors: list[tf.Tensor]) -> list[tf.Tensor]:
        """Gives every tensor the same token axis; 0-d tensors are repeated."""
        with_axis = [tensor for tensor in tensors if tensor.shape.rank]
        sizes = {tensor.shape[0] for tensor in with_axis}
        if len(sizes - {None}) > 1:
            shapes = ", ".join(str(tensor.shape) for tensor in tensors)
            raise SignatureError(
                f"Arguments of {self.name} have different numbers of tokens, shapes {shapes}. "
                "The first axis of every argument is the token axis: its size must be equal in all "
                "arguments that are not 0-d."
            )
        count = tf.shape(with_axis[0])[0] if None in sizes else max(sizes)
        for tensor in with_axis[1:] if None in sizes else ():
            tf.debugging.assert_equal(
                tf.shape(tensor)[0],
                count,
                f"Arguments of {self.name} have different numbers of tokens; the first axis of "
                "every argument is the token axis, and its size must be equal.",
            )
        return [tensor if tensor.shape.rank else tf.fill([count], tensor) for tensor in tensors]


class _Methods:
    """The recursive methods of one object, kept in its attributes so that they live as long.

    Args:
        instance: the object, or a class; None in copies, which a copied object does not use.
    """

    def __init__(self, instance: Any = None):
        self.instance = instance
        self.by_function: dict[RecursiveFunction, RecursiveFunction] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return _Methods, ()

    @classmethod
    def of(cls, instance: Any) -> _Methods:
        """The methods of an object; never those of what it was copied from, or of a base class."""
        name = "_recursive_methods"
        methods = vars(instance).get(name)
        if methods is None or methods.instance is not instance:
            methods = cls(instance)
            if isinstance(instance, type):
                setattr(instance, name, methods)
            else:
                vars(instance)[name] = methods  # Not by __setattr__, which Keras tracks.
        return methods


@overload
def recursive(function: Callable[..., Any]) -> RecursiveFunction: ...


@overload
def recursive(
    *,
    returns: Any = ...,
    max_depth: int = ...,
    max_width: int = ...,
    max_memory: int | None = ...,
    engine: Engine = ...,
    parallel_tokens: int | None = ...,
    recompute: bool = ...,
) -> Callable[[Callable[..., Any]], RecursiveFunction]: ...


def recursive(
    function: Callable[..., Any] | None = None,
    *,
    returns: Any = None,
    max_depth: int = MAX_DEPTH,
    max_width: int = MAX_WIDTH,
    max_memory: int | None = None,
    engine: Engine = "auto",
    parallel_tokens: int | None = None,
    recompute: bool = False,
) -> RecursiveFunction | Callable[[Callable[..., Any]], RecursiveFunction]:
    """Makes a Python function that calls itself, directly or through others, run in a graph.

    The function is traced once into a static tagged dataflow graph (Kostopoulou et al.; its
    gradient: Vasilakopoulos 2024) and run in batches of all tokens that are ready.

    ```python
    @kerasrec.recursive
    def fib(n):
        return kerasrec.cond(n < 2, lambda: n, lambda: fib(n - 1) + fib(n - 2))

    fib(10)             # 55
    fib([6, 7, 8, 7])   # [8, 13, 21, 13]
    ```

    For any number of children, call it with a `tf.RaggedTensor`, a row of entries for each token:
    one call is made for each entry, and the result is ragged, too (see `kerasrec.map_fn`).
    Rows without entries may end the recursion.

    Args:
        function: the function to decorate. It sees a leading token axis on every argument, chooses
          with `kerasrec.cond` or `kerasrec.switch`, and may use any TensorFlow op or Keras layer
          that treats its first axis as a batch axis.
        returns: a nest of `tf.TensorSpec` without the token axis, needed only if what the function
          returns cannot be inferred from its branches without calls. That is so if it returns a
          nest and only rows without entries end the recursion.
        max_depth: how many calls may be nested before the run stops with an error.
        max_width: how many tokens may be called at once before the run stops with an error.
        max_memory: how many bytes of values a run may keep, for later parts of it and for its
          gradient, before it stops with an error; by default as many as the machine has.
        engine: "waves" batches all tokens that are ready; "scalar" runs one after the other in a
          loop that XLA compiles, and takes programs of plain numbers only. "auto" takes "scalar"
          for these and "waves" for all others. Results are the same; `execution_plan` says which
          engine runs and why. Where very many tokens run at once, "waves" may be faster.
          Derivatives of a gradient run the function again, by waves.
        parallel_tokens: how many tokens may run at once; None for all that are ready. Memory of
          the forward run then grows with the depth of the recursion times this bound, and not with
          the number of calls. Results are the same. A gradient still reads values of all calls:
          if it is asked for, the program runs again, unbounded, and keeps them.
        recompute: whether a gradient computes the values inside a call again, from what the call's
          own calls returned, instead of keeping them. That takes less memory and more time;
          gradients are the same. Random numbers are kept. No effect in the engine "scalar".

    Returns:
        A `RecursiveFunction`, or a decorator if `function` is not given.
    """
    options: dict[str, Any] = {
        "returns": returns,
        "max_depth": max_depth,
        "max_width": max_width,
        "max_memory": max_memory,
        "engine": engine,
        "parallel_tokens": parallel_tokens,
        "recompute": recompute,
    }
    if function is None:
        return lambda decorated: RecursiveFunction(decorated, **options)
    return RecursiveFunction(function, **options)


def _array_like(value: Any) -> Any:
    """A list of numbers or strings is one tensor; other lists and tuples are nests of arguments."""
    if isinstance(value, list) and all(
        isinstance(item, int | float | complex | str | bytes | np.generic)
        for item in tf.nest.flatten(value)
    ):
        return tf.convert_to_tensor(value) if value else value
    if isinstance(value, dict):
        return {key: _array_like(item) for key, item in value.items()}
    if type(value) in (list, tuple):
        return type(value)(_array_like(item) for item in value)
    return value


def _is_within_reach(graph: TaggedGraph) -> bool:
    """Whether the tensors that a program closes over can be read in the graph being built."""
    reach = {None}
    building = None if tf.executing_eagerly() else tf.compat.v1.get_default_graph()
    while building is not None:
        reach.add(building)
        building = outer_graph(building)
    tensors = [node.attributes.get("tensor") for node in graph.shared if node.op == "SHARED"]
    return all(
        not tf.is_symbolic_tensor(tensor) or tensor.graph in reach
        for tensor in tensors
        if tensor is not None
    )


def _specs(signature: Signature) -> list[tf.TensorSpec]:
    """Specs of the flat arguments, token axis included."""
    return [
        item.tensor_spec(f"{name}_{place}")
        for place, (name, item) in enumerate(zip(signature.names, signature.types, strict=True))
    ]


def _as_token(tensors: Sequence[tf.Tensor]) -> list[tf.Tensor]:
    return [tf.expand_dims(tensor, 0) for tensor in tensors]


def _run_one(run: Any, *tensors: tf.Tensor) -> _Results:
    """A run of one token, whose tensors have no token axis."""
    outputs, tables, marks = run(*_as_token(tensors))
    return tuple(tf.squeeze(tensor, 0) for tensor in outputs), tables, marks


def _runner(program: Program, specs: Sequence[tf.TensorSpec]) -> Any:
    def run(*arguments: tf.Tensor) -> _Results:
        outcome, marks = program.run(arguments)
        return tuple(outcome.outputs), outcome.tables, marks

    # TensorFlow warns of many traces of one Python function; partials are counted separately.
    return tf.function(functools.partial(run), input_signature=specs, autograph=False)
