"""Lists the tensors of a step that TensorFlow would copy between a GPU and the host; needs no GPU.

    python -m benchmarks.copies [--list]

A copy to the host blocks until all queued GPU work finishes. The command goes through the graph of
a step, as it would be built if a GPU were present, with TensorFlow's list of kernels: an op with a
kernel for GPUs runs there, unless it is placed elsewhere, and each kernel declares which of its
tensors must be on the host. TensorFlow simplifies a graph before it runs it, so a real step does
not make more copies than these.
"""

import collections
from typing import NamedTuple

import tensorflow as tf
from tensorflow.python.framework import kernels

from benchmarks import report
from benchmarks.baselines import baseline_class
from benchmarks.one_step import add_mode, as_with_a_gpu, parser_of, values_and_batches

BASELINES = ("kerasrec", "kerasrec compiled")
OFTEN, LOOP, SELDOM = "once per step", "in each turn of a loop", "if a condition holds"
END = "the end of a compiled program"
COLUMNS = {
    "": lambda row: row["baseline"],
    "how often": lambda row: row["often"],
    "to the host": lambda row: row["to host"],
    "to the GPU": lambda row: row["to GPU"],
}
_CALLS = {"PartitionedCall": ("f",), "StatefulPartitionedCall": ("f",)}
_BRANCHES = dict.fromkeys(("If", "StatelessIf"), ("then_branch", "else_branch"))
_LOOPS = dict.fromkeys(("While", "StatelessWhile"), ("cond", "body"))
_HELD = {**_CALLS, **_BRANCHES, **_LOOPS}


class Copy(NamedTuple):
    """A copy.

    Attributes:
        often: how often it is made.
        to_host: whether it goes to the host instead of the GPU.
        tensor: the tensor that is copied.
        reader: the name of an op that reads it.
    """

    often: str
    to_host: bool
    tensor: tf.Tensor
    reader: str


def copies(graph, often=OFTEN, on_host=False):
    """Yields the copies in a graph, and in the graphs that it calls.

    Args:
        graph: a graph.
        often: how often it runs.
        on_host: whether it is a branch, or the body of a loop, that is placed on the host.
    """
    places = {operation: _Place(operation, on_host) for operation in graph.get_operations()}
    found = set()
    for operation, place in places.items():
        for number, tensor in enumerate(operation.inputs):
            to_host = place.reads_on_host(number)
            is_copied = to_host != places[tensor.op].writes_on_host(tensor.value_index)
            is_data = tensor.dtype not in (tf.resource, tf.variant)
            if is_data and is_copied and (tensor.ref(), to_host) not in found:
                found.add((tensor.ref(), to_host))
                yield Copy(often, to_host, tensor, operation.name)
        if place.is_compiled:
            yield from _of_compiled(operation, often)
            continue
        for held in graphs_held(operation):
            yield from copies(held, _how_often(operation, held, often), place.is_on_host)


def graphs_held(operation):
    """The graphs of the functions that an op calls."""
    names = _HELD.get(operation.type, ())
    functions = [operation.get_attr(name).name for name in names]
    return [operation.graph._get_function(name).graph for name in functions]


def _how_often(operation, held, often):
    if operation.type in _LOOPS:
        return LOOP if often == OFTEN else often
    # Of two branches, the one that runs a compiled program is the usual one.
    is_seldom = operation.type in _BRANCHES and not _has_compiled(held)
    return SELDOM if is_seldom else often


def _has_compiled(graph):
    return any(
        _is_compiled(one) or any(map(_has_compiled, graphs_held(one)))
        for one in graph.get_operations()
        if one.type not in _LOOPS
    )


def _of_compiled(operation, often):
    """The copies in and out of a compiled program, which computes only on the GPU."""
    for tensor in operation.inputs:
        if tensor.dtype == tf.int32:
            yield Copy(often, False, tensor, operation.name)
    for tensor in operation.outputs:
        if tensor.dtype == tf.int32:
            yield Copy(often, True, tensor, END)


class _Place:
    """Where an op runs, and where its tensors are.

    Where functions begin and end, int32 is on the host, and other numbers are on the GPU.

    Args:
        operation: the op.
        on_host: the same as for `copies`.
    """

    def __init__(self, operation, on_host):
        is_argument = operation.type == "Placeholder"
        self.is_compiled = _is_compiled(operation)
        self.is_on_host = on_host if is_argument else "CPU" in operation.device
        self._inputs, self._outputs = set(), set()
        if is_argument or operation.type in _HELD:
            self._inputs = _numbers_of_int32(operation.inputs)
            self._outputs = _numbers_of_int32(operation.outputs)
            if operation.type in _BRANCHES:
                self._inputs.add(0)  # The condition.
        elif not self.is_on_host:
            kernel = gpu_kernel(operation)
            self.is_on_host = kernel is None or _is_only_for_host(operation)
            names = set(kernel.host_memory_arg) if kernel else ()
            self._inputs = _numbers_of(operation, operation.op_def.input_arg, names)
            self._outputs = _numbers_of(operation, operation.op_def.output_arg, names)

    def reads_on_host(self, number):
        """Whether the op reads an input on the host."""
        return self.is_on_host or number in self._inputs

    def writes_on_host(self, number):
        """Whether the op writes an output on the host."""
        return self.is_on_host or number in self._outputs


def _is_compiled(operation):
    if operation.type not in _CALLS:
        return False
    name = operation.get_attr("f").name
    return operation.graph._get_function(name).cached_definition.attr["_XlaMustCompile"].b


def _numbers_of_int32(tensors):
    return {number for number, tensor in enumerate(tensors) if tensor.dtype == tf.int32}


def _is_only_for_host(operation):
    """Whether only ops on the host read an op without inputs, which TensorFlow then puts there."""
    readers = [one for tensor in operation.outputs for one in tensor.consumers()]
    is_source = not operation.inputs and len(operation.outputs) == 1
    return is_source and bool(readers) and all("CPU" in one.device for one in readers)


def gpu_kernel(operation):
    """TensorFlow's kernel of an op for GPUs; None if there is none."""
    for kernel in kernels.get_registered_kernels_for_op(operation.type).kernel:
        if kernel.device_type in ("GPU", "DEFAULT") and all(
            _allows(constraint, operation) for constraint in kernel.constraint
        ):
            return kernel
    return None


def _allows(constraint, operation):
    allowed = constraint.allowed_values.list.type
    found = operation.get_attr(constraint.name)
    found = found if isinstance(found, list) else [found]
    return not allowed or all(one.as_datatype_enum in allowed for one in found)


def _numbers_of(operation, arguments, names):
    """The numbers of the tensors that belong to the named arguments."""
    found, number = set(), 0
    for one in arguments:
        size = 1
        if one.number_attr:
            size = operation.get_attr(one.number_attr)
        elif one.type_list_attr:
            size = len(operation.get_attr(one.type_list_attr))
        if one.name in names:
            found.update(range(number, number + size))
        number += size
    return found


def step_of(baseline, mode, values, batch):
    """The graph of a step of a baseline, traced as if a GPU were present."""
    with as_with_a_gpu():
        made = baseline_class(baseline)(*values)
        step = made.train if mode == "training" else made.logits
        return step.get_concrete_function(*made.inputs(batch)).graph


def main():
    parser = parser_of(__doc__)
    add_mode(parser)
    parser.add_argument("--list", action="store_true", help="name each copy")
    arguments = parser.parse_args()
    values, (batch, *_) = values_and_batches(arguments)
    rows = []
    for baseline in BASELINES:
        graph = step_of(baseline, arguments.mode, (arguments.model, values), batch)
        found = list(copies(graph))
        numbers = collections.Counter((one.often, one.to_host) for one in found)
        for often in (OFTEN, LOOP, SELDOM):
            to_host, to_gpu = numbers[often, True], numbers[often, False]
            rows.append(
                {"baseline": baseline, "often": often, "to host": to_host, "to GPU": to_gpu}
            )
        for one in found if arguments.list else ():
            where = "the host" if one.to_host else "the GPU"
            shape = f"{one.tensor.dtype.name}{one.tensor.shape}"
            print(f"{baseline}, {one.often}: {shape} {one.tensor.op.name} to {where}, {one.reader}")
    print(f"{report.line({**vars(arguments), **report.machine()})}\n")
    report.print_table(COLUMNS, rows)


if __name__ == "__main__":
    main()
