"""Setup for every test: a silent TensorFlow on two logical CPU devices, and fixed seeds."""

import functools
import gc
import os
from collections.abc import Iterator
from importlib.metadata import version

# Before TensorFlow is imported. Tests need no GPU and their tolerances are those of a CPU;
# CUDA_VISIBLE_DEVICES=0 in the environment runs them on one all the same.
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
os.environ.setdefault("KERAS_BACKEND", "tensorflow")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

# Tests run a graph once or twice. Optimizations by LLVM and TensorFlow take 25% of all time, so
# tests turn them off, but for `optimized` and with KERASREC_OPTIMIZED=1.
if "KERASREC_OPTIMIZED" not in os.environ:
    flags = ["--xla_backend_optimization_level=0", "--xla_llvm_disable_expensive_passes=true"]
    if version("tensorflow").startswith("2.21."):  # XLA ends the process at a flag it has not.
        # The older of its two ways from fused ops to LLVM compiles faster.
        flags.append("--xla_cpu_use_fusion_emitters=false")
    os.environ["XLA_FLAGS"] = " ".join([*flags, os.environ.get("XLA_FLAGS", "")])

import keras
import pytest
import tensorflow as tf

from kerasrec import RecursiveFunction
from kerasrec._src import host

# Two devices let MirroredStrategy be tested. They can only be had before TensorFlow first runs,
# so for all tests; a loop of small ops was not slower on them.
tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 2
)

tf.config.optimizer.set_experimental_options(
    {"disable_meta_optimizer": "KERASREC_OPTIMIZED" not in os.environ}
)

# Graphs are many objects that live on. Looking through them for garbage as often as Python does by
# default took 20% of the time of the tests of layers.
gc.set_threshold(200_000, 20, 20)

_imported: list = []


def _that_keep_graphs() -> list:
    """Recursive functions, and what tests compute once by `functools.cache`."""

    def keeps(item: object) -> bool:
        if type(item) is functools._lru_cache_wrapper:
            return item.__module__.startswith("tests.")
        return hasattr(item, "python_signature")  # not refused

    kinds = (functools._lru_cache_wrapper, RecursiveFunction)
    return [item for item in gc.get_objects() if type(item) in kinds and keeps(item)]


def pytest_collection_finish() -> None:
    """Objects imported by now stay; Python need not look through them again for garbage."""
    _imported.extend(_that_keep_graphs())
    gc.freeze()
    gc.enable()


@pytest.fixture(autouse=True, scope="module")
def forgotten_after() -> Iterator[None]:
    """A worker runs many files: nothing stays that the tests of one compiled or cached."""
    yield
    for item in _imported + _that_keep_graphs():
        if isinstance(item, RecursiveFunction):
            item.clear_cache()
        else:
            item.cache_clear()
    keras.backend.clear_session()
    gc.freeze()


@pytest.fixture(autouse=True)
def fixed_seed() -> None:
    keras.utils.set_random_seed(0)


if os.environ.get("KERASREC_CHECK_PASSES", "0") not in ("", "0"):

    @pytest.fixture(autouse=True)
    def checks_passes() -> Iterator[None]:
        """Checks the passes of the compiler on every program that a test calls."""
        from tests.check_passes import checked_passes

        with checked_passes():
            yield


@pytest.fixture(scope="module")
def optimized() -> Iterator[None]:
    """Lets TensorFlow rewrite graphs before they run (Grappler), as it does for users."""
    before = tf.config.optimizer.get_experimental_options()
    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": False})
    yield
    tf.config.optimizer.set_experimental_options(before)


@pytest.fixture
def a_gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A second CPU stands for a GPU: kerasrec chooses sizes, layouts and places as with a GPU."""
    monkeypatch.setattr(host, "has_gpu", lambda: True)
    with tf.device("/CPU:1"):
        yield


@pytest.fixture(scope="session")
def two_replicas() -> tf.distribute.MirroredStrategy:
    """For all tests one: each new strategy numbers its collectives from the start.

    With a second one over the same devices, they meet those of the first ("Shape mismatch in the
    collective instance").
    """
    return tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
