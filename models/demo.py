"""The program of `make demo`: a TreeLSTM learns the sentiment of phrases in about a minute."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without_logs() -> Iterator[None]:
    """Drops the logs of C++ code; TensorFlow logs a dozen lines while it is imported."""
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
    # Two threads for each op would wait for each other: the model is small. See the guide to
    # performance.
    os.environ.setdefault("TF_NUM_INTRAOP_THREADS", "1")
    print(
        "A TreeLSTM learns the sentiment of every phrase in 4,000 made-up film reviews.\n"
        "At most ten epochs take about a minute on two cores. Then come its accuracies, and the\n"
        "model, a SavedModel and a picture of a tree in runs/sentiment_tree_lstm.\n",
        flush=True,
    )
    with without_logs():
        import sentiment_tree_lstm
    sentiment_tree_lstm.main()
