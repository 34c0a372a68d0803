"""The registers of a segment on a wave, and the values that segments save for each other.

If a loop computes a value for a wave and another segment reads it, the value is an element of a
`tf.TensorArray`, under the number of the wave. Within one body, this number represents the tags of
all tokens of the wave. Thus a residual is read under its tag, and no large tensor is copied in a
loop. A value that is computed for the tokens of all waves is one tensor, in the order of the waves.
It is divided for loops that read it.
"""

from __future__ import annotations

from dataclasses import dataclass

import tensorflow as tf

from kerasrec._src import host
from kerasrec._src.emit.arrays import OF_ROWS, Pieces, Slices, joined, num_rows
from kerasrec._src.emit.registers import Registers
from kerasrec._src.emit.results import Tensors
from kerasrec._src.graph.values import Region
from kerasrec._src.row_ids import row_ids
from kerasrec._src.schedule.instructions import (
    Item,
    Load,
    Measure,
    Receive,
    Returned,
    Save,
    TokenCount,
    region_of,
)


class WaveStore:
    """Saved items: the elements of waves, and tensors for the tokens of all waves."""

    def __init__(self) -> None:
        self._waves: dict[Item, tf.TensorArray | Pieces | Slices] = {}
        self._all_tokens: dict[Item, tf.Tensor] = {}
        self._sizes: dict[TokenCount, tf.Tensor] = {}
        self._lengths: dict[Item, tf.Tensor] = {}
        self._starts_of_waves: dict[TokenCount, tf.Tensor] = {}
        self._wave_of_tokens: dict[TokenCount, tf.Tensor] = {}

    def copy(self) -> WaveStore:
        """Returns a store that begins with the content of this one."""
        other = WaveStore()
        for name, found in vars(self).items():
            setattr(other, name, dict(found))
        return other

    def keep(self, item: Item, array: tf.TensorArray) -> None:
        """Takes over an array that a loop has filled."""
        self._waves[item] = array
        if isinstance(item, TokenCount):
            self._sizes[item] = array.stack()

    def put(self, save: Save, tensor: tf.Tensor, body: str) -> None:
        """Keeps a value computed for the tokens of all waves, and divides it if loops read it.

        Args:
            save: The instruction that saves the item.
            tensor: The item.
            body: The body of the item.
        """
        item = save.item
        self._all_tokens[item] = tensor
        if not save.divided or isinstance(item, TokenCount):
            return
        tokens = TokenCount(body, region_of(item))
        if isinstance(item, Region):
            inside = TokenCount(body, item)
            first = tf.gather(self._starts(tokens), self._waves_of(inside))
            self._waves[item] = _divided(tensor - first, self.sizes(inside))
        else:
            shape = item.type.tensor_shape()
            self._waves[item] = _divided(tensor, self.sizes(tokens), shape)

    def load(self, item: Item, wave: tf.Tensor | None) -> tf.Tensor:
        """Returns an item for one wave, or for the tokens of all waves if `wave` is None."""
        if wave is not None:
            if isinstance(item, TokenCount):
                return tf.gather(self.sizes(item), wave)
            return self._waves[item].read(wave)
        if item not in self._all_tokens:
            if isinstance(item, TokenCount):
                self._all_tokens[item] = tf.reduce_sum(self.sizes(item))
            else:
                self._all_tokens[item], self._lengths[item] = joined(self._waves[item])
        return self._all_tokens[item]

    def measure(self, tokens: TokenCount, item: Item) -> None:
        """Records the number of a body's tokens in each wave, from a value that has been loaded."""
        self._sizes[tokens] = tf.cast(self._lengths[item], tf.int32)

    def sizes(self, tokens: TokenCount) -> tf.Tensor:
        """Returns the number of tokens in each wave, int32 `[waves]`."""
        if tokens not in self._sizes:
            if tokens in self._all_tokens:  # There are no waves.
                self._sizes[tokens] = tf.reshape(self._all_tokens[tokens], [1])
            elif isinstance(tokens.region, Region):
                outer = self.sizes(TokenCount(tokens.body, tokens.region.parent))
                waves = self._waves_of(tokens)
                self._sizes[tokens] = tf.math.unsorted_segment_sum(
                    tf.ones_like(waves), waves, tf.size(outer)
                )
        return self._sizes[tokens]

    def _starts(self, tokens: TokenCount) -> tf.Tensor:
        """For each wave, the number of tokens before it, int32 `[waves]`."""
        if tokens not in self._starts_of_waves:
            starts = tf.cumsum(self.sizes(tokens), exclusive=True)
            self._starts_of_waves[tokens] = starts
        return self._starts_of_waves[tokens]

    def _waves_of(self, tokens: TokenCount) -> tf.Tensor:
        """The wave of each token of a region or a body, int32 `[tokens]`."""
        if tokens not in self._wave_of_tokens:
            region = tokens.region
            if tokens in self._sizes or region is None:
                found = row_ids(self.sizes(tokens))
            else:
                outer = self._waves_of(TokenCount(tokens.body, region.parent))
                found = tf.gather(outer, self._all_tokens[region])
            self._wave_of_tokens[tokens] = found
        return self._wave_of_tokens[tokens]


@dataclass(eq=False)
class WaveRegisters(Registers):
    """The values that a segment has computed so far.

    Args:
        graph: The program.
        body: The body of the segment.
        shared: The tensors of SHARED values.
        store: The values that other segments have saved.
        wave: The number of the wave, an int32 scalar; None for the tokens of all waves.
    """

    store: WaveStore
    wave: tf.Tensor | None

    def __post_init__(self) -> None:
        super().__post_init__()
        self.returns: dict[Returned, Tensors] = {}

    def _run_save(self, save: Save) -> None:
        """Keeps a value that is known for all waves; loops keep the values of single waves."""
        if self.wave is None:
            self.store.put(save, self.get(save.item), self.body)

    def _run_receive(self, receive: Receive) -> None:
        counts = [num_rows(self.given[0])] if receive.tokens else []
        self._set(receive, [*counts, *self.given])

    def _run_returned(self, returned: Returned) -> None:
        pairs = zip(returned.values, self.returns[returned], strict=True)
        self._set(returned, [tensor for value, tensor in pairs if value])

    def _run_load(self, load: Load) -> None:
        self._set(load, [self.store.load(load.item, self.wave)])

    def _run_measure(self, measure: Measure) -> None:
        if isinstance(measure.item, Region):
            super()._run_measure(measure)
            return
        self.store.measure(measure.tokens, measure.item)
        self._set(measure, [num_rows(self.get(measure.item))])


def _divided(
    tensor: tf.Tensor, sizes: tf.Tensor, shape: tf.TensorShape = OF_ROWS
) -> Pieces | Slices:
    """Divides rows among the waves, in a form that loops can read without a copy to the host."""
    if host.has_gpu() and tensor.dtype == tf.int32:
        return Slices(tensor, sizes)
    return Pieces(tensor, sizes, shape)
