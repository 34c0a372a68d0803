"""What the section `speed` has written, for sections that look at it in another way."""

import json
from pathlib import Path


def read(options):
    """All that `speed` found when it last ran with the same `--out`."""
    file = Path(options.out) / "speed.json"
    if not file.exists():
        raise SystemExit(
            f"{file} is not there. This section shows what speed has measured; run it first: "
            f"python -m benchmarks speed --out {options.out}"
        )
    return json.loads(file.read_text(encoding="utf-8"))
