"""Errors of `import kerasrec` where Keras would not run on TensorFlow."""

import json
import os
import subprocess
import sys

import pytest

from kerasrec._src import keras_backend

# A package of this name that cannot be imported, as if it were not installed.
MISSING = "raise ModuleNotFoundError(\"No module named '{0}'\", name='{0}')"


def error_of(code, folder, **environment):
    """The last line of the error of a program, which has no settings of Keras but these."""
    own = {key: value for key, value in os.environ.items() if key != "KERAS_BACKEND"}
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=own | {"KERAS_HOME": str(folder), "PYTHONPATH": str(folder)} | environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode
    return done.stderr.strip().splitlines()[-1]


@pytest.mark.many
def test_another_backend_in_the_environment(tmp_path):
    # Nothing but the check is imported, so neither jax nor TensorFlow is asked for.
    for name in ("jax", "keras", "tensorflow"):
        (tmp_path / f"{name}.py").write_text("raise SystemError('imported')")
    assert error_of("import kerasrec", tmp_path, KERAS_BACKEND="jax") == (
        "ImportError: kerasrec needs Keras with its TensorFlow backend, but the environment has "
        "KERAS_BACKEND=jax: set KERAS_BACKEND=tensorflow before Keras is imported."
    )


@pytest.mark.many
def test_another_backend_in_the_file(tmp_path, monkeypatch):
    file = tmp_path / "keras.json"
    file.write_text(json.dumps({"backend": "torch"}))
    monkeypatch.delenv("KERAS_BACKEND")
    monkeypatch.setenv("KERAS_HOME", str(tmp_path))
    with pytest.raises(ImportError, match=r'keras.json has "backend": "torch": set KERAS_BACK'):
        keras_backend.check_configuration()
    file.write_text("")
    keras_backend.check_configuration()
    monkeypatch.setenv("KERAS_HOME", str(tmp_path / "none"))
    keras_backend.check_configuration()


@pytest.mark.slow
def test_another_backend_in_the_file_alone(tmp_path):
    (tmp_path / "keras.json").write_text(json.dumps({"backend": "jax"}))
    said = error_of("import kerasrec", tmp_path)
    assert said == (
        f"ImportError: kerasrec needs Keras with its TensorFlow backend, but {tmp_path}/keras.json "
        'has "backend": "jax": set KERAS_BACKEND=tensorflow in the environment, which comes before '
        "the file, or change the file."
    )


@pytest.mark.slow
def test_keras_was_imported_with_another_backend(tmp_path):
    (tmp_path / "keras.py").write_text("class config:\n    def backend(): return 'torch'")
    said = error_of("import keras, kerasrec", tmp_path, KERAS_BACKEND="tensorflow")
    assert said == (
        "ImportError: kerasrec needs Keras with its TensorFlow backend, but Keras has been "
        "imported with the backend 'torch': set KERAS_BACKEND=tensorflow in the environment and "
        "start Python again."
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", ["keras", "tensorflow"])
def test_a_package_is_missing(tmp_path, name):
    (tmp_path / f"{name}.py").write_text(MISSING.format(name))
    said = error_of("import kerasrec", tmp_path)
    assert said.startswith(
        f"ModuleNotFoundError: kerasrec needs Keras with its TensorFlow backend, but {name} is not "
        "installed in the environment of "
    )
    assert said.endswith(f": install it with `pip install {name}`.")


@pytest.mark.slow
def test_another_package_is_missing(tmp_path):
    (tmp_path / "numpy.py").write_text(MISSING.format("numpy"))
    assert error_of("import kerasrec", tmp_path) == "ModuleNotFoundError: No module named 'numpy'"
