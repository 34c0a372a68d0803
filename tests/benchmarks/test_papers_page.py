"""Sentences of the page of the papers about its tables, computed from its tables."""

import re
from fractions import Fraction
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[2] / "benchmarks" / "papers.md").read_text(encoding="utf-8")
SECTIONS = dict(re.findall(r"^## [^\n]*: `([\w-]+)`\n(.*?)(?=^## |\Z)", PAGE, re.M | re.S))
WORDS = {"a quarter": Fraction(1, 4)}


def rows(section, *wanted):
    """The rows of a section's tables that have some columns, each by its headings."""
    found, heading = [], None
    for line in SECTIONS[section].splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if not line.startswith("|"):
            heading = None
        elif heading is None:
            heading = cells
        elif not set(line) <= set("|-: ") and set(wanted) <= set(heading):
            found.append(dict(zip(heading, cells, strict=True)))
    assert found
    return found


def number(cell):
    match = re.match(r"[\d,]*\.?\d+", cell)
    return float(match[0].replace(",", "")) if match else None


def said(section, pattern):
    """Parts of a section's sentence at the groups of a pattern; lines may break anywhere."""
    text = " ".join(SECTIONS[section].split())
    match = re.search(pattern, text)
    assert match, f"{section} does not contain: {pattern}"
    return match.groups()


def assert_said(section, pattern, *values):
    """A sentence has these values, rounded to as many digits as it shows."""
    for group, value in zip(said(section, pattern), values, strict=True):
        digits = len(group.partition(".")[2])
        assert float(group) == pytest.approx(value, abs=0.51 * 10.0**-digits)


@pytest.mark.parametrize(
    ("section", "ratio", "above", "below"),
    [
        ("tree-rnn", "recursive / iterative, ours", "recursive, ours", "iterative, ours"),
        ("throughput", "recursive / iterative, ours", "recursive, ours", "iterative, ours"),
        ("throughput", "recursive / unrolled, ours", "recursive, ours", "unrolled, ours"),
        ("folding", "recursive / iterative, ours", "recursive, ours", "iterative, ours"),
        ("folding", "recursive / folding, ours", "recursive, ours", "folding, ours"),
        ("length", "iterative / recursive, ours", "iterative, ours", "recursive, ours"),
        ("growing", "recursive / iterative, ours", "recursive, ours", "iterative, ours"),
        ("growing", "recursive / iterative, theirs", "recursive, theirs", "iterative, theirs"),
        ("folding", "recursive / folding, theirs", "recursive, theirs", "folding, theirs"),
        ("calls", "dynamic / kerasrec, here", "dynamic, here, s", "kerasrec, s"),
        ("epochs", "iterative / recursive, ours", "iterative, ours", "recursive, ours"),
    ],
)
def test_ratios_are_those_of_their_columns(section, ratio, above, below):
    for row in rows(section, ratio, above, below):
        expected = number(row[above]) / number(row[below])
        assert number(row[ratio]) == pytest.approx(expected, rel=0.011), row


def test_gains_of_workers_divide_by_the_one_that_was_measured():
    table = rows("machines", "over one worker, ours")
    alone = number(table[0]["ours"])
    assert table[0]["how"] == "measured" and table[0]["workers"] == "1"
    for row in table:
        gain = number(row["ours"]) / alone
        assert number(row["over one worker, ours"]) == pytest.approx(gain, rel=0.01)
    eight = [number(row["ours"]) / alone for row in table if row["workers"] == "8"]
    pattern = r"predicts ([\d.]+) times .* for eight workers .*, and ([\d.]+) times with"
    assert_said("machines", pattern, *eight)
    (share,) = said("machines", "the second worker added (a quarter)")
    assert number(table[1]["ours"]) / alone - 1 == pytest.approx(float(WORDS[share]), abs=0.02)


def test_what_is_said_of_throughput():
    table = rows("throughput", "recursive / unrolled, ours")
    training, inference = table[: len(table) // 2], table[len(table) // 2 :]

    def ratios(part, way):
        return [number(row[f"recursive / {way}, ours"]) for row in part]

    assert min(ratios(training, "iterative")) > 1
    pattern = r"our recursion is faster than iteration at every size, up to ([\d.]+) times"
    assert_said("throughput", pattern, max(ratios(training, "iterative")))
    assert_said(
        "throughput", r"Ours is up to ([\d.]+) times as fast", max(ratios(inference, "iterative"))
    )
    (percent,) = said("throughput", r"(\d+)% slower than the loop for a TreeRNN at batch 1")
    slower = [row for row in inference if number(row["recursive / iterative, ours"]) < 1]
    assert [(row["model"], row["batch"]) for row in slower] == [("TreeRNN", "1")]
    assert 100 * (1 - min(ratios(inference, "iterative"))) == pytest.approx(
        float(percent), abs=0.51
    )
    for row in rows("throughput", "over", "theirs"):
        part = training if row["mode"] == "training" else inference
        assert number(row["ours"]) == max(ratios(part, row["over"]))
    pattern = r"PyTorch's recursion is up to ([\d.]+) times as fast as kerasrec"
    assert_said("throughput", pattern, 1 / min(ratios(inference, "unrolled")))
    others = training + [row for row in inference if row["batch"] != "1"]
    assert min(ratios(others, "unrolled")) > 1
    pattern = r"in inference from batch 10 on, kerasrec is faster, up to ([\d.]+) times"
    assert_said("throughput", pattern, max(ratios(others, "unrolled")))
    theirs = [row for row in training if number(row["iterative, theirs"])]
    slower = [
        row for row in theirs if number(row["recursive, theirs"]) < number(row["iterative, theirs"])
    ]
    said("throughput", r"their TreeLSTM at batch (25) trains more slowly than by iteration")
    assert [(row["model"], row["batch"]) for row in slower] == [("TreeLSTM", "25")]


def test_what_is_said_of_folding():
    table = rows("folding", "recursive / folding, ours")

    def ratios(mode, way):
        return [number(row[f"recursive / {way}, ours"]) for row in table if row["mode"] == mode]

    training, inference = (ratios(mode, "folding") for mode in ("training", "inference"))
    assert min(training) > 1
    pattern = r"faster than folding by hand at every batch size, up to ([\d.]+) times"
    assert_said("folding", pattern, max(training))
    assert min(inference[1:] + ratios("inference", "iterative")[1:]) > 1
    pattern = r"from batch 10 on, up to ([\d.]+) times as fast as folding by hand"
    assert_said("folding", pattern, max(inference))
    pattern = r"batch 1 it is (\d+)% slower than iteration and (\d+)% slower than folding"
    alone = [ratios("inference", way)[0] for way in ("iterative", "folding")]
    assert_said("folding", pattern, *(100 * (1 - ratio) for ratio in alone))


def test_what_is_said_of_calls_length_and_growing():
    ratios = [number(row["dynamic / kerasrec, here"]) for row in rows("calls", "call")]
    assert_said("calls", r"kerasrec is (\d+) to (\d+) times as fast", min(ratios), max(ratios))
    table = rows("length", "recursive, ours")
    training, inference = table[: len(table) // 2], table[len(table) // 2 :]
    growths = [
        number(training[-1][f"{way}, ours"]) / number(training[0][f"{way}, ours"])
        for way in ("recursive", "iterative")
    ]
    pattern = r"words takes ([\d.]+) times as long as on one of 5, and by iteration ([\d.]+) times"
    assert_said("length", pattern, *growths)
    ratios = [number(row["iterative / recursive, ours"]) for row in inference]
    (words,) = said("length", r"In inference, recursion is faster from (\d+) words on")
    are_long = [number(row["words"]) >= int(words) for row in inference]
    assert [ratio > 1 for ratio in ratios] == are_long
    assert_said("length", r"words on, up to ([\d.]+) times", max(ratios))
    assert_said("length", r"the loop is up to (\d+)% faster", 100 * (1 - min(ratios)))
    alone, many = (number(row["recursive / iterative, ours"]) for row in rows("growing", "batch"))
    pattern = r"Ours is ([\d.]+) times as fast as a loop by hand at batch 1, and ([\d.]+)"
    assert_said("growing", pattern, alone, many)
    assert min(alone, many) > 1


def test_what_is_said_of_batches_and_shapes():
    table = rows("tree-rnn", "recursive / batch 1, ours")
    gains = {(row["mode"], row["batch"]): row for row in table}
    largest = number(gains["training", "25"]["recursive / batch 1, ours"])
    assert_said("tree-rnn", r"trains about (\d+) times as many trees at batch 25", largest)
    theirs = [row["recursive / batch 1, theirs"] for row in table[1:4]]
    said("tree-rnn", r"falls by more than (a quarter)")
    assert max(map(number, theirs)) < 0.78
    ratios = {of: number(row["recursive / iterative, ours"]) for of, row in gains.items()}
    pattern = r"([\d.]+) times as fast at batch 1, and ([\d.]+) times at batch 25"
    assert_said("tree-rnn", pattern, ratios["training", "1"], ratios["training", "25"])
    pattern = r"batch 1 and 5, it is (\d+)% and (\d+)% slower than iteration; from batch 10 on"
    slower = [100 * (1 - ratios["inference", batch]) for batch in ("1", "5")]
    assert_said("tree-rnn", pattern, *slower)
    assert min(ratios["inference", "10"], ratios["inference", "25"]) > 1
    table = rows("shapes", "balanced / linear, ours")
    ours = [number(row["balanced / linear, ours"]) for row in table]
    theirs = [number(row["balanced / linear, theirs"]) for row in table]
    pattern = r"([\d.]+) to ([\d.]+) times, against ([\d.]+) to ([\d.]+) times in the paper"
    assert_said("shapes", pattern, min(ours), max(ours), min(theirs), max(theirs))


def test_what_is_said_of_devices_and_accuracy():
    table = rows("placed", "two workers, ours")
    one, two, workers = (
        [number(row[f"{where}, ours"]) for row in table]
        for where in ("one device", "two devices", "two workers")
    )
    slower = [there / here for there, here in zip(workers, one, strict=True)]
    pattern = r"a call takes ([\d.]+) to ([\d.]+) times as long"
    assert_said("placed", pattern, min(slower), max(slower))
    (sent,) = {number(row["messages, two workers"]) for row in table}
    assert_said("placed", r"sends (\d+) messages, however deep the recursion is", sent)
    turns = {"factorial(5)": 5, "factorial(10)": 10, "fib(5)": 5, "fib(10)": 10, "fib(20)": 20}
    said("placed", r"each turn sends about (eleven) messages, as the two devices of one process")
    for row in table:
        assert number(row["messages, two devices"]) / turns[row["call"]] == pytest.approx(11, abs=1)
    pattern = r"a call takes at most ([\d.]+) times as long as on one device"
    assert_said("placed", pattern, max(a / b for a, b in zip(two, one, strict=True)))
    reached = {row["model"]: row for row in rows("accuracy", "epoch, kerasrec")}
    ratios = {model: number(row["iterative / recursive, ours"]) for model, row in reached.items()}
    said("accuracy", r"a TreeLSTM reaches 93 % in less than (half) the time")
    assert ratios["TreeLSTM"] > 2
    assert_said("accuracy", r"and ([\d.]+) times as fast by recursion", ratios["RNTN"])
    said("accuracy", r"An RNTN reaches it in its (second) epoch")
    assert reached["RNTN"]["epoch, kerasrec"] == "2"
