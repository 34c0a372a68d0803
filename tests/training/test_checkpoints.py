"""Checkpoints that are damaged, cut short, locked, spoilt by NaN or asked for by SIGTERM."""

import fcntl
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import threading
import warnings

import keras
import numpy as np
import pytest
import tensorflow as tf

from kerasrec._src.training.batches import Batches
from kerasrec._src.training.checkpoints import Checkpoints
from kerasrec._src.training.fit import runner_of
from kerasrec._src.training.lock import LOCK, locked
from kerasrec._src.training.progress import Progress
from kerasrec.training import fit
from tests.parameters import few_of
from tests.training.clusters import REPOSITORY, SECONDS

INDEX, DATA, NEWEST = "ckpt-2.index", "ckpt-2.data-00000-of-00001", "checkpoint"
ALL = [INDEX, DATA, "ckpt-1.index", "ckpt-1.data-00000-of-00001", NEWEST]


def make(units=2, optimizer="adam"):
    """On numbers, with as few ops as there can be."""
    keras.utils.set_random_seed(0)
    model = keras.Sequential([keras.Input([3]), keras.layers.Dense(units)])
    model.compile(optimizer, "mse")
    return model


def batches(last=1.0, units=2):
    """Three of four rows, in another order in each epoch; what the last row has can be chosen."""
    x = np.random.default_rng(0).normal(size=[12, 3]).astype("float32")
    x[-1] *= last
    rows = tf.data.Dataset.from_tensor_slices((x, np.ones([12, units], "float32")))
    return rows.shuffle(12, seed=1).batch(4)


class Note(keras.callbacks.Callback):
    """Notes the weights after each epoch."""

    def __init__(self):
        super().__init__()
        self.after = {}

    def on_epoch_end(self, epoch, logs=None):
        self.after[epoch + 1] = self.model.get_weights()


class Call(keras.callbacks.Callback):
    """Calls a function after so many steps."""

    def __init__(self, steps, function):
        super().__init__()
        self._steps, self._function = steps, function

    def on_train_batch_end(self, batch, logs=None):
        self._steps -= 1
        if self._steps == 0:
            self._function()


class Trained:
    """Two epochs of which checkpoints are kept, and a way to go on that traces nothing.

    Attributes:
        directory: of the checkpoints.
        files: what each of its files has.
        weights: after each of four epochs of a training without interruption.
    """

    def __init__(self, directory):
        self.directory = directory
        fit(make(), batches(), epochs=2, verbose=0, backup_dir=directory)
        self.files = {name: (directory / name).read_bytes() for name in ALL}
        note = Note()
        fit(make(), batches(), epochs=4, verbose=0, callbacks=[note])
        self.weights = note.after
        self._model = make()
        self._runner = runner_of(self._model, Batches("data", batches()))
        self._model.history = keras.callbacks.History()

    def goes_on_from(self, directory):
        """The epoch that training goes on from, whose weights are right, and what warnings say."""
        self._model.set_weights([np.full(of.shape, 7.0) for of in self._model.get_weights()])
        strategy = self._model.distribute_strategy
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            with Checkpoints(directory, strategy) as found:
                callbacks = [Note(), self._model.history]
                progress = Progress(self._model, callbacks, self._runner, 0, found)
                progress.restore()
        if progress.epoch:
            assert int(self._model.optimizer.iterations.numpy()) == 3 * progress.epoch
            for one, other in zip(
                self._model.get_weights(), self.weights[progress.epoch], strict=True
            ):
                np.testing.assert_array_equal(one, other)
        return progress.epoch, " ".join(str(of.message) for of in said)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    return Trained(tmp_path_factory.mktemp("trained"))


@pytest.fixture
def copied(trained, tmp_path):
    directory = tmp_path / "copied"
    shutil.copytree(trained.directory, directory)
    return directory


def faults(raw, places):
    """What may become of a file: (fault, what is left of it)."""
    yield "missing", None
    yield "empty", b""
    yield "half", raw[: len(raw) // 2]
    yield "without its last byte", raw[:-1]
    yield "longer", raw + b"x"
    for place in places:
        flipped = raw[place] ^ (1 << place % 8)
        yield f"bit {place % 8} of byte {place}", raw[:place] + bytes([flipped]) + raw[place + 1 :]


def put(path, raw):
    if raw is None:
        path.unlink()
    else:
        path.write_bytes(raw)


def check_faults(trained, directory, name, places):
    """Goes on past each fault of a file, from the newest checkpoint without one; counts them."""
    noticed = 0
    for fault, raw in faults(trained.files[name], places):
        put(directory / name, raw)
        epoch, said = trained.goes_on_from(directory)
        if epoch == 1:  # past a damaged one, which is named
            assert name in (INDEX, DATA) and f"the file {name} is " in said, fault
            assert "goes on from ckpt-1" in said
            noticed += 1
        else:
            assert epoch == 2, fault
            if name == NEWEST and said:
                assert f"the file {NEWEST} is " in said or "which checkpoint names" in said
                noticed += 1
            else:
                assert not said, fault
        put(directory / name, trained.files[name])
    return noticed


@pytest.mark.parametrize("name", ALL)
@pytest.mark.many
def test_any_damaged_file(trained, copied, name):
    size = len(trained.files[name])
    noticed = check_faults(trained, copied, name, range(0, size, -(-size // 8)))
    assert noticed >= {INDEX: 8, DATA: 12, NEWEST: 5}.get(name, 0)
    assert noticed == 0 or "ckpt-1" not in name


@pytest.mark.slow
@pytest.mark.parametrize("name", few_of([INDEX, DATA, NEWEST], many=[INDEX]))
def test_any_bit(trained, copied, name):
    size = len(trained.files[name])
    noticed = check_faults(trained, copied, name, range(0, size, -(-size // 100)))
    assert noticed >= 60 or (name == NEWEST and noticed >= 30)


@pytest.mark.many
@pytest.mark.parametrize("left", [[NEWEST], [INDEX], [DATA], [DATA, NEWEST], [DATA, ALL[3]]])
def test_never_begins_anew_where_it_had_begun(trained, tmp_path, left):
    for name in left:
        put(tmp_path / name, trained.files[name])
    message = r"no checkpoint can be read: .*ckpt-2.*restore these files"
    with pytest.raises(ValueError, match=message):
        trained.goes_on_from(tmp_path)
    assert sorted(os.listdir(tmp_path)) == sorted([*left, LOCK])  # nothing else is lost by it


def test_names_all_that_are_damaged(trained, copied):
    put(copied / DATA, b"")
    put(copied / "ckpt-1.index", b"no index")
    with pytest.raises(ValueError, match=f"{DATA} is damaged .*ckpt-1.index is damaged .*"):
        trained.goes_on_from(copied)


def test_without_the_file_that_names_the_newest(trained, copied):
    put(copied / NEWEST, None)
    epoch, said = trained.goes_on_from(copied)
    assert epoch == 2 and "the file checkpoint is missing. Training goes on from ckpt-2" in said


def stages(files):
    """What a save leaves that is killed, in the order in which TensorFlow writes; the epoch."""
    part = "ckpt-2_temp/part-00000-of-00001"
    old = {name: raw for name, raw in files.items() if name not in (INDEX, DATA)}
    old[NEWEST] = files[NEWEST].replace(b"ckpt-2", b"ckpt-1")
    data, index = files[DATA], files[INDEX]
    yield {**old, f"{part}.data-00000-of-00001.tempstate1": data[:50]}, 1
    yield {**old, f"{part}.data-00000-of-00001": data}, 1
    yield {**old, f"{part}.data-00000-of-00001": data, f"{part}.index": index}, 1
    yield {**old, DATA: data, f"{part}.index": index}, 1
    yield {**old, DATA: data, INDEX: b"", f"{part}.index": index}, 1
    yield {**old, DATA: data, INDEX: index[:99], f"{part}.index": index}, 1
    yield {**old, DATA: data, INDEX: index, f"{part}.index": index}, 2
    yield {**old, DATA: data, INDEX: index}, 2
    yield {**old, DATA: data, INDEX: index, f"{NEWEST}.tmp1": b"mod"}, 2
    whole = {NEWEST: files[NEWEST], DATA: data, INDEX: index}
    yield {**whole, "ckpt-1.index": files["ckpt-1.index"]}, 2  # what is old is removed
    yield {**whole, "ckpt-1.data-00000-of-00001": files["ckpt-1.data-00000-of-00001"]}, 2


def test_a_save_that_was_cut_short(trained, tmp_path):
    number = 0
    for first in (False, True):  # of a training, or after another one
        for number, (files, expected) in enumerate(stages(trained.files)):
            directory = tmp_path / f"{first} {number}"
            for name, raw in files.items():
                if not (first and (name.startswith("ckpt-1") or name == NEWEST)):
                    (directory / name).parent.mkdir(parents=True, exist_ok=True)
                    (directory / name).write_bytes(raw)
            epoch, said = trained.goes_on_from(directory)
            assert epoch == (expected if not first or expected == 2 else 0), (first, number)
            assert not said or "the file checkpoint is missing" in said
            left = os.listdir(directory)
            assert not any("temp" in name or ".tmp" in name for name in left)
            assert epoch == 2 or not {INDEX, DATA} & set(left)
    assert number == 10


SAVES = """
import sys, tensorflow as tf
from kerasrec._src.training.checkpoints import Checkpoints
value = tf.Variable(tf.zeros([200_000]))
checkpoint = tf.train.Checkpoint(value=value)
with Checkpoints(sys.argv[1], tf.distribute.get_strategy()) as checkpoints:
    while True:
        value.assign_add(tf.ones([200_000]))
        checkpoints.save(checkpoint)
        print(int(value[0]), flush=True)
"""


@pytest.mark.slow
def test_a_kill_at_any_moment(tmp_path):
    """A process that saves all the time is stopped; what is there then is what a kill leaves."""
    value, random = tf.Variable(tf.zeros([200_000])), np.random.default_rng(0)
    command = [sys.executable, "-c", SAVES, str(tmp_path / "saved")]
    kinds = set()
    with subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True) as process:
        try:
            for number in range(40):
                least = int(process.stdout.readline())
                threading.Event().wait(random.uniform(0, 0.01))
                process.send_signal(signal.SIGSTOP)
                os.waitpid(process.pid, os.WUNTRACED)
                copy = tmp_path / str(number)
                shutil.copytree(tmp_path / "saved", copy)
                process.send_signal(signal.SIGCONT)
                kinds.add(len(os.listdir(copy)))
                with Checkpoints(copy, tf.distribute.get_strategy()) as found:
                    tf.train.Checkpoint(value=value).restore(found.newest)
                assert len(set(value.numpy())) == 1 and value.numpy()[0] >= least
                shutil.rmtree(copy)
        finally:
            process.kill()
    assert len(kinds) > 1  # some were in the midst of a save


@pytest.mark.many
def test_goes_on_past_damage_to_the_same_weights(trained, copied):
    """Through `fit`; the damaged checkpoint is replaced, two are kept, and epochs are not lost."""
    put(copied / DATA, trained.files[DATA][:-1])
    model = make()
    with pytest.warns(RuntimeWarning, match=f"{DATA} is damaged .* goes on from ckpt-1"):
        history = fit(model, batches(), epochs=4, verbose=0, backup_dir=copied).history
    for one, other in zip(model.get_weights(), trained.weights[4], strict=True):
        np.testing.assert_array_equal(one, other)
    assert len(history["loss"]) == 4
    names = {f"ckpt-{number}.{kind}" for number in (4, 5) for kind in ("index", DATA[7:])}
    assert set(os.listdir(copied)) == {*names, NEWEST, LOCK}
    assert tf.train.latest_checkpoint(copied) == str(copied / "ckpt-5")


def test_a_full_disk(trained, copied):
    """A limit on the size of files stands for it: TensorFlow's writes fail in the same way."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)

    def fill():
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, before[1]))

    try:
        with pytest.raises(OSError, match=r"(?s)could not be written .*ckpt-2, which was saved be"):
            full = {"callbacks": [Call(1, fill)], "backup_dir": copied}
            fit(make(), batches(), epochs=4, verbose=0, **full)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert set(os.listdir(copied)) == {*ALL, LOCK}
    assert trained.goes_on_from(copied) == (2, "")


@pytest.mark.parametrize("what", ["a file", "below a file", "no place to write"])
def test_a_directory_that_cannot_be_written(trained, tmp_path, what):
    path = tmp_path / "place"
    if what == "no place to write":  # root, as whom tests may run, has a right to write anywhere
        (path / LOCK).mkdir(parents=True)
    else:
        path.write_text("mine")
    path = path / "below" if what == "below a file" else path
    expected = r"`backup_dir` is '.*', to which checkpoints cannot be written: .*Pass a directory"
    with pytest.raises(OSError, match=expected):
        trained.goes_on_from(path)


def test_two_programs(trained, copied):
    said = f"Another program trains .*process {os.getpid()} on"
    with Checkpoints(copied, tf.distribute.get_strategy()), pytest.raises(RuntimeError, match=said):
        trained.goes_on_from(copied)
    assert trained.goes_on_from(copied) == (2, "")


def test_a_lock_ends_with_its_process(trained, copied):
    script = "import fcntl, sys, time; file = open(sys.argv[1], 'a')\n"
    script += "fcntl.flock(file, fcntl.LOCK_EX); print('locked', flush=True); time.sleep(1000)"
    command = [sys.executable, "-c", script, str(copied / LOCK)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout.readline() == "locked\n"
            with pytest.raises(RuntimeError, match="Another program trains with the directory"):
                trained.goes_on_from(copied)
        finally:
            process.kill()
    assert trained.goes_on_from(copied) == (2, "")


def test_windows_has_no_locks(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "platform", "win32")
    with pytest.warns(RuntimeWarning, match="Windows has no `flock`"), locked(str(tmp_path)):
        assert not list(tmp_path.iterdir())


def test_a_file_system_without_locks(trained, copied, monkeypatch):
    def no_locks(*_):
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(fcntl, "flock", no_locks)
    epoch, said = trained.goes_on_from(copied)
    assert epoch == 2 and "has no locks (Operation not supported)" in said


def test_weights_that_are_not_finite_are_not_saved(trained, copied):
    model = make()
    with pytest.warns(RuntimeWarning) as said:
        fit(model, batches(last=np.nan), epochs=4, verbose=0, backup_dir=copied)
    assert np.isnan(model.get_weights()[0]).all()
    (message,) = [str(of.message) for of in said if "finite" in str(of.message)]
    assert "After 3 epochs and 0 steps not all of" in message and "dense" in message
    assert f"{copied}/ckpt-2 stays the newest" in message
    assert trained.goes_on_from(copied) == (2, "")


def test_a_model_that_has_infinities_is_saved(tmp_path):
    model = keras.Sequential([keras.Input([3]), keras.layers.Dense(2), keras.layers.Dense(2)])
    model.layers[1].trainable = False
    model.layers[1].bias.assign([0.0, np.inf])
    model.compile("sgd", lambda y, y_pred: keras.ops.square(y[:, :1] - y_pred[:, :1]))
    fit(model, batches(), epochs=1, verbose=0, backup_dir=tmp_path)
    assert tf.train.latest_checkpoint(tmp_path)


def test_another_model_is_named(trained, copied):
    with pytest.raises(
        ValueError, match=r"its variable for .*kernel has shape \[3, 2\], not \[3, 4\]\. Choose"
    ):
        fit(make(units=4), batches(units=4), verbose=0, backup_dir=copied)
    with pytest.raises(ValueError, match="made with the optimizer Adam, not SGD"):
        fit(make(optimizer="sgd"), batches(), verbose=0, backup_dir=copied)
    with pytest.raises(ValueError, match="it was made with the optimizer Adam, not Adamax"):
        fit(make(optimizer="adamax"), batches(), verbose=0, backup_dir=copied)
    assert trained.goes_on_from(copied) == (2, "")


@pytest.mark.slow
@pytest.mark.parametrize(
    "change",
    few_of(
        ["nothing", "seed", "size of batches", "learning rate", "learning rate, by a callback"],
        many=["nothing", "seed", "learning rate, by a callback"],
    ),
)
def test_what_is_changed_is_said(tmp_path, change):
    options = {"verbose": 0, "backup_dir": tmp_path}
    slower = keras.callbacks.LearningRateScheduler(lambda epoch, rate: rate / 2)
    options["callbacks"] = [slower] if change == "learning rate, by a callback" else []
    fit(make(), batches(), epochs=1, **options)
    data = {
        "seed": batches().unbatch().shuffle(12, seed=2).batch(4),
        "size of batches": batches().rebatch(3),
    }
    model = make(optimizer=keras.optimizers.Adam(0.5 if change == "learning rate" else 0.001))
    expected = {
        "seed": "The first batch of `data` is not the one",
        "size of batches": "The first batch of `data` is not the one",
        "learning rate": "compiled with a learning rate of 0.5, but .* of the checkpoint, 0.001",
    }
    with pytest.warns(RuntimeWarning) if change in expected else warnings.catch_warnings() as said:
        if change not in expected:
            warnings.simplefilter("error", RuntimeWarning)
        fit(model, data.get(change, batches()), epochs=2, **options)
    if change in expected:
        (message,) = [str(of.message) for of in said if of.category is RuntimeWarning]
        assert re.search(expected[change], message)


class TestSignal:
    """SIGTERM, which this process sends to itself."""

    @pytest.fixture(autouse=True)
    def handled(self):
        """A handler of the program's own, or the tests would end."""
        self.calls = []
        before = signal.signal(signal.SIGTERM, self.handle)
        yield
        signal.signal(signal.SIGTERM, before)

    def handle(self, number, frame):
        self.calls.append(number)
        if self.error:
            raise self.error

    error = None

    @pytest.mark.many
    def test_saves_before_the_handler_of_the_program(self, trained, tmp_path):
        self.error = SystemExit(3)
        ask = Call(5, lambda: signal.raise_signal(signal.SIGTERM))
        with pytest.raises(SystemExit):
            fit(make(), batches(), epochs=4, verbose=0, callbacks=[ask], backup_dir=tmp_path)
        assert self.calls == [signal.SIGTERM]
        assert signal.getsignal(signal.SIGTERM) == self.handle
        steps, model = [], make()
        count = keras.callbacks.LambdaCallback(
            on_train_batch_end=lambda step, logs: steps.append(step)
        )
        fit(model, batches(), epochs=4, verbose=0, callbacks=[count], backup_dir=tmp_path)
        assert len(steps) == 4 * 3 - 5
        for one, other in zip(model.get_weights(), trained.weights[4], strict=True):
            np.testing.assert_array_equal(one, other)

    @pytest.mark.many
    def test_goes_on_if_the_handler_returns(self, tmp_path):
        """Also in the midst of an evaluation, where steps are not taken again."""
        steps = []
        ask = keras.callbacks.LambdaCallback(
            on_train_batch_end=lambda step, logs: steps.append(step),
        )
        ask.on_test_batch_end = lambda step, logs=None: signal.raise_signal(signal.SIGTERM)
        options = {"epochs": 1, "verbose": 0, "backup_dir": tmp_path, "callbacks": [ask]}
        history = fit(make(), batches(), batches().take(1), **options).history
        assert self.calls == [signal.SIGTERM] and len(steps) == 3
        put(tmp_path / DATA, b"")  # of after the evaluation
        with pytest.warns(RuntimeWarning, match="goes on from ckpt-1"):
            again = fit(make(), batches(), batches().take(1), **options).history
        assert len(steps) == 3 and again == history

    @pytest.mark.slow
    def test_is_left_alone_elsewhere(self, tmp_path):
        """Without checkpoints, in other threads, and where it is ignored."""
        found = []
        look = Call(1, lambda: found.append(signal.getsignal(signal.SIGTERM)))
        options = {"verbose": 0, "callbacks": [look]}
        fit(make(), batches(), **options)
        look._steps = 1
        thread = threading.Thread(
            target=fit, args=(make(), batches()), kwargs={**options, "backup_dir": tmp_path}
        )
        thread.start()
        thread.join(SECONDS)
        assert found == [self.handle, self.handle]
        assert tf.train.latest_checkpoint(tmp_path)


@pytest.mark.slow
def test_ends_with_the_status_of_the_signal(tmp_path):
    program = [sys.executable, "-m", "tests.training.strategies", "none", str(tmp_path)]
    ended = subprocess.run(
        [*program, "--kill", "5", "--signal", "TERM"], cwd=REPOSITORY, timeout=SECONDS, check=False
    )
    assert ended.returncode == -signal.SIGTERM
    # The step in which it came is saved, though `save_freq` is 2.
    assert tf.train.load_checkpoint(tmp_path).get_tensor("step/.ATTRIBUTES/VARIABLE_VALUE") == 2
