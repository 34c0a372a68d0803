"""What tests of programs that XLA compiles share."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import tensorflow as tf

from kerasrec.compiled import run


@contextmanager
def never_by_waves() -> Iterator[None]:
    """Compiled runs that are traced in here fail where waves take them over."""
    not_inlined = run.not_inlined

    def failing(function: Callable) -> Any:
        def fail() -> Any:
            with tf.control_dependencies([tf.debugging.Assert(False, ["taken over by waves"])]):
                return function()

        return not_inlined(fail if function.__name__ == "of_waves" else function)

    with mock.patch.object(run, "not_inlined", failing):
        yield
