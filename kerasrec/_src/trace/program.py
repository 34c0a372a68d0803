"""The stage `trace`: makes the graphs of a Python function and of all functions that it calls.

A function runs once to learn its return type, without the branches that call something whose return
type is not known yet. It runs again when every type is known. Thus nobody has to declare types
before use. If the recursion ends at empty ragged rows, there is no branch without a call. Then
types are tried, and a type is right if the function returns it whenever its calls do.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeVar

import tensorflow as tf

from kerasrec._src.errors import SignatureError, TraceError
from kerasrec._src.graph.graph import FunctionGraphs
from kerasrec._src.graph.types import Kind, Type
from kerasrec._src.trace.build import build
from kerasrec._src.trace.function_state import Code, FunctionState, numbered
from kerasrec._src.trace.function_values import Lazy
from kerasrec._src.trace.mistakes import EndlessLoopError, check_what_is_left, finding_mistakes
from kerasrec._src.trace.mixing_hints import ROWS_IN_ORDER, reads_rows
from kerasrec._src.trace.same_nest import covers, same_nest
from kerasrec._src.trace.signature import (
    Signature,
    Traceable,
    call_does_not_fit,
    check_shapes,
    signature_of,
    tensors_in,
)
from kerasrec._src.trace.source import at_this_line
from kerasrec._src.trace.tracer import (
    Outside,
    Returns,
    ReturnTypeUnknownError,
    TraceAgainError,
    Tracer,
    is_traced,
    run_traced,
)
from kerasrec._src.trace.user_errors import (
    TRIED_TYPES,
    error_of_trials,
    never_the_same,
    no_base_case,
    no_type_fits,
    run_or_explain,
)

_Result = TypeVar("_Result")

# How many trials begin with one guess; each tries the return type that the trial before has found.
_MAX_TRIALS = 4
# How many calls of a function may be traced inside each other, each with another function, or
# another structure, as argument.
_MAX_NESTED = 24
# How many tensors the arguments may have if they become more from call to call.
_MAX_TENSORS = 512


def trace(
    function: Traceable, signature: Signature, for_blocks: bool = False
) -> tuple[FunctionGraphs, Any]:
    """Traces a function and all functions it calls; returns their graphs, and its result's nest.

    Args:
        function: The function.
        signature: Its signature.
        for_blocks: Whether the program is for the engine "compiled"; see `ProgramFacts`.

    Raises:
        NoBaseCaseError: If every path through a function calls it again.
        SignatureError: If arguments or results do not fit together.
        TraceError: If the function does something that a graph cannot do.
    """
    outside = Outside(signature.structure)
    while True:
        tracing = _Tracing(outside)
        state = tracing.state_of(function, signature)
        with contextlib.suppress(TraceAgainError):
            states = tracing.run_all(state)
            break
    _check_memo(function, states)
    _rename(states)
    graphs = FunctionGraphs(build(states, for_blocks), state.name)
    graphs.check()
    return graphs, state.tracer.returns.structure


def _check_memo(function: Traceable, states: list[FunctionState]) -> None:
    """Raises TraceError if a function has `memo`, but the one that is called first does not."""
    for state in states:
        if getattr(state.function, "memo", False) and not getattr(function, "memo", False):
            raise TraceError(
                f"{function.name} calls {state.name} ({state.source.where}), which has memo=True. "
                f"Equal calls are found in a whole run: give {function.name} memo=True as well; or "
                f"call {state.name} before {function.name}, and pass on its result."
            )


def _rename(states: list[FunctionState]) -> None:
    """Numbers functions of the same name again, leaving out traces that were not kept."""
    names: list[str] = []
    for state in states:
        state.name = numbered(state.base_name, names)
        names.append(state.name)


@dataclass(eq=False)
class _Tracing:
    """The state of a program while it is traced."""

    outside: Outside
    states: list[FunctionState] = field(default_factory=list)
    tracers: dict[tf.Graph, Tracer] = field(default_factory=dict)
    guesses: dict[Code, Returns] = field(default_factory=dict)

    def state_of(self, function: Traceable, signature: Signature) -> FunctionState:
        """Returns the state of a function under a signature; a new one if none fits."""
        same = [state for state in self.states if state.function is function]
        for state in same:
            if state.signature.accepts(signature):
                if state.recorded is None and not state.is_running:
                    # The variables of functions that were passed before may have changed.
                    state.signature = replace(
                        state.signature, structure=signature.structure, passed=signature.passed
                    )
                return state
        running = [state for state in same if state.is_running]
        for state in reversed(running):
            known = state.signature
            if known.has_functions_of(signature) and covers(known.structure, signature.structure):
                raise call_does_not_fit(state.name, state.signature, signature)
        is_longer = bool(running) and len(signature.types) > max(
            _MAX_TENSORS, len(running[-1].signature.types)
        )
        if is_longer or len(running) >= _MAX_NESTED:
            is_grown = len({state.signature.keys_of_functions for state in running}) == 1
            raise never_the_same(function.name, len(running), is_longer or is_grown)
        state = FunctionState("", function, signature)
        state.name = numbered(state.base_name, {known.name for known in self.states})
        if function.returns is not None:
            specs = tf.nest.flatten(function.returns)
            types = [Type(spec.dtype, tuple(spec.shape)) for spec in specs]
            state.returns = Returns(tf.nest.map_structure(lambda _: 0, function.returns), types)
        else:
            state.returns = self.guesses.get(state.code)
        self.states.append(state)
        return state

    def _returns_of(self, state: FunctionState, caller: Tracer) -> Returns:
        """Returns what a function that is called returns.

        The function is traced now, as far as types are known, because its variables are as at the
        call while the function around it still runs. If types are not known yet, the function
        around it is also traced again.
        """
        while state.needs_trace and not state.is_running:
            self._run(state)
        if state.returns is None:
            raise ReturnTypeUnknownError(state)
        if state.recorded is None and not state.is_running and state.has_closure:
            caller.unknown = caller.unknown or state.unknown
        now = state.variables()
        changed = [name for name, tensor in state.closed_over.items() if now.get(name) != tensor]
        if changed and state.recorded:
            raise TraceError(
                f"{state.name} ({state.source.where}) closes over {changed[0]!r}, which stood for "
                f"another tensor when {state.name} was called first. Pass it as an argument."
                f"{at_this_line()}"
            )
        return state.returns

    def run_all(self, first: FunctionState) -> list[FunctionState]:
        """Traces the first function and all that it reaches; returns their states in this order."""
        found = [first]
        for state in found:
            while state.recorded is None:
                num_known = self._num_known()
                self.with_guesses(partial(self._run, state))
                if state.unknown and num_known == self._num_known():
                    self._guess_return_type(state.unknown)
            callees = dict.fromkeys(call.callee for call in state.tracer.calls)
            found += [callee for callee in callees if callee not in found]
        return found

    def _guess_return_type(self, error: ReturnTypeUnknownError) -> None:
        """Finds by trial the return type of a function that only empty ragged rows end.

        Raises:
            NoBaseCaseError: If no type fits, or if empty rows do not end the function.
            Exception: The function's own error, if it fails whatever its calls return.
        """
        state: FunctionState = error.state
        if not error.can_end:
            raise no_base_case(state)
        failures: list[Exception] = []
        numbers = [(0, [value_type]) for value_type in TRIED_TYPES]
        for structure, types in [*numbers, *state.signature.values()]:
            try:
                state.returns = self._settle(state, Returns(structure, types))
            except (EndlessLoopError, TraceAgainError):
                raise
            except Exception as reason:  # The user's code may fail in any way on a wrong type.
                failures.append(reason)
            else:
                self.guesses[state.code] = state.returns
                return
        raise error_of_trials(state, failures[: len(numbers)])

    def _settle(self, state: FunctionState, guess: Returns) -> Returns:
        """Starts from a guess; returns a type that the function returns whenever its calls do."""
        for _ in range(_MAX_TRIALS):
            states = [replace(known, unknown=None) for known in self.states]
            outside = replace(self.outside, is_trial=True)
            trial = _Tracing(outside, states, dict(self.tracers), dict(self.guesses))
            again = states[self.states.index(state)]
            again.returns = guess
            found = trial.with_guesses(partial(trial._run_body, again)).returns
            if found == guess:
                return guess
            guess = found
        raise no_type_fits(state)

    def with_guesses(self, run: Callable[[], _Result]) -> _Result:
        """Calls `run` until it meets no unknown return type, and returns its result."""
        while True:
            try:
                return run()
            except ReturnTypeUnknownError as error:
                self._guess_return_type(error)

    def _num_known(self) -> int:
        """Returns how many return types are known."""
        return len({state.code for state in self.states if state.returns is not None})

    def _run(self, state: FunctionState) -> None:
        """Traces a function; keeps the trace, or why a branch had to be left out."""
        known = state.returns
        tracer = self._run_body(state)
        self._check_returns(state, tracer.returns.types)
        state.returns = tracer.returns
        pair = known.structure if known else None, tracer.returns.structure
        if known and same_nest(*pair) and not covers(*pair):
            self._run(state)  # Its own calls were traced with too narrow a structure.
            return
        state.unknown = tracer.unknown
        if tracer.unknown is None:
            check_what_is_left(state, tracer.graph)
            state.recorded = tracer
            state.closed_over = state.variables()

    def _run_body(self, state: FunctionState) -> Tracer:
        """Runs a function, and returns its tracer."""

        def body(tracer: Tracer) -> None:
            self.tracers[tracer.graph] = tracer
            args = state.signature.arguments(tracer.parameters)
            with finding_mistakes(state, args, tracer.graph):
                tracer.outputs, tracer.returns = tracer.returned(
                    state.function.run_python(args),
                    state.returns.types if state.returns else (),
                    f"the result of {state.name} ({state.source.where})",
                    "a recursive function must return tensors, with a `return` before "
                    "kerasrec.cond and no None among them.",
                )
            names = [f"Output {place}" for place in range(len(tracer.outputs))]
            check_shapes(state.name, names, tracer.returns.types)

        state.is_running = True
        specs = [value_type.tensor_spec() for value_type in state.signature.types]
        make_tracer = partial(
            Tracer,
            are_numbers=state.signature.are_numbers,
            resolve_call=self._resolve_call,
            kind_outside=partial(self._kind_outside, state),
            outside=self.outside,
        )
        try:
            return run_or_explain(state, partial(run_traced, body, specs, make_tracer))
        finally:
            state.is_running = False

    def _kind_outside(self, state: FunctionState, tensor: tf.Tensor) -> Kind:
        """Returns the kind that a closed-over tensor has in the function that owns it."""
        if not is_traced(tensor):
            return Kind.SHARED
        owner = self.tracers.get(tensor.graph)
        # In a trial, functions around it do not run any more, but their tensors still have types.
        if owner and not (owner.is_running or self.outside.is_trial):
            owner = None
        name = state.variable_name(tensor)
        what = f"{state.name} ({state.source.where}) closes over {name!r}, a tensor "
        if owner is None and name == tensor.op.name:  # An object has it, such as a layer.
            raise TraceError(
                f"{state.name} ({state.source.where}) uses {name!r}, a tensor that was made while "
                "a recursive function was traced. If a Keras layer made it when it was built in "
                "the function, as keras.layers.Normalization(mean=.., variance=..) does, make the "
                "layer again and call it once outside first. If it is in a list that the body adds "
                "to, make the list in the body, which is traced more than once. Otherwise compute "
                f"the tensor in {state.name}, or pass it as an argument."
            )
        if owner is None:
            raise TraceError(
                f"{what}that another recursive function computed for each of its tokens, and that "
                f"function has returned. Call {state.name} in the body of that function, or pass "
                "the tensor as an argument."
            )
        kind = owner.kind(tensor)
        if kind is Kind.WAVE:
            mend = "compute the tensor inside it."
            if reads_rows(tensor.op):
                mend = f"it cannot read their rows. {ROWS_IN_ORDER}"
            raise TraceError(
                f"{what}of shape {tensor.shape} that was computed across the tokens of another "
                f"recursive function. {state.name} has other tokens: {mend}"
            )
        return kind

    def _check_returns(self, state: FunctionState, types: list[Type]) -> None:
        known = state.returns.types if state.returns else types
        if len(known) != len(types) or not all(map(Type.accepts, known, types)):
            raise SignatureError(
                f"{state.name} ({state.source.where}) returns "
                f"({', '.join(map(str, types))}) once all its branches are traced, but "
                f"({', '.join(map(str, known))}) from the branches without a recursive call, or "
                "according to `returns=`. Let all branches return the same types."
            )

    def _resolve_call(
        self, tracer: Tracer, function: Traceable, args: tuple[Any, ...]
    ) -> tuple[FunctionState, list[tf.Tensor], Any, list[Type]]:
        """Returns a call's callee, its argument tensors, and the structure and types it returns."""
        has_memo = getattr(self.states[0].function, "memo", False)  # Then only scalars differ.
        if not has_memo and any(isinstance(leaf, Lazy) for leaf in tf.nest.flatten(args)):
            args = tf.nest.map_structure(partial(_passed_by, tracer), args)
        flat = tensors_in(args)
        same = [state for state in self.states if state.function is function]
        name = function.name
        what = f"an argument of {name}"
        tensors = tracer.tensors(flat, same[-1].signature.types if same else (), what)
        types = [tracer.token_type(tensor, what) for tensor in tensors]
        signature = signature_of(function, args, types)
        if not has_memo:
            check_shapes(name, signature.names, types)
        state = self.state_of(function, signature)
        returns = self._returns_of(state, tracer)
        for place, wanted in enumerate(state.signature.types):
            if wanted != types[place] and tracer.kind(tensors[place]) is Kind.TOKEN:
                tensors[place] = tf.ensure_shape(tensors[place], wanted.tensor_shape())
        return state, tensors, *returns


def _passed_by(tracer: Tracer, argument: Any) -> Any:
    """Returns what a body passes on for an argument of a call."""
    return argument.passed_by(tracer) if isinstance(argument, Lazy) else argument
