"""Programs that mix the rows of tokens are refused; what keeps rows apart is right."""

import numpy as np
import pytest
import tensorflow as tf

import kerasrec
from tests.parameters import few_of


def float_of(size):
    return tf.cast(size, tf.float32)


def repeated(body):
    """A body three times."""
    return lambda x: tf.while_loop(lambda i, _: i < 3, lambda i, y: (i + 1, body(y)), [0, x])[1]


CHILDREN = tf.ragged.constant([[1, 2, 3], [], [4, 5], [5], [], []], dtype=tf.int32)


OF_ALL_ENTRIES = {
    "softmax": tf.nn.softmax,
    "share of the total": lambda values: values / tf.reduce_sum(values),
    "norm": lambda values: tf.exp(tf.nn.l2_loss(values) * values[:, None])[:, 0],
    "sums so far": tf.cumsum,
    "order": tf.sort,
    "ranks": lambda values: float_of(tf.argsort(tf.argsort(values))),
    "the other way round": lambda values: values[::-1] * values,
    "differences": lambda values: tf.concat([values[:1], values[1:] - values[:-1]], 0),
    "shift": lambda values: tf.roll(values, 1, 0) + tf.pad(values, [[1, 0]])[:-1],
    "the first entry": lambda values: values - values[0],
    "chosen entries": lambda values: values * tf.reduce_sum(tf.gather(values, [0, 1])),
    "pairs": lambda values: tf.linalg.matvec(values[:, None] - values, values),
    "attention": lambda values: tf.squeeze(
        tf.nn.softmax(values[:, None] * values[None]) @ values[:, None], 1
    ),
    "einsum": lambda values: tf.einsum("i,j->i", values, values),
    "convolution": lambda values: tf.nn.conv1d(
        values[None, :, None], tf.ones([3, 1, 1]), 1, "SAME"
    )[0, :, 0],
    "integers": lambda values: float_of(tf.cumsum(tf.cast(values, tf.int32))),
    "whether there is one": lambda values: tf.where(tf.reduce_any(values > 4), values, -values),
    "positions": lambda values: values * float_of(tf.range(tf.size(values))),
    "how many entries there are": lambda values: values / float_of(tf.size(values)),
    "a sum so far": lambda values: tf.scan(lambda total, value: total + value, values),
    "a loop until all are done": lambda values: tf.while_loop(
        lambda x: tf.reduce_any(x > 1), lambda x: [x / 2], [values]
    )[0],
}


def starts(rows):
    """Whether an entry is the first of its row."""
    ids = rows.value_rowids()
    return tf.concat([tf.fill([tf.minimum(tf.size(ids), 1)], True), ids[1:] != ids[:-1]], 0)


def exponentials(rows):
    return rows.with_values(tf.exp(rows.values - tf.reduce_max(rows.values)))


def within_a_row(rows):
    """Whether two entries are of the same row, `[entries, entries]`."""
    ids = rows.value_rowids()
    return ids[:, None] == ids


WITHIN_ROWS = {
    "sums so far": lambda rows: (
        tf.cumsum(rows.values)
        - tf.gather(
            tf.gather(tf.concat([[0.0], tf.cumsum(rows.values)], 0), rows.row_starts()),
            rows.value_rowids(),
        )
    ),
    "shift": lambda rows: tf.where(
        starts(rows), 0.0, tf.concat([rows.values[:1], rows.values[:-1]], 0)
    ),
    "order": lambda rows: tf.gather(
        rows.values, tf.argsort(rows.values + 100 * float_of(rows.value_rowids()))
    ),
    "softmax": lambda rows: (
        exponentials(rows).values
        / tf.gather(tf.reduce_sum(exponentials(rows), axis=1), rows.value_rowids())
    ),
    "attention": lambda rows: tf.linalg.matvec(
        tf.nn.softmax(
            tf.where(within_a_row(rows), rows.values[:, None] * rows.values, -np.inf), axis=1
        ),
        rows.values,
    ),
    "attention in a batch of one": lambda rows: tf.squeeze(
        tf.nn.softmax(
            tf.where(
                within_a_row(rows)[None],
                tf.matmul(rows.values[None, :, None], rows.values[None, :, None], transpose_b=True),
                -1e9,
            )
        )
        @ rows.values[None, :, None],
        [0, 2],
    ),
    "pairs": lambda rows: tf.reduce_sum(
        tf.where(within_a_row(rows), tf.abs(rows.values[:, None] - rows.values), 0.0), 1
    ),
    "a map": lambda rows: tf.map_fn(tf.sqrt, rows.values),
    "a loop": lambda rows: repeated(tf.sin)(rows.values),
    "a table": lambda rows: tf.gather(tf.range(9.0) ** 2, tf.cast(rows.values, tf.int32)),
    "columns": lambda rows: tf.reduce_sum(
        tf.concat([rows.values[:, None], rows.values[:, None] ** 2], 1), 1
    ),
}


def sum_of_rows(of_values, of_rows=lambda rows: rows):
    @kerasrec.recursive(returns=tf.TensorSpec([], tf.float32))
    def f(node):
        rows = tf.ragged.map_flat_values(of_values, f(tf.gather(CHILDREN, node)))
        return 1.0 + tf.reduce_sum(of_rows(rows), axis=1)

    return f


@pytest.mark.parametrize("name", few_of(OF_ALL_ENTRIES, "share of the total", "order"))
def test_what_mixes_rows_is_refused(name):
    of_values = OF_ALL_ENTRIES[name]
    one, other = tf.constant([3.0, 1.0]), tf.constant([2.0, 5.0, 4.0])
    together, alone = of_values(tf.concat([one, other], 0)), of_values(one)
    assert not np.allclose(together[:2], alone) or not np.allclose(together[2:], of_values(other))
    with pytest.raises(kerasrec.TraceError, match="entries of all tokens' rows"):
        sum_of_rows(of_values)([0, 2])


PLACES = {
    "places of entries": lambda rows: tf.ragged.range(rows.row_starts(), rows.row_limits()),
    "as many as entries before": lambda rows: tf.ragged.range(rows.row_starts()),
    "rows of a table by place": lambda rows: tf.gather(ROWS, rows.row_starts() % 4),
    "twice the place": lambda rows: tf.ragged.range(rows.row_starts(), 2 * rows.row_limits()),
}


@pytest.mark.parametrize("name", few_of(PLACES, "places of entries"))
def test_rows_that_depend_on_places_are_refused(name):
    f = kerasrec.recursive(lambda node: tf.reduce_sum(PLACES[name](tf.gather(ROWS, node)), axis=1))
    with pytest.raises(kerasrec.TraceError, match="not one value per token"):
        f([0, 1, 2])


@pytest.mark.many
def test_sums_of_ranges_that_mix_rows_are_refused():
    @kerasrec.recursive
    def f(n):
        rows = tf.ragged.range(n)
        return tf.reduce_sum(rows.with_values(tf.cumsum(rows.values)), axis=1)

    with pytest.raises(kerasrec.TraceError, match="entries of all tokens' rows"):
        f([2, 3])


@pytest.mark.many
@pytest.mark.parametrize("of_all", [tf.nn.softmax, lambda scores: scores / tf.reduce_sum(scores)])
def test_a_total_of_what_regards_rows_is_refused(of_all):
    """As attention by a query of each token is, with a softmax of all entries."""

    @kerasrec.recursive
    def f(node):
        rows = tf.gather(ROWS, node)
        query = tf.gather(tf.range(4.0), node)
        scores = rows.values * tf.gather(query, rows.value_rowids())
        return tf.reduce_sum(rows.with_values(of_all(scores)), axis=1)

    with pytest.raises(kerasrec.TraceError, match="entries of all tokens' rows"):
        f([0, 1, 2])


@pytest.mark.many
def test_a_slice_of_what_mixes_rows_is_refused():
    f = sum_of_rows(tf.cumsum, lambda rows: rows[:, 1:])
    with pytest.raises(kerasrec.TraceError, match="entries of all tokens' rows"):
        f([0, 2])


def test_a_map_of_what_mixes_rows_is_refused():
    f = sum_of_rows(tf.nn.softmax, lambda rows: kerasrec.map_fn(tf.exp, rows))
    with pytest.raises(kerasrec.TraceError, match=r"map_fn at .* from those of all tokens' rows"):
        f([0, 2])


ROWS = tf.ragged.constant([[3, 1, 2], [], [5, 4], [1, 6, 2, 7]], dtype=tf.float32)


@pytest.mark.parametrize("name", few_of(WITHIN_ROWS, "sums so far", "shift"))
def test_what_regards_rows_is_right(name):
    @kerasrec.recursive
    def weighted_sum(node):
        rows = tf.gather(ROWS, node)
        found = rows.with_values(WITHIN_ROWS[name](rows) * (1 + tf.sqrt(rows.values)))
        return tf.reduce_sum(found, axis=1)

    alone = [
        tf.reduce_sum(WITHIN_ROWS[name](row) * (1 + tf.sqrt(row.values)))
        for row in (ROWS[place : place + 1] for place in range(4))
    ]
    np.testing.assert_allclose(weighted_sum([0, 1, 2, 3]), alone, rtol=1e-5)
