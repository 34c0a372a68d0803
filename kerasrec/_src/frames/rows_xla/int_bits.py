"""What one compiled program keeps for the next stays on the device that has computed it.

Where functions begin and end, TensorFlow moves tensors of int32 from a GPU to the host, and each
move waits for all work of the GPU. Other dtypes stay where they are. So the bits of int32 are kept
as uint32.
"""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

from kerasrec._src.emit.results import Tensors
from kerasrec._src.host import ON_GPU


def kept(tensors: Sequence[tf.Tensor]) -> Tensors:
    """Returns the tensors in the dtypes in which they are kept."""
    return [tf.bitcast(one, ON_GPU) if one.dtype == tf.int32 else one for one in tensors]


def restored(tensors: Sequence[tf.Tensor], dtypes: Sequence[tf.DType]) -> Tensors:
    """Returns tensors that were kept, in their own dtypes."""
    pairs = zip(tensors, dtypes, strict=True)
    return [one if one.dtype == dtype else tf.bitcast(one, dtype) for one, dtype in pairs]
