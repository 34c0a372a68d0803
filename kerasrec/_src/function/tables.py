"""Runs a function on values of data types; it is traced once for each schema, for any values."""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from kerasrec._src.datatypes.values import Tables, tables_in, with_tables
from kerasrec._src.function.arguments import Arguments
from kerasrec._src.private import op_callbacks, unseen_by_op_callbacks

# The result of a function, and the rows of `kerasrec.collect`.
Run = Callable[[Arguments], tuple[Any, dict[str, tf.Tensor]]]


class TableRuns:
    """The runs that a recursive function has for values of data types; copies are empty.

    Inside a graph, the tables of a batch are tensors that the function closes over. In eager calls,
    they differ each time, so they are arguments of a `tf.function` around the function.
    """

    def __init__(self) -> None:
        self._runs: dict[tuple[Any, ...], tuple[Any, list[Any]]] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return TableRuns, ()

    def clear(self) -> None:
        """Forgets all runs."""
        self._runs.clear()

    def run(self, given: Arguments, run: Run) -> tuple[Any, dict[str, tf.Tensor]]:
        """Returns the result for arguments with tables, and the collected rows.

        Args:
            given: The arguments.
            run: Runs the function inside the graph that is built.
        """
        key = _key_of(given)
        if key not in self._runs:
            self._runs[key] = _new_run(given, run)
        function, structure = self._runs[key]
        flat = [item for tables in given.tables for item in tables.flat()]
        with unseen_by_op_callbacks():
            outputs, made, collected = function(given.tokens(), flat)
        ((result, tables, new),) = structure
        back = dict(zip(tables, given.tables, strict=True))
        back |= {
            item: Tables.of_flat(item.schema, tensors)
            for item, tensors in zip(new, made, strict=True)
        }
        if given.is_scalar:
            outputs = [tensor[0] for tensor in outputs]
        if given.rows is not None:
            outputs = [given.rows.with_values(tensor) for tensor in outputs]
        packed = tf.nest.pack_sequence_as(result, list(outputs))
        # Values that the function closes over are from tables that it was not called with.
        return with_tables(packed, lambda item: back.get(item, item)), collected


def _key_of(given: Arguments) -> tuple[Any, ...]:
    """Returns the key of the run for some arguments: everything that a trace depends on."""
    places = {
        tables: dataclasses.replace(tables, number=place)
        for place, tables in enumerate(given.tables)
    }
    structure = with_tables(given.signature.structure, places.__getitem__)
    schemas = tuple(tables.schema for tables in given.tables)
    signature = given.signature
    functions = signature.keys_of_functions
    return str(structure), schemas, signature.types, functions, op_callbacks()


def _new_run(given: Arguments, run: Run) -> tuple[Any, list[Any]]:
    """Makes a `tf.function` for a run, and a list that its tracing fills.

    The one entry of the list is a tuple: the nest of the result, the tables that the function was
    called with, and the tables of new values in the result.
    """
    structure: list[Any] = []
    # Placeholders for the tables of this call, whose tensors must not be kept.
    stand_in = {tables: Tables(tables.schema, None, None, {}) for tables in given.tables}
    blanks = list(stand_in.values())
    sizes = [len(tables.flat()) for tables in given.tables]
    nest = with_tables(given.signature.structure, stand_in.__getitem__)
    signature = dataclasses.replace(given.signature, structure=nest)

    def traced(tensors: Sequence[tf.Tensor], flat: Sequence[Any]) -> Any:
        left = iter(flat)
        tables = [
            Tables.of_flat(blank.schema, list(itertools.islice(left, size)))
            for blank, size in zip(blanks, sizes, strict=True)
        ]
        forth = dict(zip(blanks, tables, strict=True))
        found = dataclasses.replace(
            signature, structure=with_tables(signature.structure, forth.__getitem__)
        )
        result, collected = run(Arguments(list(tensors), False, None, found, tables))
        new = [item for item in tables_in(result) if _is_of_this_graph(item)]
        new = [item for item in new if item not in tables]
        structure[:] = [(tf.nest.map_structure(lambda _: 0, result), tables, new)]
        return tf.nest.flatten(result), [item.flat() for item in new], collected

    table_specs = [spec for tables in given.tables for spec in tables.specs()]
    specs = [signature.tensor_specs(), table_specs]
    # TensorFlow warns of many traces of one Python function; partials are counted separately.
    function = tf.function(functools.partial(traced), input_signature=specs, autograph=False)
    return function, structure


def _is_of_this_graph(tables: Tables) -> bool:
    """Whether tables were made in the graph that is being built."""
    kinds = tables.kinds
    return tf.is_symbolic_tensor(kinds) and kinds.graph is tf.compat.v1.get_default_graph()
