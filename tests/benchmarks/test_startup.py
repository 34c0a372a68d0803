"""Results of the section `startup` from seconds."""

from benchmarks import startup


def test_parts_and_what_comes_before_the_second_step():
    turns = [
        {"import keras": 2.0, "first step": seconds, "second step": 0.5, "first evaluation": 1.0}
        for seconds in (3, 5, 9)
    ]
    rows = startup.rows_of(turns, 150)
    text = startup.markdown({"rows": rows})
    assert "## TreeLSTM, 150 units" in text
    assert "| first step | 5.00 | 3.00 | 9.00 |" in text
    assert "| all before the second step | 7.00 | 5.00 | 11.0 |" in text
