"""Which names there are, and what old ones answer."""

import importlib
import re
import subprocess
import sys
from pathlib import Path

import keras
import pytest

import kerasrec

OLD = re.findall(
    r"^\| `(\S+)` \| `(\S+)` \|",
    (Path(__file__).parents[1] / "docs" / "deprecated.md").read_text(),
    re.MULTILINE,
)


@pytest.mark.parametrize("name", ["datasets", "layers", "training"])
def test_folders_are_there_without_an_import(name):
    assert getattr(kerasrec, name) is importlib.import_module(f"kerasrec.{name}")
    assert name in dir(kerasrec)


def test_a_name_that_there_is_not():
    with pytest.raises(AttributeError, match="module 'kerasrec' has no attribute 'layer'"):
        _ = kerasrec.layer
    with pytest.raises(ImportError, match="cannot import name 'binary'"):
        from kerasrec.datasets import binary  # noqa: F401


@pytest.mark.parametrize(("old", "new"), OLD)
def test_an_old_name_is_the_new_one_and_warns(old, new):
    module, _, name = old.rpartition(".")
    with pytest.warns(FutureWarning, match=f"{old} is now called {new.rpartition('.')[2]}"):
        found = getattr(importlib.import_module(module), name)
    module, _, name = new.rpartition(".")
    assert found is getattr(importlib.import_module(module), name)


def test_there_are_old_names():
    assert OLD


@pytest.mark.slow
def test_datasets_are_imported_when_they_are_used():
    code = (
        "import sys, kerasrec; assert 'nltk' not in sys.modules; "
        "kerasrec.datasets.load_treebank; assert 'nltk' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.slow
def test_a_saved_model_loads_after_import_kerasrec(tmp_path):
    inputs = keras.Input([None, 4]), keras.Input([None, 2], dtype="int32")
    model = keras.Model(inputs, kerasrec.layers.TreeLSTM(3)(*inputs))
    model.compile("sgd", kerasrec.training.TreeCrossentropy())
    model.save(tmp_path / "model.keras")
    code = (
        "import keras, kerasrec; "
        f"model = keras.models.load_model({str(tmp_path / 'model.keras')!r}); "
        "assert type(model.loss).__name__ == 'TreeCrossentropy'"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
