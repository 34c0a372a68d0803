"""A block: frames of one body that run one of its places together.

This module holds the part that does not depend on how rows are stored: which values a block reads,
and which rows they are in.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from kerasrec._src.emit.registers import Registers
from kerasrec._src.frames.layout import CALLS, RETURNS, Column, Layout
from kerasrec._src.graph.graph import CallSite
from kerasrec._src.graph.values import Each, Node, Region, Value
from kerasrec._src.schedule.instructions import Frames, Load, Receive, Return, Select, Send
from kerasrec._src.schedule.sections import Segment


@dataclass(eq=False)
class Block(Registers):
    """The registers of a segment on a block.

    Args:
        graph: The program.
        body: The body's name.
        shared: The tensors of SHARED values.
        layout: The layout of the program.
    """

    layout: Layout

    def __post_init__(self) -> None:
        super().__post_init__()
        # The number of entries of each region to which the block gives numbers.
        self.counts: dict[Any, tf.Tensor] | None = None

    @property
    def count(self) -> tf.Tensor:
        """The number of tokens that the segment runs on, an int32 scalar."""
        raise NotImplementedError

    def numbers(self, region: Region | None = None) -> tf.Tensor:
        """For each token of a region, the number of its frame, or of its entry, int32."""
        raise NotImplementedError

    def spread(self, tensor: tf.Tensor, region: Region | None) -> tf.Tensor:
        """Spreads the values of frames, `[frames, ...]`, to the tokens of a region."""
        raise NotImplementedError

    def num_called(self, region: Region | None) -> tf.Tensor:
        """For each frame, the number of its tokens in a region, int32 `[frames]`."""
        raise NotImplementedError

    def called(self, sites: Sequence[CallSite], to_results: bool) -> Any:
        """The frames that call sites have called, or the rows of their results, int32.

        Args:
            sites: Call sites that call for the same tokens.
            to_results: Whether to return the rows of the frames' results instead.
        """
        raise NotImplementedError

    def columns(self, region: Region | None = None) -> dict[Column, tf.Tensor]:
        """The integers kept for each frame; see `Layout.columns`."""
        raise NotImplementedError

    def read(self, key: Hashable, rows: tf.Tensor) -> tf.Tensor:
        """Reads rows of a buffer."""
        raise NotImplementedError

    def read_own(self, key: Hashable, region: Region | None = None) -> tf.Tensor:
        """Reads the rows of the frames, or of the entries that are a region's tokens."""
        raise NotImplementedError

    def load(self, value: Value, by_frame: bool) -> tf.Tensor:
        """Reads a value that another segment keeps, in the rows of frames or for the same block."""
        raise NotImplementedError

    def pass_on(self, sweep: int) -> None:
        """Passes values to the frames that were called, or gradients to those that returned."""
        raise NotImplementedError

    def give_back(self, returns: Sequence[Return], sweep: int) -> None:
        """Keeps the results of the frames in a sweep, from one or several branches."""
        raise NotImplementedError

    def run_again(self, segment: Segment, sweep: int) -> None:
        """Runs a segment of a later sweep on the block.

        Results also go to callers that tail calls return to.
        """
        self.run(segment.instructions)
        self.pass_on(sweep)
        self.give_back(segment.of(Return), sweep)

    def number_entries(self, select: Select) -> None:
        """Numbers the entries of ragged rows where they are selected, but for later sweeps."""
        each = select.regions[0]
        is_new = self.counts is not None and not select.at_use
        if is_new and each in self.layout.entries[self.body]:
            self._number(each)

    def _number(self, each: Each) -> None:
        raise NotImplementedError

    def _run_frames(self, frames: Frames) -> None:
        self._set(frames, [self.count])

    def _run_receive(self, receive: Receive) -> None:
        if receive.tokens:
            self._set(receive, [self.count, *self.given])
        else:
            self._set(receive, [self._passed(value.node) for value in receive.values])

    def _run_load(self, load: Load) -> None:
        if not isinstance(load.item, Value):
            raise NotImplementedError
        self._set(load, [self.load(load.item, load.by_frame)])

    def rows_of_results(self, region: Region | None = None) -> tf.Tensor:
        """For each token of a region, the row of its frame's result, int32."""
        if not self.layout.has_tail_calls(self.body):
            return self.numbers(region)
        return self.columns(region)["result"]

    def returns_to(self, region: Region | None = None) -> tuple[tf.Tensor, tf.Tensor]:
        """The frames to which the tokens of a region return, and the call sites, int32."""
        is_tail, columns = self.layout.has_tail_calls(self.body), self.columns(region)
        callers, labels = (columns[name] for name in (RETURNS[:2] if is_tail else CALLS))
        return callers, labels

    def calls(self) -> dict[str, list[Send]]:
        """The instructions that pass values to each body that is called."""
        found: dict[str, list[Send]] = defaultdict(list)
        for send in self.sent:
            found[send.sites[0].callee].append(send)
        return found

    def _passed(self, node: Node) -> tf.Tensor:
        """The value that a later sweep passes to the frames for a parameter."""
        sweep, key = self.layout.inputs[node]
        found = self.read(key, self.rows_of_results()) if sweep % 2 else self.read_own(key)
        return tf.cast(found, node.types[0].dtype)
