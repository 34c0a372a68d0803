"""How long recipes are, without the docstring at their top: they are read as examples."""

import ast
from pathlib import Path

import pytest

MODELS = Path(__file__).parents[2] / "models"
MOST_LINES = {
    "constituency_parser": 60,
    "part_of_speech_crf": 60,
    "soft_edit_distance": 60,
    "json_documents": 80,
    "listops": 80,
    "phylogenetics": 80,
    "python_functions": 80,
    "semantic_relatedness": 80,
}


@pytest.mark.many
@pytest.mark.parametrize("name", MOST_LINES)
def test_recipes_are_short(name):
    text = (MODELS / f"{name}.py").read_text(encoding="utf-8")
    docstring, *_ = ast.parse(text).body
    assert len(text.splitlines()) - docstring.end_lineno <= MOST_LINES[name]
