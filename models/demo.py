"""What `make demo` shows: a TreeLSTM learns the sentiment of phrases, in about a minute."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without_logs() -> Iterator[None]:
    """Drops what C++ code logs; TensorFlow logs a dozen lines while it is imported."""
    sys.stderr.flush()
    kept = os.dup(2)
    with open(os.devnull, "wb") as nowhere:
        os.dup2(nowhere.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


if __name__ == "__main__":
    print(
        "A TreeLSTM learns to tell how good or bad a critic finds a film, from 4,000 made-up\n"
        "sentences with their parse trees. Ten epochs take about a minute on two cores. It then\n"
        "prints accuracies and saves the model, an export and a picture of a tree.\n",
        flush=True,
    )
    with without_logs():
        import sentiment_tree_lstm
    sentiment_tree_lstm.main()
