"""The errors to raise for a user's function, in the user's words."""

from __future__ import annotations

import itertools
import re
import traceback
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from typing import TypeVar

import tensorflow as tf

from kerasrec._src.errors import KerasrecError, NoBaseCaseError, SignatureError, TraceError
from kerasrec._src.graph.types import Type
from kerasrec._src.trace.function_state import FunctionState
from kerasrec._src.trace.source import current_source, is_of_a_library, source_of

_Result = TypeVar("_Result")

# In this order, for a function that only empty ragged rows end.
TRIED_TYPES = [
    Type(dtype, shape)
    for dtype in (
        tf.int32,
        tf.float32,
        tf.int64,
        tf.float64,
        tf.bool,
        tf.float16,
        tf.bfloat16,
    )
    for shape in ((), (None,))
]
# Part of the message for an error of TensorFlow, Keras or Python.
_CANNOT_BE_TRACED = "cannot be traced; "
# How TensorFlow names dtypes. The word "string" by itself may also be plain English.
_DTYPE = re.compile(
    r"(?<=type of )string|"
    r"\b(?:bool|b?float(?:16|32|64)|u?int(?:8|16|32|64)|complex(?:64|128))\b"
)
# Shapes and dtypes in a message, of the form `(None,)` or `f32[3]`.
_IN_BRACKETS = re.compile(r"\([^()]*\)|\[[^\[\]]*\]")
# Errors of functions that use their own result as a nest or a matrix, neither of which is tried. A
# matrix that has lost the token axis has no axis of open size.
_OF_ANOTHER_KIND = re.compile(
    r"to unpack|has no attribute|are valid indices|has shape \(\d|\brank\b|dimensional|dictionary"
)
_CHOOSE = (
    "Each token has its own index. Write tf.gather(table, index) for tensors, "
    "kerasrec.functions([...])[index] for functions, kerasrec.switch(index, [...]) for branches."
)
_OPS_OF_TENSORFLOW = (
    "Tensors have no values while the function is traced. Use TensorFlow's ops instead (tf.sin for "
    "np.sin or math.sin), and look up an array with tf.gather(array, index)."
)
_LIST_OF_NUMBERS = (
    "A list of numbers is passed as one tensor, which cannot change: use tf.concat, or make the "
    "list in the body."
)
_LOOP = (
    "Each token has its own number, so Python cannot loop over it. Use kerasrec.while_loop, or "
    "kerasrec.map_fn over tf.ragged.range(n)."
)
_CHOICE = (
    "A field declared as Literal or Enum, or made a choice by Schema.infer, holds the number of "
    "its choice, from 0."
)
_MIXED = "If dtypes are mixed, use tf.cast, and write 1.0 and not 1 for a float."
_CAST = "For another dtype use tf.cast(x, tf.int32), or tf.float32."
_STRINGS = (
    "Strings can be compared (== and !=) and passed to tf.strings, such as tf.strings.length; "
    "tf.strings.to_number makes numbers of them."
)
_NO_STRING = re.compile(r"has DataType string not in list of allowed values:[\w, ]*")
_WEIGHTS = (
    "A variable is made here, such as the weights of a Keras layer. Make the layer or variable "
    "outside of the function"
)
_PLACE_IN_ROW = (
    "A row may be empty, or too short. For the first entry of each, or zeros, write "
    "tf.reduce_sum(rows[:, :1], axis=1); for the last, tf.reduce_sum(rows[:, -1:], axis=1)."
)
_AXIS = "A number of each call has shape [tokens]; add an axis, x[:, None], for an op on vectors."
# Errors of ops and layers that want more axes, with the shape of a number of each call.
_ANOTHER_RANK = re.compile(
    r"(?s)(?:must be (?:at least )?rank|expected (?:min_)?ndim).*(\[\?\]|\(None,\))"
)
# How TensorFlow prints ragged rows.
_ROWS = re.compile(r"tf\.RaggedTensor\(values=.*?row_splits=.*?\)\)", re.DOTALL)
# How it prints a member of an Enum.
_MEMBER = re.compile(r"got <((\w+)\.\w+): .*?> of type")
# Hints for errors of a function that are not a ValueError, by a part of the error's text.
_HINTS = {
    "elements of tf.RaggedTensor": (
        "This op takes no tf.RaggedTensor. Reduce the rows (tf.reduce_sum(rows, axis=1)), pad them "
        "(`rows.to_tensor(shape=[None, n])`), or compute entry by entry in kerasrec.map_fn."
    ),
    "elements of [tf.RaggedTensor": (
        "This is a list of ragged rows. Take the rows out of it, as in states[0] in a cell."
    ),
    "to a numpy array": _OPS_OF_TENSORFLOW,
    "Tensor' object has no attribute 'append'": _LIST_OF_NUMBERS,
    "Tensor' object has no attribute 'extend'": _LIST_OF_NUMBERS,
    "Tensor' object has no attribute": _OPS_OF_TENSORFLOW,
    "must be real number": _OPS_OF_TENSORFLOW,
    "interpreted as an integer": _LOOP,
    "int() argument": _CAST,
    "float() argument": _CAST,
    "instances of 'tuple'": (
        "A tuple or dict is several arguments in one. Pass several calls of the function as a list "
        "or a tensor, with a row for each."
    ),
    "_fn() takes 2 positional arguments": (
        "Give several rows as one tuple: map_fn(lambda pair: ..., (h, c))."
    ),
    "indices must be integers or slices": _CHOOSE,
    "unhashable": _CHOOSE,
    "are valid indices": _CHOOSE,
    "of type 'str'": _CHOICE,
    **dict.fromkeys(
        ("does not match", "don't all match", "of type 'float'", "of dtype", "has DataType"), _MIXED
    ),
}
# The part of the arguments that differs in each call, and the fix.
_NEVER_THE_SAME = {
    True: (
        "structure of arguments",
        "A tuple, list or dict that grows from call to call never ends: pass a tensor of one "
        "shape.",
    ),
    False: (
        "function",
        "If it passes a new function to each call of itself, this never ends: define the function "
        "outside, pass on the one that was passed, or pass kerasrec.functions([...])[0], a value "
        "that takes along the tensors that the function reads.",
    ),
}


def never_the_same(name: str, count: int, is_grown: bool) -> TraceError:
    """Returns the error for calls inside of each other that all pass something new.

    Args:
        name: The function's name.
        count: How many calls there are.
        is_grown: Whether they pass other structures; otherwise they pass other functions.
    """
    what, advice = _NEVER_THE_SAME[is_grown]
    source = current_source()
    return TraceError(
        f"{name} was passed another {what} in each of {count} calls inside of each other"
        f"{f', the last one at {source.where}' if source else ''}, and is traced for each of them. "
        f"{advice}"
    )


def no_base_case(state: FunctionState) -> NoBaseCaseError:
    """Returns the error for a function that always calls itself."""
    return NoBaseCaseError(
        f"{state.name} ({state.source.where}) has no base case: every path through it calls "
        f"{state.name} again, directly or through other functions, so it never returns. Add a "
        "branch to kerasrec.cond that returns without a call; calls belong inside the "
        "functions that cond is given (`lambda: f(n - 1)`)."
    )


def run_or_explain(state: FunctionState, run: Callable[[], _Result]) -> _Result:
    """Calls `run`, which runs a function; errors of TensorFlow and Keras name the user's line."""
    try:
        return run()
    except tf.errors.OperatorNotAllowedInGraphError as error:
        name, where = _named(state, error)
        raise TraceError(
            f"{name} ({where}) uses a tensor where Python needs a value "
            "(an `if`, `while`, `and` or `not` on it). The choice is made for each token when "
            "the graph runs: use kerasrec.cond(pred, true_fn, false_fn) instead, and `&`, `|`, "
            "`~` instead of `and`, `or`, `not`, with each comparison in parentheses."
        ) from error
    except KerasrecError:
        raise
    except RecursionError as error:
        raise _endless(state, error) from None
    except (TypeError, ValueError) as error:
        raise _user_error(state, error) from error
    except (AttributeError, NotImplementedError) as error:
        if _hint_for(error) not in (_OPS_OF_TENSORFLOW, _LIST_OF_NUMBERS):
            raise  # It comes from an object of the user's.
        raise _user_error(state, error) from error


def _named(state: FunctionState, error: Exception) -> tuple[str, str]:
    """The name and place of a function that failed; if it is a layer's, of its callee."""
    frames = [frame.f_code for frame, _ in traceback.walk_tb(error.__traceback__)]
    of_user = [code for code in frames if not is_of_a_library(code.co_filename)]
    if not of_user or not is_of_a_library(state.source.file):
        return state.name, state.source.where
    return of_user[0].co_name, f"{of_user[0].co_filename}:{of_user[0].co_firstlineno}"


def _endless(state: FunctionState, error: RecursionError) -> TraceError:
    """Returns the error for Python functions that call each other without end."""
    codes = [frame.f_code for frame, _ in traceback.walk_tb(error.__traceback__)]
    often = [code for code, count in Counter(codes).items() if count > 1]
    own = [code for code in often if not is_of_a_library(code.co_filename)]
    code = min(own or often or codes, key=lambda code: code.co_name == "<lambda>")
    return TraceError(
        f"{code.co_name} ({code.co_filename}:{code.co_firstlineno}), which {state.name} calls, "
        "calls itself without end: it runs as plain Python while the graph is built. Decorate it "
        "with @kerasrec.recursive."
    )


def _hint_for(error: Exception) -> str:
    return next((hint for part, hint in _HINTS.items() if part in str(error)), "")


def _user_error(state: FunctionState, error: Exception) -> KerasrecError:
    """Returns the error to raise instead of one of TensorFlow or Keras; it names the line."""
    source = source_of(traceback.extract_tb(error.__traceback__)) or state.source
    what = _ROWS.sub("a tf.RaggedTensor", str(error)).rstrip(".")
    hint = "" if isinstance(error, ValueError) else _hint_for(error)
    if _NO_STRING.search(what):
        what, hint = _NO_STRING.sub("is a string, which the op does not take", what), _STRINGS
    if "singleton tf.Variables" in what:
        what = _WEIGHTS
    if "index into an inner ragged dimension" in what:
        hint = _PLACE_IN_ROW
    if _ANOTHER_RANK.search(what):
        hint = _AXIS + _number_returned(state)
    if hint is _MIXED and tf.string in (known.dtype for known in state.signature.types):
        hint = _STRINGS
    if hint is _MIXED:
        hint += _mixed_arguments(state)
    if member := _MEMBER.search(str(error)):
        hint = f"{_CHOICE} For {member[1]} it is list({member[2]}).index({member[1]})."
    message = f"{_named(state, error)[0]} {_CANNOT_BE_TRACED}{source.where}: {what}."
    if isinstance(error, ValueError):
        hint = _LOOP if "= Range[" in what else hint
        return TraceError(f"{message} {hint}".rstrip())
    kind = SignatureError if isinstance(error, TypeError) else TraceError
    return kind(f"{message} {hint}".rstrip())


def _number_returned(state: FunctionState) -> str:
    """A sentence on the results of a function, if they are numbers; else empty."""
    types = state.returns.types if state.returns else []
    if [returned.shape for returned in types] != [()]:
        return ""
    return f" {state.name} returns a number, {types[0]}, in a branch without a recursive call."


def _mixed_arguments(state: FunctionState) -> str:
    """The types of a function's arguments if they have several dtypes; values have none."""
    known = state.signature
    pairs = itertools.compress(zip(known.names, known.types, strict=True), known.are_numbers)
    shown = {f"{name} {found}": found.dtype for name, found in pairs}
    if len(set(shown.values())) < 2:
        return ""
    return f" Arguments of {state.name}: {', '.join(shown)}."


def error_of_trials(state: FunctionState, failures: Sequence[Exception]) -> Exception:
    """Returns the error to raise if all trials failed.

    Trials with a wrong dtype fail where they meet the right one, so the right dtype is the one that
    most errors name. A dtype in a list of several counts less. If both trials of the right dtype,
    with a number and with a vector, fail in the same way, no type would help.

    Args:
        state: The function's state.
        failures: One failure for each of TRIED_TYPES.
    """
    named: defaultdict[str, float] = defaultdict(float)
    for tried, failure in zip(TRIED_TYPES, failures, strict=True):
        if isinstance(failure, TypeError):
            found = dict.fromkeys(_DTYPE.findall(str(failure)))
            others = [name for name in found if name != tried.dtype.name]
            for name in others:
                named[name] += 1 / len(others)
    right = max(named, key=named.__getitem__, default="float32")
    of_right = [
        failure
        for tried, failure in zip(TRIED_TYPES, failures, strict=True)
        if tried.dtype.name == right
    ]
    if not of_right:
        return no_type_fits(state, dtype=right)
    failure = next(filter(_is_of_kerasrec, of_right), of_right[-1])
    texts = {_IN_BRACKETS.sub("", str(item)) for item in of_right}
    is_of_another = len(texts) > 1 or _OF_ANOTHER_KIND.search(str(failure))
    return no_type_fits(state, failure) if is_of_another else failure


def no_type_fits(
    state: FunctionState, failure: Exception | None = None, dtype: str = "float32"
) -> NoBaseCaseError:
    """Returns the error that asks the user to state a function's return type.

    Args:
        state: The function's state.
        failure: The error of a trial.
        dtype: The dtype in the example.
    """
    reason = "" if failure is None else f" A trial failed: {str(failure).strip()}"
    return NoBaseCaseError(
        f"The result type of {state.name} ({state.source.where}) cannot be inferred: every path "
        f"through it calls {state.name} with ragged arguments, and only rows without entries end "
        "it. Declare the type of one token's value: "
        f"`@kerasrec.recursive(returns=tf.TensorSpec([], tf.{dtype}))`, or a nest of such "
        f"specs.{reason}"
    )


def _is_of_kerasrec(error: Exception) -> bool:
    """Whether an error was raised by kerasrec itself."""
    return isinstance(error, KerasrecError) and _CANNOT_BE_TRACED not in str(error)
