"""The type of a value on an edge of a graph."""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass

import tensorflow as tf

Shape = tuple[int | None, ...] | None

_SHORT_NAMES = {
    "float16": "f16",
    "bfloat16": "bf16",
    "float32": "f32",
    "float64": "f64",
    "int8": "i8",
    "int16": "i16",
    "int32": "i32",
    "int64": "i64",
    "uint8": "u8",
    "complex64": "c64",
    "complex128": "c128",
}


class Kind(enum.Enum):
    """How a value relates to the tokens that flow through a graph.

    TOKEN: one value for each token; the tensor has a leading token axis.
    SHARED: one value for all tokens, whatever their tags (a constant, a variable, a tensor the
      function closes over: the outer references of Kostopoulou et al.).
    WAVE: computed from tokens, but not one value per token, such as the number of tokens that
      `tf.shape(x)[0]` reads. It means nothing outside the place that computed it.
    """

    TOKEN = "token"
    SHARED = "shared"
    WAVE = "wave"


@dataclass(frozen=True)
class Type:
    """Dtype, shape and kind of a value.

    Args:
        dtype: The `tf.DType`.
        shape: For a TOKEN, the shape of one token's value, without the token axis; otherwise the
          shape of the tensor. None if the rank is unknown.
        kind: See `Kind`.
    """

    dtype: tf.DType
    shape: Shape
    kind: Kind = Kind.TOKEN

    @classmethod
    def of(cls, tensor: tf.Tensor, kind: Kind) -> Type:
        """Returns the type of a tensor that is known to be of the given kind."""
        shape = shape_of(tensor.shape)
        if kind is Kind.TOKEN and shape is not None:
            shape = shape[1:]
        return cls(tensor.dtype, shape, kind)

    @property
    def is_differentiable(self) -> bool:
        """Whether values of this type have gradients."""
        return self.dtype.is_floating or self.dtype.is_complex

    @property
    def is_static(self) -> bool:
        """Whether every dim of the shape is known."""
        return self.shape is not None and None not in self.shape

    def tensor_shape(self) -> tf.TensorShape:
        """Returns the shape of the tensor that carries this value, token axis included."""
        if self.shape is None:
            return tf.TensorShape(None)
        lead = (None,) if self.kind is Kind.TOKEN else ()
        return tf.TensorShape(lead + self.shape)

    def tensor_spec(self, name: str | None = None) -> tf.TensorSpec:
        """Returns the spec of the tensor that carries this value, token axis included."""
        return tf.TensorSpec(self.tensor_shape(), self.dtype, name)

    @property
    def num_bytes(self) -> int:
        """The size of the value in bytes, for a TOKEN per token; 0 if a dim is open."""
        return int(self.dtype.size) * math.prod(dim or 0 for dim in self.shape or ())

    def as_rows(self) -> Type:
        """Returns, for a TOKEN, the type of a WAVE tensor with any number of such values."""
        return Type(self.dtype, shape_of(self.tensor_shape()), Kind.WAVE)

    def accepts(self, other: Type) -> bool:
        """Whether a value of type `other` may be used where this type is expected."""
        return self.dtype == other.dtype and tf.TensorShape(self.shape).is_compatible_with(
            tf.TensorShape(other.shape)
        )

    def __str__(self) -> str:
        name = _SHORT_NAMES.get(self.dtype.name, self.dtype.name)
        if self.shape is None:
            dims = "..."
        else:
            dims = ",".join("?" if dim is None else str(dim) for dim in self.shape)
        return f"{name}[{dims}]"


def shape_of(shape: tf.TensorShape) -> Shape:
    """Returns a TensorFlow shape as a tuple; None for an unknown rank."""
    return None if shape.rank is None else tuple(shape.as_list())
