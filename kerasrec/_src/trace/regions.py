"""Finds the branch or map in which each op of a function is."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import tensorflow as tf

from kerasrec._src.errors import GraphError
from kerasrec._src.graph.values import Branch, Each, Region, Value
from kerasrec._src.trace.tracer import BranchRecord, ConditionalRecord, MapRecord, Tracer


class Regions:
    """The regions of the ops that a tracer recorded, and of ops added at the places of these.

    Args:
        tracer: The tracer, after its function has run.
        tokens: Returns a tensor as one value for each token of a region.
    """

    def __init__(self, tracer: Tracer, tokens: Callable[[tf.Tensor, Region | None], Value]):
        self._maps = sorted(tracer.maps, key=lambda record: record.body.start)
        self._tokens = tokens
        self._predicates: dict[int, Value] = {}
        operations = tracer.graph.get_operations()
        self._places = {operation.name: place for place, operation in enumerate(operations)}
        spans: list[tuple[BranchRecord, Callable[[Region | None], Region]]] = [
            (branch, partial(self._branch, record, place))
            for record in tracer.conditionals
            for place, branch in enumerate(record.branches)
        ]
        spans += [(mapped.body, partial(self.each, mapped)) for mapped in tracer.maps]
        self._spans = sorted(spans, key=lambda span: (span[0].start, -span[0].stop))

    def of(self, operation: tf.Operation) -> Region | None:
        """Returns the innermost branch or map that was running when the op was made."""
        region = None
        for span, inside in self._spans:
            if self._is_in(operation, span):
                region = inside(region)
        return region

    def of_entries(self, record: MapRecord) -> Region:
        """Returns the region of the entries of a map."""
        region = self.of(record.entries[0].op)
        if region is None:
            raise GraphError(f"Entries at {record.source} enter no region.")
        return region

    def maps_around(self, operation: tf.Operation) -> list[MapRecord]:
        """Returns the maps that were running when the op was made, from the outermost."""
        return [record for record in self._maps if self._is_in(operation, record.body)]

    def put(self, added: tf.Operation, operation: tf.Operation) -> None:
        """Puts an added op at the place of another one."""
        self._places[added.name] = self._places[operation.name]

    def each(self, record: MapRecord, region: Region | None) -> Region:
        """Returns the region of the entries of a map that is itself in `region`."""
        return Each(region, self._tokens(record.rows[0].lengths, region))

    def predicate(self, record: ConditionalRecord, region: Region | None) -> Value:
        """Returns the value that chooses the branch of a conditional in `region`."""
        if id(record) not in self._predicates:
            self._predicates[id(record)] = self._tokens(record.predicate, region)
        return self._predicates[id(record)]

    def _branch(self, record: ConditionalRecord, place: int, region: Region | None) -> Region:
        return Branch(region, self.predicate(record, region), place, len(record.branches))

    def _is_in(self, operation: tf.Operation, span: BranchRecord) -> bool:
        return span.start <= self._places[operation.name] < span.stop
