"""SIGTERM during training: noted when it comes, obeyed between steps.

`tf.distribute.experimental.PreemptionCheckpointHandler` does not support `ParameterServerStrategy`,
and replaces the program's own handler for good.
"""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any

import tensorflow as tf

from kerasrec._src.training.strategies import asking_all_workers, is_of_workers

# The interval at which workers ask each other; a step may take longer.
SECONDS_BETWEEN_QUESTIONS = 1.0
MOST_STEPS_BETWEEN_QUESTIONS = 1000
# The answers of a worker.
GOES_ON, ENDS, HAS_A_HANDLER = range(3)


class _End(BaseException):
    """Leaves the training loop, before the signal ends the process."""


class Termination(contextlib.AbstractContextManager["Termination"]):
    """Holds SIGTERM back until the end of a step, and saves; then the signal has its usual effect.

    The usual effect is that it ends the process, or calls the handler that the program has set; if
    that returns, training goes on. If the program ignores the signal, it stays ignored. Python
    calls handlers only in the main thread: in another thread nothing is changed.

    Workers that step together save together, so they ask each other once per second, or after each
    step that takes longer. When one of them ends, the others cannot go on.

    Args:
        strategy: The model's strategy.
        is_awaited: Whether there is something to save; otherwise nothing is changed.
    """

    def __init__(self, strategy: tf.distribute.Strategy, is_awaited: bool):
        self._is_awaited = is_awaited
        self._of_workers = is_of_workers(strategy)
        if self._of_workers:
            self._ask = asking_all_workers(strategy, 2)
            self._replicas_here = len(strategy.extended.worker_devices)
        self._frame: FrameType | None = None
        self._asked = False
        self._before: Any = signal.SIG_IGN
        self._steps, self._number_asked, self._since = 0, 1, time.monotonic()

    def __enter__(self) -> Termination:
        if self._is_awaited and threading.current_thread() is threading.main_thread():
            self._before = signal.getsignal(signal.SIGTERM)
            if self._is_taken:
                signal.signal(signal.SIGTERM, self._note)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if not self._is_taken:
            return
        signal.signal(signal.SIGTERM, self._before)
        if self._asked:
            if error is not None and not isinstance(error, _End) and not callable(self._before):
                traceback.print_exception(kind, error, trace)  # Otherwise it would be lost.
            self._do_as_before()

    def obey_after(self, save: Callable[[], None]) -> None:
        """Saves if a worker was asked to end, and lets the signal have its effect there.

        All workers call this between two steps.

        Args:
            save: Writes a checkpoint if the weights are finite.

        Raises:
            RuntimeError: If another worker ends.
        """
        answers = self._answers() if self._is_awaited else []
        if not any(answers):
            return
        save()
        if self._of_workers:
            # No worker ends before all have saved. When the first ends, the others' question may
            # fail.
            with contextlib.suppress(tf.errors.OpError):
                self._ask([0, 0])
        if self._asked and not callable(self._before):
            raise _End
        if self._asked:
            self._do_as_before()
        elif ENDS in answers:
            worker = answers.index(ENDS) // self._replicas_here
            raise RuntimeError(
                f"Worker {worker} was asked to end (SIGTERM), and training cannot go on without "
                "it. Start all workers again: they resume from the last checkpoint."
            )

    @property
    def _is_taken(self) -> bool:
        return self._before == signal.SIG_DFL or callable(self._before)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self._asked, self._frame = True, frame

    def _do_as_before(self) -> None:
        """Takes the action that the signal would have taken when it came."""
        self._asked = False
        if callable(self._before):
            self._before(signal.SIGTERM, self._frame)
            return
        for stream in (sys.stdout, sys.stderr):  # The signal ends Python before it would.
            with contextlib.suppress(Exception):
                stream.flush()
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.raise_signal(signal.SIGTERM)

    def _answers(self) -> list[int]:
        """The answer of each worker; all workers ask at the same steps."""
        own = (HAS_A_HANDLER if callable(self._before) else ENDS) if self._asked else GOES_ON
        if not self._of_workers:
            return [own]
        self._steps += 1
        if self._steps < self._number_asked:
            return [GOES_ON]
        now = time.monotonic()
        microseconds = min(int(1e6 * (now - self._since) / self._steps), 2**30)
        answers = self._ask([own, microseconds])
        # The number is the same on all workers, since all know how long the slowest takes.
        seconds = max(1, *(took for _, took in answers)) / 1e6
        steps = int(SECONDS_BETWEEN_QUESTIONS / seconds)
        self._number_asked = min(max(1, steps), MOST_STEPS_BETWEEN_QUESTIONS)
        self._steps, self._since = 0, time.monotonic()
        return [answer for answer, _ in answers]
