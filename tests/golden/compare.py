"""Golden prints. `KERASREC_UPDATE_GOLDEN=1 pytest tests` writes them again; read the diff."""

import os
from pathlib import Path

FOLDER = Path(__file__).parent


def assert_golden(name: str, text: str) -> None:
    """`text` is the content of tests/golden/`name`.txt."""
    path = FOLDER / f"{name}.txt"
    if os.environ.get("KERASREC_UPDATE_GOLDEN"):
        path.write_text(text + "\n", encoding="utf-8")
    assert path.exists(), f"{path.name} is missing: run once with KERASREC_UPDATE_GOLDEN=1"
    assert text + "\n" == path.read_text(encoding="utf-8"), (
        f"{path.name} is out of date. If the new print is right, run with KERASREC_UPDATE_GOLDEN=1."
    )
