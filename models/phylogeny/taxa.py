"""Names of taxa: whether those of two sources are the same, and a few of them for messages."""

import reprlib
from collections import Counter
from collections.abc import Sequence

FIRST = 3
_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = 40


def expect_taxa(taxa: Sequence[str], names: Sequence[str], source: str) -> None:
    """Raises ValueError if `taxa` are not `names`, each once, in any order.

    Args:
        taxa: as passed.
        names: of all taxa.
        source: of `names`.
    """
    numbers, known = Counter(taxa), set(names)
    differences = {
        "missing": [name for name in names if name not in numbers],
        f"not in the {source}": [name for name in numbers if name not in known],
        "more than once": [
            name for name, number in (numbers | Counter(names)).items() if number > 1
        ],
    }
    parts = [f"{which}: {listed(some)}" for which, some in differences.items() if some]
    if parts:
        raise ValueError(
            f"The taxa are not those of the {source}; {'; '.join(parts)}. Pass each taxon of the "
            f"{source} once."
        )


def listed(names: Sequence[str]) -> str:
    """The first names, and their number."""
    shown = [_SHORT.repr(name) for name in names[:FIRST]]
    shown += [f"... {len(names):,} in all"] if len(names) > FIRST else []
    return ", ".join(shown)
