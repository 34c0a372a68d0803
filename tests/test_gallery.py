"""The gallery: its blocks run, and its pictures show the graphs that they name."""

import re
from pathlib import Path

import pytest

from docs.draw_gallery import PAGE, PICTURES, digest, drawn_from, graphs_of
from docs.run_pages import run

ROOT = Path(__file__).parents[1]


@pytest.mark.slow
def test_pictures_show_the_graphs_of_the_page(tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)
    content = (ROOT / PAGE).read_text(encoding="utf-8")
    shown, namespace = run(PAGE, tmp_path)
    assert shown == content
    found = {name: digest(graph) for name, graph in graphs_of(namespace).items()}
    pictures = {path.stem: drawn_from(path) for path in PICTURES.glob("*.svg")}
    assert found == pictures, "python docs/draw_gallery.py draws them anew"


@pytest.mark.many
def test_the_page_shows_each_picture_once():
    content = (ROOT / PAGE).read_text(encoding="utf-8")
    shown = re.findall(r"!\[[^\]]+\]\(gallery/(\w+)\.svg\)", content)
    assert sorted(shown) == sorted(path.stem for path in PICTURES.glob("*.svg"))
    assert content.count("\nDifferences: ") == content.count("\n| figure | what it shows |\n")
