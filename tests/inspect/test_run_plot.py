"""A run's picture shows the run's tokens and depths, however short or long it was."""

import sys

import numpy as np
import pytest

from tests import programs
from tests.parameters import few_of

RUNS = {
    "one function": lambda: programs.fib.run_trace(9),
    "several functions, some hoisted": lambda: programs.both_users.run_trace([0.3, 5.1]),
    "more steps than are drawn": lambda: programs.chain.run_trace(0.5, 3_000),
    "no token": lambda: programs.fib.run_trace(np.zeros([0], np.int32)),
}


def drawn(trace, path, monkeypatch):
    """The axes of tokens and of depth that are written to a file, and the file's pixels."""
    figure = pytest.importorskip("matplotlib.figure", reason="Matplotlib is not there")
    image = pytest.importorskip("matplotlib.image")
    written, save = [], figure.Figure.savefig

    def keep(self, *arguments, **options):
        written.append(self)
        save(self, *arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(figure.Figure, "savefig", keep)
        trace.plot(path)
    return *written[0].axes, image.imread(path)


def areas(axes):
    """By label, the height of each area, and the edges of its steps."""
    found = {patch.get_label(): patch.get_data() for patch in axes.patches}
    return {label: (data.values - data.baseline, data.edges) for label, data in found.items()}


@pytest.mark.parametrize("name", few_of(RUNS, many=["no token"]))
def test_areas_are_tokens_and_the_line_is_the_depth(name, tmp_path, monkeypatch):
    trace = RUNS[name]()
    above, below, pixels = drawn(trace, tmp_path / "run.png", monkeypatch)
    num_steps = max(1, trace.num_steps)
    tokens = {function: np.zeros(num_steps) for function in trace.calls}
    depths = np.full(num_steps, np.nan)
    for step in trace.steps:
        if step.depth is not None:  # Otherwise it is hoisted, and stands next to the waves.
            tokens[step.function][step.step] = step.tokens
            depths[step.step] = step.depth
    (line,) = below.patches
    found = areas(above)
    assert list(found) == [f"{name}: {calls:,} calls" for name, calls in trace.calls.items()]
    for (heights, edges), expected in zip(found.values(), tokens.values(), strict=True):
        np.testing.assert_array_equal(edges, line.get_data().edges)
        assert (edges[0], edges[-1]) == (-0.5, num_steps - 0.5)
        if name == "more steps than are drawn":  # One step stands for its neighbors.
            assert len(heights) == 1500 < num_steps
            expected, depths = (
                values[np.ceil(edges[:-1]).astype(int)] for values in (expected, depths)
            )
        np.testing.assert_array_equal(heights, expected)
    np.testing.assert_array_equal(line.get_data().values, depths)
    # The file has the drawing, at 150 dots per inch, on white.
    assert pixels.shape[:2] == (825, 1350)
    assert (pixels[..., :3] < 0.2).all(axis=-1).sum() > 500
    assert (pixels[..., :3] > 0.99).all(axis=-1).mean() > 0.3


@pytest.mark.many
def test_text_of_the_picture(tmp_path):
    pytest.importorskip("matplotlib", reason="Matplotlib is not there")
    import matplotlib

    with matplotlib.rc_context({"svg.fonttype": "none"}):
        programs.both_users.run_trace([0.3, 5.1]).plot(tmp_path / "run.svg")
    text = (tmp_path / "run.svg").read_text()
    for words in ("both_users: 23 calls", "halve: 17 calls", "hoisted 0", "step of the run"):
        assert words in text


def test_without_matplotlib(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ImportError, match="pip install matplotlib"):
        programs.fib.run_trace(3).plot(tmp_path / "run.png")
