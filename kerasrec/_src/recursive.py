"""`@kerasrec.recursive`: a Python function that calls itself, as one static graph.

`compile.py` takes a function through the compiler; `function/` has the parts of a call around that.
"""

from __future__ import annotations

import copy
import dataclasses
import functools
import inspect
import operator
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ParamSpec, Protocol, overload

import keras
import tensorflow as tf

from kerasrec._src.autograph import not_converted
from kerasrec._src.compile import compile_function
from kerasrec._src.engine.choice import ExecutionPlan
from kerasrec._src.errors import SentenceFirst, TraceError
from kerasrec._src.function.arguments import Arguments, arguments_of, bind, keyword_only
from kerasrec._src.function.cache import Cache
from kerasrec._src.function.concrete_function import ConcreteFunction
from kerasrec._src.function.tables import TableRuns
from kerasrec._src.graph.graph import FunctionGraphs, TaggedGraph
from kerasrec._src.inspect.intensional import IntensionalProgram, intensional_program
from kerasrec._src.inspect.run_trace import RunTrace
from kerasrec._src.options import Options
from kerasrec._src.trace.ragged import call
from kerasrec._src.trace.signature import Signature
from kerasrec._src.trace.source import is_written_in_python, name_of
from kerasrec._src.trace.tracer import active_tracer

_Options = ParamSpec("_Options")
# Two threads that ask for a new method at once get the same one.
_LOCK = threading.RLock()


@keras.saving.register_keras_serializable("kerasrec")
@dataclass(eq=False, repr=False)
class RecursiveFunction(Options):
    """The result of applying `@kerasrec.recursive` to a Python function.

    Calling it from outside starts the recursion, for one token or many:

    * In the Python function, every argument and every value has a leading token axis,
      `[tokens, ...]`. Arguments from outside also have it. A Python number or a 0-d tensor is one
      token, which is repeated where other arguments have more.
    * If all arguments are 0-d, or the function has none, the result is 0-d.
    * Entries of `tf.RaggedTensor`s `[rows, (k), ...]` are tokens, and other arguments are repeated
      for each entry of their row. The result is then ragged, with the same row splits.

    The function is compiled once for each signature (the dtypes, the shapes without the token axis,
    the structure, and the functions among the arguments, which it keeps). It is differentiable in
    its arguments and in all tensors and variables that it closes over. Each signature takes some
    megabytes until `clear_cache` forgets it.

    Copies work as for Python functions: `copy.copy` and `copy.deepcopy` return the function itself;
    for a method, they return the method of the copied object. `pickle` stores the function's name;
    cloudpickle also takes functions that have no name in an imported module. Compiled signatures
    are not copied.
    """

    python_function: Callable[..., Any]

    def __post_init__(self) -> None:
        function = self.python_function
        if not is_written_in_python(function):
            raise TraceError(
                f"@kerasrec.recursive was given {function!r}, which is not a Python function "
                f"(`def` or `lambda`). {_how_to_decorate(function)}"
            )
        super().__post_init__()
        options = dict(vars(self))
        functools.update_wrapper(self, function)
        vars(self).update(options)  # Attributes of the function do not take their place.
        self.name = name_of(function)
        self.python_signature = inspect.signature(function)
        # keras.layers.Lambda uses `inspect`, which takes objects with `__get__` for builtins.
        self.__signature__ = self.python_signature
        self._decorated: RecursiveFunction | None = None
        self._cache = Cache(self.name)
        self._table_runs = TableRuns()

    def __get__(self, instance: Any, owner: type | None = None) -> RecursiveFunction:
        """Bound method, cached per instance or class, with its own compilation cache."""
        if instance is None:
            return self
        with _LOCK:
            methods = _Methods.of(instance).by_function
            if self not in methods:
                method = self.with_function(self.python_function.__get__(instance, owner))
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
        return memo.setdefault(id(self), self.with_function(python_function))

    def __reduce_ex__(self, protocol: Any) -> Any:
        """By name, if other processes can import it; otherwise by its parts."""
        if self._decorated is not None:
            return RecursiveFunction.__get__, (self._decorated, self._instance)
        name = _importable_name(self)
        return super().__reduce_ex__(protocol) if name is None else name

    def get_config(self) -> dict[str, str]:
        """Returns a config that holds the name under which the function is registered.

        Keras saves it with a `keras.layers.Lambda`.

        Raises:
            ValueError: If the function is not registered.
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
        """Returns the function that is registered under a name.

        Raises:
            ValueError: If there is none.
        """
        function = keras.saving.get_registered_object(config["function"])
        if not isinstance(function, RecursiveFunction):
            raise ValueError(
                f"No recursive function is registered as {config['function']!r}. Import the module "
                "that defines it before the model is loaded."
            )
        return function

    @not_converted
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Calls the function for all tokens, from outside or inside another recursion."""
        tracer = active_tracer()
        if tracer is not None:
            return call(tracer, self, bind(self, args, kwargs))
        return self.with_collected(*args, **kwargs)[0]

    @not_converted
    def with_collected(self, *args: Any, **kwargs: Any) -> tuple[Any, dict[str, tf.Tensor]]:
        """Calls the function from outside; also returns the rows of `kerasrec.collect`.

        Returns:
            The result, and a dict from names to rows `[size, ...]`.
        """
        given = arguments_of(self, args, kwargs)
        with SentenceFirst():
            if given.tables and tf.executing_eagerly():
                return self._table_runs.run(given, self._run)
            return self._run(given)

    @not_converted
    def function_graphs(self, *args: Any, **kwargs: Any) -> FunctionGraphs:
        """Returns the graph of each function, before tagging, to print or draw."""
        return self._called_with(args, kwargs).graphs

    @not_converted
    def intensional_program(self, *args: Any, **kwargs: Any) -> IntensionalProgram:
        """Returns the function graphs as a text in which calls and parameters are operators."""
        return intensional_program(self.function_graphs(*args, **kwargs))

    @not_converted
    def tagged_graph(self, *args: Any, **kwargs: Any) -> TaggedGraph:
        """Returns the static tagged graph of the program, to print or draw."""
        return self._called_with(args, kwargs).tagged

    @not_converted
    def extended_graph(self, *args: Any, **kwargs: Any) -> TaggedGraph:
        """Returns the tagged graph with its gradient, to print or draw."""
        return self._called_with(args, kwargs).executable.graph

    @not_converted
    def execution_plan(self, *args: Any, **kwargs: Any) -> ExecutionPlan:
        """Returns which engine runs the program and why, and the nodes of each wave, to print."""
        return self._called_with(args, kwargs).executable.plan

    @not_converted
    def run_trace(self, *args: Any, **kwargs: Any) -> RunTrace:
        """Runs the function forward on these arguments and returns a record of the run.

        The record prints as a table that shows, wave by wave, which nodes fired with how many
        tokens. The run always uses unbounded waves, whatever the options are.
        """
        if not tf.executing_eagerly():
            raise TraceError(
                f"{self.name}.run_trace(...) is called while a graph is being built, where nothing "
                "runs yet. Call it outside of tf.function and of recursive functions."
            )
        given = arguments_of(self, args, kwargs)
        return self._under(given.signature).record(given)

    def clear_cache(self) -> None:
        """Forgets all signatures; the next call compiles again.

        Their memory is freed once Python has collected the garbage (`gc.collect()`) and no tape or
        `tf.function` that called them is left. With the engine "scalar", some of it was seen to
        stay until the process ended: about 4 MB per signature with TensorFlow 2.21 on a CPU,
        probably XLA's compiled programs.
        """
        self._cache.clear()
        self._table_runs.clear()

    @property
    def num_traces(self) -> int:
        """The number of engines that TensorFlow has traced for the signatures that are kept.

        Usually this is one for each signature that was called; after `clear_cache` it is 0 again.
        """
        return self._cache.num_traces

    @property
    def num_xla_sizes(self) -> int:
        """The number of sizes for which XLA has compiled the signatures that are kept.

        It counts the engine "compiled", except inside programs that XLA compiles as a whole. It is
        at most `max_xla_sizes` for each signature.
        """
        return self._cache.num_xla_sizes

    def run_python(self, args: tuple[Any, ...]) -> Any:
        """Calls the Python function with arguments by position, keyword-only ones last."""
        names = keyword_only(self)
        count = len(args) - len(names)
        return self.python_function(*args[:count], **dict(zip(names, args[count:], strict=True)))

    def _run(self, given: Arguments) -> tuple[Any, dict[str, tf.Tensor]]:
        return self._under(given.signature).run(given)

    def _under(self, signature: Signature) -> ConcreteFunction:
        return self._cache.get(signature, lambda key: compile_function(self, key, self))

    def _called_with(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> ConcreteFunction:
        return self._under(arguments_of(self, args, kwargs).signature)

    @property
    def _instance(self) -> Any:
        """The object that this is a method of."""
        return self.python_function.__self__  # type: ignore[attr-defined]

    @property
    def settings(self) -> tuple[Any, ...]:
        """The options of the decorator."""
        return tuple(vars(self.alone()).values())

    def with_function(self, python_function: Callable[..., Any]) -> RecursiveFunction:
        """The same options for another Python function."""
        return dataclasses.replace(self, python_function=python_function)


class _Methods:
    """The recursive methods of one object, kept in its attributes to live as long as the object.

    Args:
        instance: The object, or a class; None in copies, which a copied object does not use.
    """

    def __init__(self, instance: Any = None):
        self.instance = instance
        self.by_function: dict[RecursiveFunction, RecursiveFunction] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return _Methods, ()

    @classmethod
    def of(cls, instance: Any) -> _Methods:
        """Returns an object's own methods, not those of its original or of a base class."""
        name = "_recursive_methods"
        methods: _Methods | None = vars(instance).get(name)
        if methods is None or methods.instance is not instance:
            methods = cls(instance)
            if isinstance(instance, type):
                setattr(instance, name, methods)
            else:
                vars(instance)[name] = methods  # Not by __setattr__, which Keras tracks.
        return methods


def _importable_name(function: RecursiveFunction) -> str | None:
    """The name under which an imported module has a function; None if no module has it."""
    module, name = (vars(function).get(key) for key in ("__module__", "__qualname__"))
    if name is None or module == "__main__" or module not in sys.modules:
        return None
    try:
        found = operator.attrgetter(name)(sys.modules[module])
    except AttributeError:
        return None
    return name if found is function else None


def _how_to_decorate(given: Any) -> str:
    """How to decorate, if the decorator was given something other than a Python function."""
    if hasattr(given, "cache_info"):
        return "Leave out functools.cache: with memo=True, equal calls of a run are one call."
    if isinstance(given, staticmethod | classmethod):
        return "Put it directly above the function, below @staticmethod or @classmethod."
    return "Decorate a function that calls it."


class _Decorator(Protocol[_Options]):
    """A decorator that is used with options, in brackets, or without."""

    @overload
    def __call__(self, function: Callable[..., Any]) -> RecursiveFunction: ...

    @overload
    def __call__(
        self, *args: _Options.args, **options: _Options.kwargs
    ) -> Callable[[Callable[..., Any]], RecursiveFunction]: ...


def _with_keywords(
    options: Callable[_Options, Options],
) -> Callable[[Callable[..., Any]], _Decorator[_Options]]:
    """Gives a decorator the types and the defaults of its options, for type checkers and `help`."""

    def with_signature(decorator: Any) -> Any:
        signature = inspect.signature(decorator)
        function, _ = signature.parameters.values()
        keywords = inspect.signature(options).parameters.values()
        decorator.__signature__ = signature.replace(parameters=[function, *keywords])
        return decorator

    return with_signature


@_with_keywords(Options)
def recursive(  # noqa: D417
    function: Callable[..., Any] | None = None, **options: Any
) -> RecursiveFunction | Callable[[Callable[..., Any]], RecursiveFunction]:
    """Turns a Python function that calls itself, directly or through others, into a graph.

    The function is traced once into a static tagged dataflow graph (Kostopoulou et al.; for its
    gradient see Vasilakopoulos 2024), which runs all tokens that are ready as a batch.

    ```python
    @kerasrec.recursive
    def fib(n):
        return kerasrec.cond(n < 2, lambda: n, lambda: fib(n - 1) + fib(n - 2))

    fib(10)             # 55
    fib([6, 7, 8, 7])   # [8, 13, 21, 13]
    ```

    An argument with a default may be left out, and be None. Calls without it have a separate
    signature: the function is traced separately for them, and may ask `if y is None`.

    For any number of children, call the function with a `tf.RaggedTensor`, which has a row of
    entries for each token: one call is made for each entry, and the result is also ragged (see
    `kerasrec.map_fn`). Rows without entries may end the recursion.

    Args:
        function: The function to decorate. It sees a leading token axis on every argument, chooses
          with `kerasrec.cond` or `kerasrec.switch`, and may use any TensorFlow op or Keras layer
          that treats its first axis as a batch axis.
        returns: The types of the results, as a nest of `tf.TensorSpec` without the token axis. You
          need it only if they cannot be inferred from branches without calls: if the function
          returns a nest and only rows without entries end the recursion.
        memo: Whether equal calls are computed only once in a run (dynamic programming). Calls of
          one root token (an entry of the batch that is passed in) are equal if their scalar
          integers, bools and strings are equal. Nothing is remembered between runs. All other
          arguments, such as floats and vectors, must be passed on unchanged; a call reads the part
          that it needs by an integer, as in `tf.gather(x, i, batch_dims=1)`. Random numbers must
          not decide which calls are made, unless results of calls also decide it. A call that leads
          back to itself raises an error that lists the calls on the way. The gradient of a call is
          the sum over its callers. The program runs in "waves", or, if no call depends on another's
          result, in the engine "compiled"; "scalar" raises a `TraceError`. The option holds for
          every function that is called, whether or not that function has the option, and equal
          calls share their random numbers. With "batch" all root tokens share calls; then the
          arguments must not include floats or vectors.
        max_depth: The number of nested calls beyond which the run stops with an error. In the
          engine "scalar", calls with a result that is returned as it is (tail calls) do not nest
          and take no memory; a billion of them in a row raise an error.
        max_width: The number of tokens called at once beyond which the run stops with an error.
        max_memory: The number of bytes of values, kept for later parts of the run and for its
          gradient, beyond which the run stops with an error; by default the memory of the machine.
        engine: The way to run the program. "auto" chooses "scalar" for programs of plain numbers
          and "waves" for all others; `execution_plan` shows which and why. "waves" runs all ready
          tokens as one batch, and may be the fastest where very many are ready. "scalar" runs one
          token after the other, in a loop that XLA compiles. "compiled" runs tokens in blocks, in
          loops that XLA compiles: several times as fast where a body has several rounds of calls
          and few tokens are ready at once. Each compilation takes seconds, one for each new size,
          rounded up to a power of two. With "compiled", ragged rows must be rows of a table that
          all tokens share, as in `tf.gather(rows, node)`. Other ragged rows, rows within rows,
          assertions, prints, ops that the engine does not know and `parallel_tokens` raise a
          `TraceError`. A run that meets an error, a bound or a very long row, or makes more calls
          than `max_width` in all, runs again in "waves". A derivative of a gradient is a separate
          program, compiled for its sizes; if it has an op that the engine does not know, it runs in
          "waves". Results are the same up to rounding.
        parallel_tokens: The largest number of tokens that run at once; None for all that are ready.
          The memory of the forward run then grows with the depth of the recursion times this bound,
          and not with the number of calls. Results are the same. A gradient still reads values of
          all calls: to compute one, the program runs again, unbounded, and keeps them.
        max_xla_calls: The largest number of calls of a function that one call from outside leads
          to, including itself: an int, or an int32 scalar that is computed from shapes. It matters
          only inside `tf.function(jit_compile=True)`, or another program that XLA compiles as a
          whole. Room for calls cannot grow there, and nothing can raise an error: a run that makes
          more calls, or meets an error, returns NaN, or the largest integer. With None there is
          room for as many calls, of all tokens together, as there are rows in the largest table of
          integers that the function reads by rows. That is enough if no row is visited twice;
          without such a table, None raises a `TraceError` there.
        max_xla_row_length: The largest number of entries in a row of ragged rows that a function
          looks up inside such a program, in the form of `max_xla_calls`. With None there is room
          for a row of all entries of the table, which takes longer. If there is no room for a row
          of the table, the result is NaN, or the largest integer.
        max_xla_entries: The largest number of entries that the calls of one call from outside look
          up in all inside such a program, in the form of `max_xla_calls`. With None there is room
          for as many rows as calls, each of `max_xla_row_length`; if `max_xla_calls` is also None,
          for all entries of the table. Count a row even if a call looks it up only in a branch that
          it does not take.
        max_xla_sizes: The number of sizes for which XLA compiles a signature with
          engine="compiled"; all further sizes run in "waves". `num_xla_sizes` is the number of
          sizes that it has compiled. Sizes are the numbers of tokens, of rows of tables, and of
          calls, each rounded up to a power of two, and all other sizes of tensors that the function
          closes over.
        recompute: Whether a gradient computes the values inside a call again, from the results of
          the call's own calls, instead of keeping them. That takes less memory and more time;
          gradients are the same. Random numbers are kept. In the engine "compiled", nothing is kept
          and everything is computed again. The option has no effect in the engine "scalar".
        devices: Names of devices or tasks, such as `["/GPU:0", "/GPU:1"]`. Each of them computes an
          equal part of each wave (Vasilakopoulos 2024, section 7.1, proposes an instance of every
          body on each), so that even one large tree uses several devices. The program then runs in
          "waves". Decisions about which tokens go where, draws of random numbers and ops inside a
          `tf.device` are not divided. Results are the same; gradients of weights are the same up to
          rounding.

    Returns:
        A `RecursiveFunction`, or a decorator if `function` is not given.
    """
    inspect.signature(recursive).bind(function, **options)
    if function is not None:
        return RecursiveFunction(function, **options)
    return lambda function: RecursiveFunction(function, **options)
