"""A peer in its own process: what it computes, to be compared, and the time it takes."""

import contextlib
import gc
import importlib.metadata
import platform
import time

import numpy as np

from benchmarks.peers import peer_class


class TimedPeer:
    """A peer, and the batches that it will be run on.

    Args:
        name: of `benchmarks.peers.PEERS`.
        model, values: of the peer.
    """

    def __init__(self, name, model, values):
        self._peer = peer_class(name)(model, values)
        self._batches = {}

    def add_batches(self, batch_size, batches):
        """Keeps batches for `turn`; of some peers only as many trees as it needs.

        Returns:
            Tree nodes that a turn will run.
        """
        limit = self._peer.max_trees
        if limit is not None:
            batches = [batch.first(limit) for batch in batches[: max(1, limit // batch_size)]]
        self._batches[batch_size] = batches
        return sum(batch.num_nodes for batch in batches)

    def computed(self, batch):
        """What peers must agree on, NumPy arrays by name; None of what is no model.

        Takes one training step.
        """
        peer = self._peer
        if not peer.is_model:
            return None
        inputs = peer.inputs(batch)
        # Each peer has an order of nodes of its own.
        found = {"logits": np.sort(peer.node_logits(batch, inputs), axis=0)}
        loss, gradients = peer.gradients(*inputs)
        found["loss"] = np.array(loss)
        found |= {f"gradient of {name}": np.array(value) for name, value in gradients.items()}
        before = {name: np.array(value) for name, value in peer.weights().items()}
        peer.train(*inputs)
        for name, value in peer.weights().items():
            found[f"step of {name}"] = value - before[name]
        return found

    def turn(self, mode, batch_size):
        """Seconds for all batches of a size, and how many of these went into inputs."""
        peer = self._peer
        function = peer.train if mode == "training" else peer.logits
        batches = self._batches[batch_size]
        if not peer.inputs_count:
            made = [peer.inputs(batch) for batch in batches]
        results, seconds = [], 0.0
        with _no_collection():
            start = time.perf_counter()
            for number, batch in enumerate(batches):
                if peer.inputs_count:
                    begin = time.perf_counter()
                    inputs = peer.inputs(batch)
                    seconds += time.perf_counter() - begin
                else:
                    inputs = made[number]
                results.append(function(*inputs))
            peer.wait(results)
            return time.perf_counter() - start, seconds

    def versions(self):
        """Of Python and of what may matter to a peer."""
        found = {"Python": platform.python_version()}
        for package in ("tensorflow", "keras", "torch", "jax", "dgl", "dyNET38", "numpy"):
            with contextlib.suppress(importlib.metadata.PackageNotFoundError):
                found[package] = importlib.metadata.version(package)
        return found


@contextlib.contextmanager
def _no_collection():
    """Garbage is collected before and not in between, as `timeit` does."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
