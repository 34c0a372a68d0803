"""Objects in separate processes."""

import sys

import pytest

from benchmarks.process import Failed, Process


def test_methods_are_called_there():
    with Process("collections:Counter", "abcb") as counter:
        assert counter.call("most_common", 1) == [("b", 2)]
        counter.call("update", "aaa")
        assert counter.call("total") == 7


def test_failures_come_back_in_words():
    with Process("builtins:list") as numbers:
        with pytest.raises(Failed, match="ValueError: 3 is not in list"):
            numbers.call("index", 3)
        numbers.call("append", 3)
        assert numbers.call("index", 3) == 0


def test_what_is_printed_comes_not_between():
    with Process("code:InteractiveInterpreter") as interpreter:
        assert interpreter.call("runsource", "print('loud')") is False


def test_what_is_not_installed_is_named():
    with pytest.raises(Failed, match="not installed: nothing_of_this_name"):
        Process("nothing_of_this_name:Baseline")


def test_end_of_the_process():
    with (
        Process("code:InteractiveInterpreter") as interpreter,
        pytest.raises(Failed, match="its process ended with code 3"),
    ):
        interpreter.call("runsource", "import os; os._exit(3)")


def test_variables_are_set():
    with Process("os:getenv", "WHO", python=sys.executable, environment={"WHO": "me"}) as value:
        assert value.call("upper") == "ME"
