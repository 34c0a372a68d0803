"""The gallery: its blocks run, and its pictures show the graphs that they name."""

import re
from pathlib import Path

import pytest

from docs.draw_front_page import FRAMEWORKS, TWINS, speeds, waves_of
from docs.draw_gallery import PAGE, PICTURES, digest, drawn_from, graphs_of
from docs.run_pages import run
from kerasrec.datasets import load_treebank

ROOT = Path(__file__).parents[1]


@pytest.mark.slow
def test_pictures_show_the_graphs_of_the_page(tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)
    content = (ROOT / PAGE).read_text(encoding="utf-8")
    shown, namespace = run(PAGE, tmp_path)
    assert shown == content
    found = {name: digest(graph) for name, graph in graphs_of(namespace).items()}
    pictures = {path.stem: drawn_from(path) for path in PICTURES.glob("*.svg")}
    assert found == pictures, "python docs/draw_gallery.py draws them again"


@pytest.mark.many
def test_the_page_shows_each_picture_once():
    content = (ROOT / PAGE).read_text(encoding="utf-8")
    shown = re.findall(r"!\[[^\]]+\]\(gallery/(\w+)\.svg\)", content)
    assert sorted(shown) == sorted(path.stem for path in PICTURES.glob("*.svg"))
    assert content.count("\nDifferences: ") == content.count("\n| figure | content |\n")


def test_the_first_page_shows_what_the_treebank_and_the_benchmarks_say():
    test = load_treebank().test
    first, second = (test[index] for index in TWINS)
    assert sorted(first.leaves()) == sorted(second.leaves())
    assert (int(first.label()), int(second.label())) == (4, 0)
    assert waves_of(first)[0] == 6, "the text of the picture has six waves"
    rows = speeds()
    assert [[row["batch"] for row in rows[mode]] for mode in ("training", "inference")] == [
        ["1", "10", "25", "64", "256"]
    ] * 2
    best = {
        row["batch"]: max(
            (float(row[column].replace(",", "")), framework)
            for framework, columns in FRAMEWORKS.items()
            for column in columns
        )[1]
        for row in rows["training"]
    }
    expected = dict.fromkeys(["10", "25", "64", "256"], "kerasrec")
    assert best == {"1": "DyNet", **expected}, "the text of the plot is about this"
