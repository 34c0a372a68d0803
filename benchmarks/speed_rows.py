"""The results of the section `speed`, for sections that show them in another way."""

import json
from pathlib import Path


def read(options):
    """The results of the last run of `speed` with the same `--out`."""
    file = Path(options.out) / "speed.json"
    if not file.exists():
        raise SystemExit(
            f"{file} does not exist. This section shows the results of speed; run it first: "
            f"python -m benchmarks speed --out {options.out}"
        )
    return json.loads(file.read_text(encoding="utf-8"))
