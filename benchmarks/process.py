"""An object in a separate process, which may run another Python.

TensorFlow and PyTorch cannot be imported together, and each framework sets threads as it likes.
"""

import contextlib
import importlib
import os
import pickle
import subprocess
import sys
import traceback
from pathlib import Path

ROOT = Path(__file__).parents[1]
# The environment in which a framework sees no GPU.
NO_GPU = {"CUDA_VISIBLE_DEVICES": ""}


class Failed(Exception):
    """A call of the object failed; the message has the reason."""


class Process(contextlib.AbstractContextManager):
    """Makes an object in a new process, and calls its methods there.

    Args:
        factory: the function that makes the object, as `"module:name"`.
        *arguments: of the factory. They, and whatever is passed later, must be picklable.
        python: path of the Python to run; this one by default.
        environment: variables to set.
    """

    def __init__(self, factory, *arguments, python=None, environment=None):
        program = f"from benchmarks.process import serve; serve({factory!r})"
        self._process = subprocess.Popen(
            [python or sys.executable, "-c", program],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=ROOT,
            env={**os.environ, **(environment or {})},
        )
        try:
            self._ask(arguments)
        except Failed:
            self.close()
            raise

    def call(self, method, *arguments):
        """Calls a method.

        Raises:
            Failed: if the method raised an exception, or the process is gone.
        """
        return self._ask((method, *arguments))

    def close(self):
        self._process.kill()
        self._process.wait()
        self._process.stdin.close()
        self._process.stdout.close()

    def __exit__(self, *_):
        self.close()

    def _ask(self, message):
        try:
            # Another Python may not know the newest protocol.
            pickle.dump(message, self._process.stdin, protocol=4)
            self._process.stdin.flush()
            answer, problem = pickle.load(self._process.stdout)
        except (BrokenPipeError, EOFError):
            raise Failed(f"its process ended with code {self._process.wait()}") from None
        if problem is not None:
            raise Failed(problem)
        return answer


def serve(factory):
    """Answers the calls of a `Process` until it closes."""
    questions = sys.stdin.buffer
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    # Output must not come between answers.
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    made = None

    def make(*arguments):
        nonlocal made
        module, name = factory.split(":")
        made = getattr(importlib.import_module(module), name)(*arguments)

    while True:
        try:
            message = pickle.load(questions)
        except EOFError:
            return
        try:
            if made is None:
                answer, problem = make(*message), None
            else:
                answer, problem = getattr(made, message[0])(*message[1:]), None
        except Exception as error:
            answer, problem = None, _in_words(error)
        pickle.dump((answer, problem), answers, protocol=4)
        answers.flush()


def _in_words(error):
    if isinstance(error, ModuleNotFoundError):
        return f"not installed: {error.name}"
    if isinstance(error, NotImplementedError):
        return str(error)
    traceback.print_exc()
    first_line, *_ = f"{error}".splitlines() or [""]
    return f"{type(error).__name__}: {first_line[:200]}"
