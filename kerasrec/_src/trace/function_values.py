"""`functions` and `lazy`: functions as values, and values as functions.

`functions` makes a table of functions, and values that choose for each token which of them it
calls, by defunctionalisation (Reynolds 1972, "Definitional Interpreters for Higher-Order
Programming Languages", section 6): a value is a label, together with the tensors that the functions
have captured, and a call is a SWITCH on the label.

`lazy` makes values that are computed only for the tokens that read them. A dataflow graph is eager:
arguments are computed before the function that takes them looks at them. Vasilakopoulos 2024,
section 7.2, leaves values on demand to future work. Here a value that is not computed yet is passed
as a function. It runs in the branch that calls it, for the tokens there.
"""

from __future__ import annotations

import inspect
import reprlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

import tensorflow as tf

from kerasrec._src.autograph import not_converted
from kerasrec._src.errors import SignatureError, TraceError
from kerasrec._src.graph.types import Kind
from kerasrec._src.trace.captured import Captured, with_tensors
from kerasrec._src.trace.conditional import as_int32, choose, predicate_of
from kerasrec._src.trace.rows import Scope
from kerasrec._src.trace.source import code_of, here, name_of, undecorated
from kerasrec._src.trace.tracer import Tracer, active_tracer, tracer_for

_NAME = "kerasrec.functions"
_MAX_NESTED = 5


@not_converted
def functions(functions: Sequence[Callable[..., Any]]) -> FunctionTable:
    """Makes a table of functions from which each token may choose a different one.

    ```python
    operators = kerasrec.functions([tf.add, tf.multiply, lambda x, y: x])

    @kerasrec.recursive
    def value(node):
        def inner():
            left, right = tf.unstack(tf.gather(children, node), axis=1)
            return operators[tf.gather(kinds, node)](value(left), value(right))

        return kerasrec.cond(node > 4, lambda: tf.gather(numbers, node), inner)
    ```

    `table[index]` is a function for each token. You can call it, pass it to a recursive function,
    return it from one, choose it with `kerasrec.cond` and keep it in a nest. There it consists of a
    tensor of labels, and of the tensors that the functions have captured from the call in which
    they were defined. The caller need not know the table: the value may be of any table whose
    functions have the same source lines and read the same variables, apart from captured tensors.
    A call is a `kerasrec.switch` on the label, and each function computes only on its own tokens.

    `index` is an integer for each token, `[tokens]`, of any int dtype. If it is out of range, it
    chooses the last function, as in `kerasrec.switch`. A Python int is the same for all tokens; a
    negative one counts from the end, and one that is out of range raises `IndexError`.

    Args:
        functions: A list of one or more recursive functions, lambdas, Keras layers or other
            callables. They take the same arguments and return the same structure, dtypes and
            shapes. A function that calls itself must be a recursive function.

    Returns:
        The table.

    Raises:
        SignatureError: If `functions` is empty, or holds something other than functions.
    """
    found = tuple(functions) if isinstance(functions, list | tuple) else ()
    if not found or not all(map(callable, found)):
        raise SignatureError(
            f"{_NAME}{here()} was given {reprlib.repr(functions)}; expected a list of one or more "
            "functions, such as kerasrec.functions([tf.add, tf.multiply])."
        )
    return FunctionTable(found)


@dataclass(frozen=True, eq=False, repr=False)
class FunctionTable:
    """The result of `kerasrec.functions`: `table[index]` is a function for each token.

    Two tables are equal if values of one may be used where values of the other are expected.

    Args:
        functions: The functions in the order of their indices.
        captured: The values that the functions had captured when one was passed on; None before
            that.
    """

    functions: tuple[Callable[..., Any], ...]
    captured: Captured | None = None

    def __len__(self) -> int:
        return len(self.functions)

    @not_converted
    def __getitem__(self, index: Any) -> FunctionValue:
        """Returns a function for each token; see `functions`."""
        if isinstance(index, int) and not isinstance(index, bool):
            return FunctionValue(self, tf.constant(self._place(index)))
        if isinstance(index, tf.RaggedTensor):
            return FunctionValue(self, index.with_values(as_int32(index.values)))
        tracer = active_tracer()
        if tracer is not None:
            label = predicate_of(tracer, as_int32(index), _NAME, "index", tf.int32)
            return FunctionValue(self, label)
        return FunctionValue(self, as_int32(_label_from_outside(index)))

    def _place(self, index: int) -> int:
        if not -len(self) <= index < len(self):
            raise IndexError(
                f"{self}[{index}]{here()} is out of range: the table has {len(self)} functions."
            )
        return index % len(self)

    def as_passed(self) -> tuple[FunctionTable, list[tf.Tensor]]:
        """Returns the table with the tensors captured now by its functions, and these tensors.

        Raises:
            TraceError: If its functions capture a value of a table with the same lines, whose
                functions capture such a value again, and so on.
        """
        captured = Captured(self.functions)
        table = FunctionTable(self.functions, captured)
        if table._num_nested(table._lines) > _MAX_NESTED:
            raise TraceError(
                f"A function value{here()}, one of {self}, captures another one of the same "
                f"lines, and so on, more than {_MAX_NESTED} times inside of each other. A value is "
                "a tensor with the tensors that its functions capture, so it cannot grow from call "
                "to call. Make it a value of a kerasrec.DataType, with a kind for each function "
                "and a field for each variable that it captures, and apply it with kerasrec.match."
            )
        return table, captured.tensors

    @property
    def _lines(self) -> list[Any]:
        return list(map(code_of, self.functions))

    def _num_nested(self, lines: list[Any]) -> int:
        """Counts the tables of functions with these lines that are captured inside each other."""
        captured = [] if self.captured is None else self.captured.kinds(FunctionTable)
        inner = max((table._num_nested(lines) for table in captured), default=0)
        return inner + (self._lines == lines)

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, FunctionTable) or self.captured is None:
            return False
        return self.captured == other.captured

    def __repr__(self) -> str:
        return f"{_NAME}([{', '.join(map(_name, self.functions))}])"


@dataclass(frozen=True, repr=False)
class FunctionValue:
    """A function for each token, from one table; a call of it calls each token's own function.

    Like a tensor, it may be passed to a recursive function, returned from one, chosen by
    `kerasrec.cond`, and kept in a nest.
    """

    _table: FunctionTable
    _index: Any
    # Replacements of the tensors that the table has captured; None: functions read their own.
    _captured: tuple[Any, ...] | None = None

    # tf.nest sees the parts that differ from token to token: the label and the captured tensors.
    def __tf_flatten__(self) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        if self._captured is not None:
            return (self._table,), (self._index, *self._captured)
        table, tensors = self._table.as_passed()
        return (table,), (self._index, *tensors)

    @classmethod
    def __tf_unflatten__(
        cls, metadata: tuple[Any, ...], components: tuple[Any, ...]
    ) -> FunctionValue:
        (table,) = metadata
        index, *captured = components
        return cls(table, index, tuple(captured))

    @not_converted
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Calls the function of each token and returns the results."""
        tracer = tracer_for(f"A function of {self._table}")
        chosen = self._functions()
        names = [f"functions[{place}] ({_name(item)})" for place, item in enumerate(chosen)]
        for name, function in zip(names, chosen, strict=True):
            _check_arguments(name, function, args, kwargs)
        label = predicate_of(tracer, self._index, f"A call of {self!r}", "index", tf.int32)
        branches = [partial(function, *args, **kwargs) for function in chosen]
        return choose(tracer, label, dict(zip(names, branches, strict=True)))

    def _functions(self) -> Sequence[Callable[..., Any]]:
        """Returns the table's functions, which read the tensors that this value has captured."""
        if self._captured is None or self._table.captured is None:
            return self._table.functions
        return with_tensors(self._table.captured, self._captured)

    def __repr__(self) -> str:
        return f"<one of {self._table}>"


class Lazy:
    """The result of `kerasrec.lazy`; calling it returns the value.

    Args:
        function: Computes the value.
        is_computed: Whether the function only returns the value that another body has computed.
    """

    def __init__(self, function: Callable[[], Any], is_computed: bool = False):
        self.python_function = function
        self._is_computed = is_computed
        self._found: WeakKeyDictionary[Tracer, list[tuple[Scope, Any, Lazy]]] = WeakKeyDictionary()

    @not_converted
    def __call__(self) -> Any:
        """Returns the value, computed for the tokens of the branch that reads it."""
        tracer = tracer_for("The value of kerasrec.lazy")
        found = self._found.setdefault(tracer, [])
        for scope, value, _ in found:
            if tracer.scope[: len(scope)] == scope:
                return value
        value = self.python_function()
        found.append((tracer.scope, value, Lazy(lambda: value, is_computed=True)))
        return value

    def passed_by(self, tracer: Tracer) -> Lazy:
        """Returns what a body passes on: the value itself, if it has computed it for these tokens.

        Ragged rows, and tensors without a value for each token, cannot be passed on in this way.
        """
        if self._is_computed:
            return self
        for scope, value, computed in self._found.get(tracer, ()):
            tensors = [part for part in tf.nest.flatten(value) if not isinstance(part, int | float)]
            if tracer.scope[: len(scope)] == scope and all(
                isinstance(part, tf.Tensor) and tracer.kind(part) is not Kind.WAVE
                for part in tensors
            ):
                return computed
        return self

    @property
    def settings(self) -> tuple[Any, ...]:
        """The options besides the function: none."""
        return ()

    def with_function(self, function: Callable[[], Any]) -> Lazy:
        """Returns a lazy value that another function computes."""
        return Lazy(function)

    def __reduce__(self) -> tuple[Any, ...]:
        """Copies the function, without the values that were computed."""
        return Lazy, (self.python_function,)


def lazy(function: Any) -> Lazy:
    """Makes a value that is computed only for the tokens that read it.

    You can pass it to recursive functions. They read it, if they need it, by a call without
    arguments:

    ```python
    @kerasrec.recursive
    def either(n, x):
        return kerasrec.cond(n < 10, lambda: n, lambda: x())

    @kerasrec.recursive
    def f(n):
        return either(n, kerasrec.lazy(lambda: fib(n)))  # fib is called for n >= 10 alone
    ```

    In one body, the value is computed once for all reads in the same branch and in branches inside
    that branch. Calls in these branches that the body makes after the first read pass on the value
    that was computed, so all readers share it. If a call passes it on before that, each function
    that reads it computes it. A recursive function that takes a lazy value, or any other function,
    is traced once for each one that is passed to it.

    Args:
        function: A function without arguments that computes the value. It may call recursive
            functions, and use tensors of the function around it.

    Returns:
        A function without arguments that returns the value.

    Raises:
        SignatureError: If `function` is not a function.
    """
    if not callable(function):
        raise SignatureError(
            f"kerasrec.lazy{here()} was given {function!r}, which is computed already. Pass a "
            "function that computes it: kerasrec.lazy(lambda: ...)."
        )
    return Lazy(function)


def tables_in(nest: Any) -> list[FunctionTable]:
    """Returns the tables of the function values in a nest."""
    if isinstance(nest, FunctionValue):
        return [nest._table]
    if isinstance(nest, dict):
        return tables_in(list(nest.values()))
    items = nest if isinstance(nest, list | tuple) else ()
    return [table for item in items for table in tables_in(item)]


def _name(function: Callable[..., Any]) -> str:
    return name_of(undecorated(function))


def _label_from_outside(index: Any) -> tf.Tensor:
    try:
        label = tf.convert_to_tensor(index)
    except (TypeError, ValueError) as error:
        raise TraceError(_no_index(repr(index))) from error
    if not label.dtype.is_integer:
        raise TraceError(_no_index(label.dtype.name))
    return label


def _no_index(found: str) -> str:
    return f"The index of {_NAME}{here()} is {found}; expected an integer for each token."


def _check_arguments(
    name: str, function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]
) -> None:
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return  # Some functions written in C have no signature.
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        raise SignatureError(
            f"A call{here()} may call {name}, which takes {signature}: {error}. All functions of "
            "a table are called with the same arguments."
        ) from error
