"""A picture of what each part of a document adds to a model's answer."""

from pathlib import Path
from typing import Any

import keras
import numpy as np
from nltk import Tree

import kerasrec
from kerasrec.datasets import plot_tree


def margins(model: keras.Model, schema: kerasrec.Schema, documents: list[Any]) -> np.ndarray:
    """How far the logit of the first document's class is above the best of the others."""
    logits = model.predict(schema.encode(documents), verbose=0)
    best = logits[0].argmax()
    return logits[:, best] - np.delete(logits, best, axis=1).max(axis=1)


def draw(model: keras.Model, schema: kerasrec.Schema, document: dict[str, Any], file: Path) -> None:
    """Draws the entries of a document's first list, colored by what each adds to the margin."""
    key = next(key for key, value in document.items() if isinstance(value, list))
    parts = document[key]
    without = [{**document, key: parts[:place] + parts[place + 1 :]} for place in range(len(parts))]
    whole, *others = margins(model, schema, [document, *without])
    values = whole - np.array(others)
    most = np.abs(values).max()
    tree = Tree("", [Tree("", [name(part)]) for part in parts])
    axes = plot_tree(tree, [0.0, *values], limits=(-most, most))
    axes.set_title(f"what each of {key} adds to the margin of the class")
    axes.figure.savefig(file, dpi=100, bbox_inches="tight")


def name(part: Any) -> str:
    """The first text in a part."""
    texts = part.values() if isinstance(part, dict) else [part]
    return next((str(text) for text in texts if isinstance(text, str)), "...")
