"""Two programs and one directory of checkpoints."""

import fcntl
import os
import subprocess
import sys

import pytest
import tensorflow as tf

from kerasrec._src.training.checkpoints import Checkpoints
from kerasrec._src.training.lock import LOCK, locked


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
