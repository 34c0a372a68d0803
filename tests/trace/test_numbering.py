"""Value numbering: which tensors of a graph are known to be equal."""

import tensorflow as tf

from kerasrec._src.trace.numbering import Numbering, step_of


def test_tensors_that_are_computed_in_the_same_way():
    with tf.Graph().as_default() as graph:
        x, y = tf.compat.v1.placeholder(tf.float32, [2]), tf.compat.v1.placeholder(tf.float32, [2])
        number = Numbering(graph).number
        assert number(x) != number(y)
        assert number(tf.identity(x)) == number(x)
        assert list(map(number, tf.identity_n([x, y]))) == [number(x), number(y)]
        assert number(tf.sin(x) + 1.0) == number(tf.sin(x) + 1.0)
        assert number(x - y) != number(y - x)
        assert number(tf.reduce_sum(x, 0)) != number(tf.reduce_sum(x, 0, keepdims=True))
        assert number(tf.random.uniform([2])) != number(tf.random.uniform([2]))


def test_functions_are_compared_by_what_they_compute():
    with tf.Graph().as_default() as graph:
        x = tf.compat.v1.placeholder(tf.float32, [])

        def chosen(function):
            return tf.cond(x > 0.0, lambda: function(x), lambda: x)

        number = Numbering(graph).number
        assert number(chosen(tf.sin)) == number(chosen(lambda x: tf.sin(tf.identity(x))))
        assert number(chosen(tf.sin)) != number(chosen(tf.cos))


def test_numbers_of_another_graph_and_of_tensors_that_are_equal():
    with tf.Graph().as_default() as reference:
        given = tf.compat.v1.placeholder(tf.float32, [])
        square = given * given
        end = square + 1.0
    steps = [step_of(operation) for operation in reference.get_operations()[1:]]
    with tf.Graph().as_default() as graph:
        x, y = (tf.compat.v1.placeholder(tf.float32, []) for _ in range(2))
        first = x * x
        last = first + 1.0
        numbering = Numbering(graph)
        known = {given.name: numbering.number(x)}
        found = numbering.numbers_as(steps, known)
        assert [found[square.name], found[end.name]] == list(map(numbering.number, [first, last]))
        assert numbering.number(first) != numbering.number(y)
        numbering.numbers_as(steps, known, {square.name: numbering.number(y)})
        numbering.again_from(first.op)
        assert numbering.number(first) == numbering.number(y)
        assert numbering.number(last) == numbering.number(y + 1.0)
