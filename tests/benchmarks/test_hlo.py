"""The ops counted in a program of XLA are those written into it."""

import collections

import pytest
import tensorflow as tf

from benchmarks import hlo
from benchmarks.hlo_text import Part, parts

TEXT = """\
HloModule example, entry_computation_layout={(f32[4,2]{1,0})->f32[4,2]{1,0}}

%fused_scatter (a: f32[4,2], b: s32[1,1], c: f32[1,2]) -> f32[4,2] {
  %a = f32[4,2]{1,0} parameter(0)
  %b = s32[1,1]{1,0} parameter(1)
  %c = f32[1,2]{1,0} parameter(2)
  ROOT %s = f32[4,2]{1,0} scatter(%a, %b, %c), update_window_dims={1}, to_apply=%first
}

%parallel (p: f32[4,2]) -> f32[4,2] {
  %p = f32[4,2]{1,0} parameter(0)
  ROOT %f = f32[4,2]{1,0} fusion(%p), kind=kLoop, calls=%fused_add
}

%fused_add (q: f32[4,2]) -> f32[4,2] {
  %q = f32[4,2]{1,0} parameter(0)
  ROOT %r = f32[4,2]{1,0} add(%q, %q)
}

%inner (t: (s32[], f32[4,2])) -> (s32[], f32[4,2]) {
  %t = (s32[], /*index=1*/f32[4,2]{1,0}) parameter(0)
  %i = s32[] get-tuple-element(%t), index=0
  %x = f32[4,2]{1,0} get-tuple-element(%t), index=1
  %k = f32[4,2]{1,0} copy(%x)
  %n = pred[] copy(%x)
  %y = f32[4,2]{1,0} call(%k), to_apply=%parallel
  %m = f32[4,2]{1,0} custom-call(%y, %y), custom_call_target="__onednn$matmul"
  ROOT %u = (s32[], f32[4,2]{1,0}) tuple(%i, %m)
}

%body (t: (s32[], f32[4,2])) -> (s32[], f32[4,2]) {
  %t = (s32[], f32[4,2]{1,0}) parameter(0)
  %w = (s32[], f32[4,2]{1,0}) while(%t), body=%inner, backend_config={"known_trip_count":{"n":"7"}}
  %z = f32[4,2]{1,0} fusion(%w), kind=kLoop, calls=%fused_scatter
  ROOT %u = (s32[], f32[4,2]{1,0}) tuple(%z, %z)
}

ENTRY %main (p: f32[4,2]) -> f32[4,2] {
  %p = f32[4,2]{1,0} parameter(0)
  %d = f32[4,4]{1,0} dot(%p, %p), lhs_contracting_dims={1}
  %o = s32[8]{0} sort(%p), to_apply=%less
  %w = (s32[], f32[4,2]{1,0}) while(%p), condition=%c, body=%body
  ROOT %g = f32[4,2]{1,0} get-tuple-element(%w), index=1
}
"""


def test_of_each_loop():
    count = collections.Counter
    assert parts(TEXT) == [
        Part(0, 1, count(dots=1, others=1), 0, 0),
        Part(1, None, count(scatters=1), 0, 0),
        Part(2, 7, count(fusions=1, dots=1), 2, 4 * 2 * 4 + 1),
    ]


def test_of_what_tensorflow_compiles():
    @tf.function(jit_compile=True)
    def power(x, kernel):
        def step(turn, x):
            return turn + 1, tf.tanh(x @ kernel)

        return tf.while_loop(lambda turn, x: tf.reduce_sum(x) < 1e3 * turn, step, (1.0, x))

    example = tf.ones([8, 8])
    text = power.experimental_get_compiler_ir(example, example)(stage="optimized_hlo")
    outside, loop = parts(text)
    assert (outside.depth, outside.turns, outside.kernels["dots"]) == (0, 1, 0)
    assert (loop.depth, loop.turns, loop.kernels["dots"]) == (1, None, 1)
    assert loop.kernels.total() > 1


SMALL = ["hlo", "--model", "TreeLSTM", "--batch", "2", "--units", "3"]


@pytest.fixture
def run(monkeypatch, capsys):
    """Returns the program and the loop of each line that a small run prints."""

    def run(*options):
        monkeypatch.setattr("sys.argv", [*SMALL, *options])
        hlo.main()
        lines = [line for line in capsys.readouterr().out.splitlines() if "|" in line]
        return [tuple(cell.strip() for cell in line.split("|")[1:3]) for line in lines[2:]]

    return run


@pytest.mark.slow
def test_a_small_run(run):
    lines = run()
    assert [program for program, loop in lines if loop == "outside"] == list(hlo.PROGRAMS)
    assert any(loop.endswith("depth 1") for _, loop in lines)


@pytest.mark.slow
@pytest.mark.parametrize("mode, num_loops", [("training", 6), ("inference", 3)])
def test_a_gpu_that_is_not_there(run, mode, num_loops):
    """Down, leaves and up; in training also down, and two sums of gradients."""
    pytest.importorskip("jax_plugins.xla_cuda12")
    lines = run("--device", "gpu", "--mode", mode)
    assert lines[0] == (mode, "outside")
    assert len(lines) > num_loops
