"""Passes the values that tokens carry to a function and its calls; see `graph/carried.py`."""

from __future__ import annotations

from functools import partial

import tensorflow as tf

from kerasrec._src.graph.carried import FOR_ERRORS, carried_inside, key_of_entry, key_of_made
from kerasrec._src.graph.types import Type
from kerasrec._src.graph.values import Region, Value
from kerasrec._src.trace.op_nodes import OpNodes
from kerasrec._src.trace.program_facts import ProgramFacts
from kerasrec._src.trace.tracer import MapRecord


class Carrying:
    """The values that tokens of one function carry: arguments that come after all others.

    Args:
        ops: The nodes of the function.
        facts: What is known of the program.
    """

    def __init__(self, ops: OpNodes, facts: ProgramFacts):
        self._ops = ops
        self._labels = facts.labels
        self._tensors: dict[str, tf.Tensor] = {}
        for name, found in facts.carried.items():
            self._tensors[name] = self._placeholder(found)
            parameter = ops.parameter(name, found, is_carried=True)
            ops.values[self._tensors[name].name] = parameter

    @property
    def for_errors(self) -> list[tf.Tensor]:
        """The carried values by which errors name a token."""
        return [self._tensors[name] for name in FOR_ERRORS]

    def inside(self, operation: tf.Operation, region: Region | None) -> list[Value]:
        """Returns what tokens of the next call carry, for a call at the place of an op."""
        label = next(self._labels)
        found = []
        for name, tensor in self._tensors.items():
            here = self.key(operation) if name == "key" else tensor
            inside = self._ops.made(operation, partial(carried_inside, name, label, here))
            found.append(self._ops.into(inside, region))
        return found

    def make_key(self, key: tf.Tensor, number: int) -> None:
        """Computes the keys of values that tokens make, in place of the placeholder for the keys.

        Args:
            key: The placeholder.
            number: The number of the place in the program where the values are made.
        """
        self._ops.replace(key.op, partial(key_of_made, number, self.key(key.op)))

    def key(self, operation: tf.Operation) -> tf.Tensor:
        """Returns the keys of the tokens that reach an op; each entry of a row has its own."""
        key = self._tensors["key"]
        for record in self._ops.regions.maps_around(operation):
            key = self._ops.made(operation, partial(key_of_entry, self._place(record), key))
        return key

    def _place(self, record: MapRecord) -> tf.Tensor:
        """Returns the place of each entry in its row, int32 `[entries]`, in the entries' region."""
        ops, rows = self._ops, record.rows[0]
        place = self._placeholder(Type(tf.int32, ()))
        places = ops.made(rows.ids.op, rows.places)
        region = ops.regions.of_entries(record)
        ops.values[place.name] = ops.writer.enter(
            ops.into(places, region.parent),
            [region.selector],
            region,
            ops.tracer.type(place),
            record.source,
        )
        return place

    def _placeholder(self, found: Type) -> tf.Tensor:
        with self._ops.tracer.graph.as_default():
            (placeholder,) = self._ops.tracer.placeholders([found])
        return placeholder
