import pickle

import pytest

from kerasrec.datasets import MalformedFileError, MalformedFileWarning


@pytest.mark.parametrize("kind", [MalformedFileError, MalformedFileWarning])
def test_problems_go_with_the_message_to_other_processes(kind):
    again = pickle.loads(pickle.dumps(kind("2 malformed line(s)", ["a:1: x", "a:2: y"])))
    assert str(again) == "2 malformed line(s)"
    assert again.problems == ["a:1: x", "a:2: y"]
