"""What tests of programs that XLA compiles share."""

import pytest
import tensorflow as tf

from kerasrec.compiled import run


def never_by_waves(monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on a compiled run that waves take over fails."""
    not_inlined = run.not_inlined

    def failing(function):
        def fail():
            with tf.control_dependencies([tf.debugging.Assert(False, ["taken over by waves"])]):
                return function()

        return not_inlined(fail if function.__name__ == "of_waves" else function)

    monkeypatch.setattr(run, "not_inlined", failing)
