"""TensorFlow's own recursion: the graph of a function has a node with the function's name.

At run time the executor replaces the node by a copy of the body, so the graph expands: this is the
dynamic implementation that Kostopoulou et al. compare with. It was never made for TensorFlow 2, but
runs in a session of TensorFlow 1 with inlining and graph rewriting off, which would expand the
graph forever. It has no gradient.

It is written as an expert would write it: `tf.compat.v1.cond` is Switch and Merge in the body.
StatelessIf, with a function for each branch, was 50% slower. TensorFlow chooses the threads: one
thread, four, or the caller's were not faster. Switch and Merge by hand would save about 10%.
"""

import concurrent.futures
import functools
import inspect
import multiprocessing
import time
from concurrent.futures.process import BrokenProcessPool

import tensorflow as tf

from benchmarks.functions import define

DTYPES = {int: tf.int32, bool: tf.bool}
# Run once before anything is timed, since bodies are instantiated by their first call.
WARM_UP = {"fib": (5,), "ack": (2, 2), "tak": (3, 2, 1), "primes": (5,), "listed": (5,)}


class Died(Exception):
    """The process of the baseline ended."""


class Expanding:
    """Runs the functions in a separate process, since deep recursion can end it."""

    def __init__(self):
        self._pool = self._new_pool()

    def run(self, name, *arguments):
        """Calls a function once.

        Args:
            name: of the function.
            arguments: ints, or lists of ints for as many independent calls.

        Returns:
            The result, an int or a list, and the seconds without making the graph.

        Raises:
            Died: if the process died because memory or its stack was full.
        """
        try:
            return self._pool.submit(_run, name, arguments).result()
        except BrokenProcessPool:
            self._pool = self._new_pool()
            raise Died(f"TensorFlow's own recursion died in {name}.") from None

    def close(self):
        self._pool.shutdown()

    def _new_pool(self):
        context = multiprocessing.get_context("spawn")
        # This process is separate, so nothing else is affected.
        return concurrent.futures.ProcessPoolExecutor(
            1, context, initializer=tf.compat.v1.disable_control_flow_v2
        )


def _run(name, arguments):
    num_calls = len(arguments[0]) if isinstance(arguments[0], list) else None
    call = _session_call(name, num_calls)
    warm_up = WARM_UP[name]
    call(*(warm_up if num_calls is None else [[number] * num_calls for number in warm_up]))
    start = time.perf_counter()
    result = call(*arguments)
    return result.tolist(), time.perf_counter() - start


@functools.cache
def _session_call(name, num_calls):
    """A function of Python numbers, or of lists of `num_calls` numbers each."""
    library = Library()
    function = define(library.function, _cond)[name]
    graph = library.graph()
    with graph.as_default():
        arguments = [
            tf.compat.v1.placeholder(tf.int32, [] if num_calls is None else [num_calls])
            for _ in library.parameters(name)
        ]
        if num_calls is None:
            result = function(*arguments)
        else:
            # Faster than a node for each call, or fewer iterations at a time.
            result = tf.map_fn(
                lambda row: function(*row),
                tuple(arguments),
                parallel_iterations=num_calls,
                fn_output_signature=tf.int32,
            )
    config = tf.compat.v1.ConfigProto()
    options = config.graph_options
    options.rewrite_options.disable_meta_optimizer = True
    options.optimizer_options.do_function_inlining = False
    options.optimizer_options.opt_level = tf.compat.v1.OptimizerOptions.L0
    session = tf.compat.v1.Session(graph=library.with_bodies(graph), config=config)
    return session.make_callable(result.name, [argument.name for argument in arguments])


def _cond(predicate, true_function, false_function):
    return tf.compat.v1.cond(predicate, true_function, false_function)


class Library:
    """Functions that may call themselves and each other, as function definitions of a graph.

    A graph is made with declarations, empty functions of the right signature; then `with_bodies`
    replaces these by functions with bodies.
    """

    def __init__(self):
        self._functions = {}

    def function(self, python_function):
        """A function for use while graphs are made: calling it makes a node."""
        name = python_function.__name__
        self._functions[name] = python_function

        def call(*arguments):
            operation = tf.compat.v1.get_default_graph().create_op(
                name,
                [tf.convert_to_tensor(argument, tf.int32) for argument in arguments],
                [self._return_dtype(name)],
                # TensorFlow infers shapes by going into bodies, forever if they are recursive.
                attrs={"_disable_call_shape_inference": tf.compat.v1.AttrValue(b=True)},
            )
            (result,) = operation.outputs
            result.set_shape([])
            return result

        return call

    def parameters(self, name):
        return list(inspect.signature(self._functions[name]).parameters)

    def graph(self):
        """A new graph that knows the declarations."""
        declarations = tf.Graph().as_graph_def()
        for name in self._functions:
            body = tf.Graph()
            with body.as_default():
                nothing = tf.zeros([], self._return_dtype(name))
            self._add_definition(declarations.library, name, body, nothing)
        return _imported(declarations)

    def with_bodies(self, graph):
        """A copy of `graph`, which `graph()` made, with functions that have bodies."""
        definition = graph.as_graph_def()
        definition.library.Clear()
        for name, python_function in self._functions.items():
            body = self.graph()
            with body.as_default():
                parameters = [
                    tf.compat.v1.placeholder(tf.int32, [], parameter)
                    for parameter in self.parameters(name)
                ]
                result = tf.convert_to_tensor(python_function(*parameters))
            self._add_definition(definition.library, name, body, result)
        return _imported(definition)

    def _return_dtype(self, name):
        return DTYPES[inspect.signature(self._functions[name]).return_annotation]

    def _add_definition(self, library, name, body, result):
        """Adds a function with a graph as body, which has a placeholder for each parameter."""
        definition = library.function.add()
        definition.signature.name = name
        for parameter in self.parameters(name):
            definition.signature.input_arg.add(name=parameter, type=tf.int32.as_datatype_enum)
        definition.signature.output_arg.add(name="result", type=result.dtype.as_datatype_enum)
        definition.ret["result"] = _reference(result)
        for operation in body.get_operations():
            if operation.type != "Placeholder":
                node = definition.node_def.add()
                node.CopyFrom(operation.node_def)
                node.input[:] = [
                    *map(_reference, operation.inputs),
                    *(f"^{control.name}" for control in operation.control_inputs),
                ]


def _reference(tensor):
    """How nodes of a function refer to a tensor: by the name of the output, not its number."""
    operation = tensor.op
    if operation.type == "Placeholder":
        return operation.name
    return f"{operation.name}:{operation.op_def.output_arg[tensor.value_index].name}:0"


def _imported(definition):
    graph = tf.Graph()
    with graph.as_default():
        tf.import_graph_def(definition, name="")
    return graph
