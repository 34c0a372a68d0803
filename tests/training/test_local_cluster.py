"""Clusters of real processes on this machine, against training in this process."""

import sys

import keras
import numpy as np
import pytest
import tensorflow as tf

from kerasrec.datasets import write_tree_files
from kerasrec.training import local_cluster
from tests.parameters import few_of
from tests.training.clusters import run_on_cluster
from tests.training.every_optimizer import (
    accumulating,
    assert_same_weights,
    expected_of_trees,
    expected_of_words,
)
from tests.training.strategies import assert_same, random_trees, reader, trained

CLUSTERS = [
    (["--workers", "2"], "multi_worker", 2),
    (["--workers", "2", "--ps", "1"], "parameter_server", 1),
]


@pytest.mark.parametrize("options, strategy, num_results", few_of(CLUSTERS, many=[]))
def test_trains_as_one_process_does(options, strategy, num_results):
    ended = run_on_cluster(options, ["-m", "tests.training.strategies", strategy, "--dense"])
    assert ended.returncode == 0, ended.errors[-3000:]
    assert len(ended.results) == num_results
    assert "WARNING:tensorflow" not in ended.errors
    expected = trained(tf.distribute.get_strategy(), recursive=False)
    for result in ended.results:
        assert_same(result, expected)


@pytest.mark.slow
@pytest.mark.parametrize("options, strategy, num_results", CLUSTERS)
def test_every_optimizer(options, strategy, num_results):
    ended = run_on_cluster(options, ["-m", "tests.training.every_optimizer", strategy])
    assert ended.returncode == 0, ended.errors[-3000:]
    assert len(ended.results) == num_results
    expected = trained(tf.distribute.get_strategy())
    of_trees, accumulated = expected_of_trees(), expected_of_words(accumulating("adam"))
    for result in ended.results:
        assert_same(result, expected)
        assert_same_weights(result["trees"], of_trees)
        assert_same_weights(result["accumulated"], accumulated)


@pytest.mark.slow
@pytest.mark.parametrize(
    "options, strategy",
    [(["--workers", "2"], "multi_worker"), (["--workers", "2", "--ps", "1"], "parameter_server")],
)
def test_files_are_read_as_by_one_process(tmp_path, options, strategy):
    write_tree_files(random_trees(19, seed=1), tmp_path / "trees", num_files=2)
    program = ["-m", "tests.training.strategies", strategy, "--files", str(tmp_path / "trees")]
    ended = run_on_cluster(options, program)
    assert ended.returncode == 0, ended.errors[-3000:]
    expected = trained(tf.distribute.get_strategy(), data=reader(tmp_path / "trees"))
    for result in ended.results:
        assert_same(result, expected)


def errors_of_workers(change):
    """Errors of workers that train on other data, which a line of Python changes."""
    script = "import json, os, sys; from tests.training import strategies\n"
    script += "index = json.loads(os.environ['TF_CONFIG'])['task']['index']\n"
    script += f"make, trees = strategies.batches, strategies.random_trees(19, seed=1)\n{change}\n"
    script += "sys.argv = ['', 'multi_worker']; strategies.main()"
    ended = run_on_cluster(["--workers", "2"], ["-c", script])
    assert ended.returncode == 1
    return ended.errors


@pytest.mark.slow
def test_workers_that_draw_different_batches_are_a_clear_error():
    errors = errors_of_workers(
        "strategies.keras.utils.set_random_seed = lambda seed: None\n"
        "strategies.batches = lambda: strategies.tree_batches(trees, 7, shuffle=True)"
    )
    assert "Workers draw different batches of `data`" in errors


@pytest.mark.slow
def test_workers_with_different_numbers_of_batches_are_a_clear_error():
    errors = errors_of_workers(
        "strategies.batches = lambda: lambda context: make().take(3 - index)"
    )
    assert "Workers have different numbers of batches of `data`: [3, 2]" in errors


@pytest.mark.slow
def test_workers_lower_the_scale_of_the_loss_together():
    """Gradients of half precision are infinite in the first steps, on both."""
    script = "import json, keras, numpy as np, tensorflow as tf\n"
    script += "from kerasrec.training import fit\n"
    script += "with tf.distribute.MultiWorkerMirroredStrategy().scope():\n"
    script += "    keras.mixed_precision.set_dtype_policy('mixed_float16')\n"
    script += "    model = keras.Sequential([keras.Input([3]), keras.layers.Dense(1)])\n"
    script += "    model.compile(keras.optimizers.SGD(1e-6), 'mse')\n"
    script += "x, y = np.full([16, 3], 100.0, 'float32'), np.zeros([16, 1], 'float32')\n"
    script += "data = tf.data.Dataset.from_tensor_slices((x, y)).batch(4)\n"
    script += "fit(model, data, epochs=2, verbose=0)\n"
    script += "print(json.dumps({'scale': float(model.optimizer.dynamic_scale.numpy())}))"
    ended = run_on_cluster(["--workers", "2"], ["-c", script])
    assert ended.returncode == 0, ended.errors[-3000:]
    scales = [result["scale"] for result in ended.results]
    assert len(scales) == 2 and scales[0] == scales[1] < 2**15


@pytest.mark.slow
def test_one_worker_writes_files(tmp_path):
    program = ["-m", "tests.training.strategies", "multi_worker", "--logs", str(tmp_path)]
    ended = run_on_cluster(["--workers", "2"], program)
    assert ended.returncode == 0, ended.errors[-3000:]
    assert len((tmp_path / "log.csv").read_text().splitlines()) == 1 + 3
    assert len(list((tmp_path / "tensorboard" / "train").iterdir())) == 1
    model = keras.models.load_model(tmp_path / "epoch_3.keras")
    for weight, expected in zip(model.trainable_weights, ended.results[0]["weights"], strict=True):
        np.testing.assert_allclose(weight, expected, 1e-6)


@pytest.mark.slow
def test_every_process_knows_its_place():
    program = "import os; print(os.environ['TF_CONFIG'])"
    places = run_on_cluster(["--workers", "3"], ["-c", program]).results
    assert sorted(place["task"]["index"] for place in places) == [0, 1, 2]
    assert {place["task"]["type"] for place in places} == {"worker"}
    addresses = [place["cluster"]["worker"] for place in places]
    assert addresses[0] == addresses[1] == addresses[2]
    assert len(set(addresses[0])) == 3


@pytest.mark.many
def test_a_failure_ends_the_cluster():
    program = "import json, os, sys, time\n"
    program += "place = json.loads(os.environ['TF_CONFIG'])['task']\n"
    program += "sys.exit(7) if place['index'] else time.sleep(1000)"
    assert local_cluster.main(["--workers", "2", "--", sys.executable, "-c", program]) == 7


@pytest.mark.slow
def test_a_coordinator_without_workers_ends():
    script = "import time; from tests.training.strategies import process_of; import os, signal\n"
    script += "for task in ('worker:0', 'worker:1'): os.kill(process_of(task), signal.SIGKILL)\n"
    script += "time.sleep(1000)"
    ended = run_on_cluster(["--workers", "2", "--ps", "1"], ["-c", script])
    assert ended.returncode == 1
    assert "all workers have ended" in ended.errors


@pytest.mark.many
def test_a_command_that_is_not_there(capsys):
    assert local_cluster.main(["--workers", "1", "--", "no-such-command"]) == 127
    assert "['no-such-command'] cannot be started" in capsys.readouterr().err


@pytest.mark.many
@pytest.mark.parametrize("arguments", [[], ["--workers", "0", "--", "true"], ["--workers", "2"]])
def test_says_what_is_missing(arguments, capsys):
    with pytest.raises(SystemExit):
        local_cluster.main(arguments)
    assert "at least one worker" in (error := capsys.readouterr().err) or "no command" in error
