"""The blocks of the machine of queues are the interpreter's tokens, in an order that they allow."""

from collections import Counter, defaultdict

import pytest
import tensorflow as tf

from kerasrec._src.emit.limits import Limits
from kerasrec._src.engine.shared import shared_tensors
from kerasrec._src.frames.layout import FRAME
from kerasrec._src.frames.rows_tf.queue_run import QueueRun
from kerasrec._src.graph.carried import with_carried
from kerasrec._src.graph.graph import present
from kerasrec._src.graph.interpreter import interpret
from kerasrec._src.schedule.build import build
from kerasrec._src.schedule.instructions import HandOn, Send
from tests.programs import each

LIMITS = Limits("program", 100_000, 100_000, 1 << 40)


def has_rows(program):
    graph = program.function.tagged_graph(*program.inputs)
    return any(node.op == "ENTER_ROWS" for body in graph.bodies.values() for node in body.nodes)


def blocks_of(program, schedule):
    """For each block in order: body, place, and the frames as (root token, tag)."""
    names = list(schedule.graph.bodies)
    sites = schedule.graph.call_sites

    @tf.function(autograph=False)
    def run():
        found = QueueRun(schedule, shared_tensors(schedule.graph), LIMITS)
        found.forward(with_carried(schedule.graph, [tf.constant(i) for i in program.flat_inputs]))
        trace = found.store.trace
        steps = tf.range(trace.num_steps)
        numbers = tf.map_fn(
            trace.numbers.read, steps, fn_output_signature=tf.RaggedTensorSpec([None], tf.int32)
        )
        frames = {name: found.store.done["frame", name][:, : len(FRAME)] for name in names}
        return trace.places.stack(), numbers, frames

    places, numbers, frames = run()
    frames = {name: rows.numpy().tolist() for name, rows in frames.items()}

    def tag(name, number):
        """The root token of a frame, and its tag."""
        caller, label, _ = frames[name][number]
        if sites[label].caller is None:
            return number, (label,)
        root, rest = tag(sites[label].caller, caller)
        return root, (label, *rest)

    order = schedule.sections[0].order
    return [
        (*order[place], [tag(order[place][0], number) for number in block])
        for place, block in zip(places.numpy(), numbers.to_list(), strict=True)
    ]


@each(
    lambda program: program.num_rounds > 1 and not program.is_deep,
    few=["ackermann"],
    many=[],
)
def test_blocks_are_the_tokens_of_the_interpreter(program):
    if has_rows(program):
        pytest.skip("tags of entries are not read here")
    schedule = build(program.function.extended_graph(*program.inputs))
    graph = schedule.graph
    found = interpret(graph, program.flat_inputs)
    blocks = blocks_of(program, schedule)
    at = {}
    for number, (name, place, tokens) in enumerate(blocks):
        for token in tokens:
            assert (name, place, token) not in at, "a frame stands in two blocks of a place"
            at[name, place, token] = number
    handed_on = {one.site for _, _, one in schedule.instructions() if isinstance(one, HandOn)}
    sends = [
        (segment.body, segment.place, site)
        for section, segment, one in schedule.instructions()
        if isinstance(one, Send) and not section.sweep
        for site in one.sites
    ]
    for name, body in graph.bodies.items():
        called = Counter(token for body, place, token in at if (body, place) == (name, 0))
        assert called == Counter(found.tokens[body.parameters[0]])
    done = {}

    def when_done(name, token):
        """The last block of a frame: its own, or that of its tail call."""
        if (name, token) not in done:
            root, tag = token
            last = max(place for body, place, other in at if (body, other) == (name, token))
            tails = [
                (site.callee, (root, (site.label, *tag)))
                for body, place, site in sends
                if body == name and site in handed_on
            ]
            ends = [when_done(*tail) for tail in tails if (tail[0], 0, tail[1]) in at]
            done[name, token] = max([at[name, last, token], *ends])
        return done[name, token]

    for name, place, site in sends:
        for token in found.tokens[present(site.linkages[0].calls)[0]]:
            root, tag = token
            callee = (site.callee, (root, (site.label, *tag)))
            assert at[name, place, token] < at[callee[0], 0, callee[1]]
            if site not in handed_on:
                assert when_done(*callee) < at[name, place + 1, token]
    places = defaultdict(set)
    for name, place, token in at:
        places[name, token].add(place)
    for (name, token), found_places in places.items():
        assert found_places == set(range(len(found_places)))
        steps = [at[name, place, token] for place in sorted(found_places)]
        assert steps == sorted(steps)
