"""JSON documents and their classes."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any


def read(file: Path) -> list[dict[str, Any]]:
    """Documents: a JSON list, or JSON lines."""
    text = file.read_text(encoding="utf-8-sig").strip()
    # Not splitlines: texts in JSON may contain other line breaks, such as U+2028.
    return json.loads(text) if text.startswith("[") else list(map(json.loads, text.split("\n")))


def read_classes(
    file: Path, label: str, leave_out: Sequence[str]
) -> tuple[list[dict[str, Any]], list[Any]]:
    """Documents without some of their keys, and the class of each.

    Args:
        file: as `read` takes it.
        label: the key of the class.
        leave_out: other keys.
    """
    documents = read(file)
    classes = [document.pop(label) for document in documents]
    for document in documents:
        for key in leave_out:
            document.pop(key, None)
    return documents, classes
