"""Checkpoints that are damaged, cut short, or cannot be written."""

import os
import resource
import shutil
import signal
import subprocess
import sys
import threading

import numpy as np
import pytest
import tensorflow as tf

from kerasrec._src.training.checkpoints import Checkpoints
from kerasrec._src.training.lock import LOCK
from kerasrec.training import fit
from tests.parameters import few_of
from tests.training.backups import ALL, DATA, INDEX, NEWEST, Call, batches, make, put
from tests.training.clusters import REPOSITORY


def faults(raw, places):
    """Damages of a file: (fault, the rest of it)."""
    yield "missing", None
    yield "empty", b""
    yield "half", raw[: len(raw) // 2]
    yield "without its last byte", raw[:-1]
    yield "longer", raw + b"x"
    for place in places:
        flipped = raw[place] ^ (1 << place % 8)
        yield f"bit {place % 8} of byte {place}", raw[:place] + bytes([flipped]) + raw[place + 1 :]


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
    """The files of a save that is killed, in the order in which TensorFlow writes; the epoch."""
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
