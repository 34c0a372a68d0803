"""A picture of the effect of each entry of a document's lists on a model's answer."""

import copy
import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np
from matplotlib.cm import ScalarMappable
from matplotlib.colors import CenteredNorm
from matplotlib.figure import Figure

import kerasrec

Place = tuple[str | int, ...]  # keys and numbers of entries on the way to it


def entries(document: Any, place: Place = ()) -> Iterator[tuple[Place, Any]]:
    """Each entry of each list, in the order of the document."""
    if isinstance(document, list):
        for number, entry in enumerate(document):
            yield (*place, number), entry
            yield from entries(entry, (*place, number))
    elif isinstance(document, dict):
        for key, value in document.items():
            yield from entries(value, (*place, key))


def without(document: Any, place: Place) -> Any:
    """The document without an entry of a list."""
    document = copy.deepcopy(document)
    around = document
    for key in place[:-1]:
        around = around[key]
    del around[place[-1]]
    return document


def own_fields(entry: Any) -> dict[str, str]:
    """The values of an entry, without its lists and objects."""
    items = entry if isinstance(entry, dict) else {"": entry}
    return {key: str(of) for key, of in items.items() if not isinstance(of, dict | list)}


def draw(
    model: keras.Model,
    schema: kerasrec.Schema,
    document: Any,
    true: Any,
    classes: Sequence[Any],
    file: Path,
) -> None:
    """Draws a row for each entry of an outer list, and next to it the entries of its lists.

    Args:
        model: from a batch of documents to the logits of classes.
        schema: of the documents.
        document: the one to draw.
        true: its class.
        classes: of the model, in order.
        file: of the picture.
    """
    found = list(entries(document))
    documents = [document, *(without(document, place) for place, _ in found)]
    logits = model.predict(schema.encode(documents), verbose=0)
    best = logits[0].argmax()
    margins = logits[:, best] - np.delete(logits, best, axis=1).max(axis=1)
    added = margins[0] - margins[1:]
    colors = ScalarMappable(CenteredNorm(halfrange=np.abs(added).max(initial=1e-9)), "RdBu")
    rows: list[list[tuple[str, str, Any]]] = []  # an entry, its values, and its color
    for (place, entry), color in zip(found, colors.to_rgba(added, 0.7), strict=True):
        if sum(isinstance(key, int) for key in place) == 1:
            rows.append([])
        own = own_fields(entry)
        key = next((key for key in reversed(place) if isinstance(key, str)), "")
        rows[-1].append((" ".join(own.values()), f"{key}\n{' '.join(own)}", color))
    columns = list(itertools.zip_longest(*rows, fillvalue=("", "", None)))
    heads = [next(head for _, head, _ in column if head) for column in columns]
    widths = [
        max(len(line) for text, *_ in [*column, (head,)] for line in text.split("\n")) + 3
        for head, column in zip(heads, columns, strict=True)
    ]
    size = max(7, 3 + 0.085 * sum(widths)), 1.9 + 0.24 * len(rows)
    figure = Figure(size, layout="constrained")
    axes = figure.subplots()
    axes.set(xlim=(-1, sum(widths)), ylim=(len(rows) + 0.5, -1))
    axes.axis("off")
    style = {"family": "monospace", "fontsize": 9, "va": "center"}
    for x, head, column in zip(np.cumsum([0, *widths]), heads, columns, strict=False):
        axes.text(x, 0, head, weight="bold", **style)
        for y, (text, _, color) in enumerate(column, 1):
            if color is not None:
                axes.text(x, y, text, bbox={"facecolor": color, "edgecolor": "#dddddd"}, **style)
    rest = " ".join(f"{key}={value}" for key, value in own_fields(document).items())
    title = f"Class {true}; the model predicts {classes[best]}, by a margin of {margins[0]:.2f}"
    figure.suptitle("\n".join([title, *filter(None, [rest])]))
    label = "loss of margin if an entry is left out"
    figure.colorbar(colors, ax=axes, label=label, alpha=0.7, aspect=30)
    figure.savefig(file, dpi=110)
