"""The public names."""

import importlib
import subprocess
import sys

import keras
import pytest

import kerasrec


@pytest.mark.parametrize("name", ["datasets", "layers", "training"])
def test_folders_are_there_without_an_import(name):
    assert getattr(kerasrec, name) is importlib.import_module(f"kerasrec.{name}")
    assert name in dir(kerasrec)


@pytest.mark.parametrize("name", ["", "datasets", "layers", "training"])
def test_only_public_names_are_in_sight(name):
    package = getattr(kerasrec, name) if name else kerasrec
    assert dir(package) == sorted(package.__all__)
    for public in package.__all__:
        assert getattr(package, public) is not None


def test_a_name_that_there_is_not():
    with pytest.raises(AttributeError, match="module 'kerasrec' has no attribute 'layer'"):
        _ = kerasrec.layer
    with pytest.raises(ImportError, match="cannot import name 'binary'"):
        from kerasrec.datasets import binary  # noqa: F401


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
