"""A lock on a directory, which ends with the process that holds it."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import sys
import warnings
from collections.abc import Iterator

LOCK = "training.lock"
# The errors of a file system without locks.
NO_LOCKS = {errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL}


@contextlib.contextmanager
def locked(directory: str) -> Iterator[None]:
    """Locks a directory against other programs.

    The lock is the operating system's (`flock`), so a process that was killed leaves none. The file
    stays: if it were removed, two programs could lock two files of the same name. If a process is
    forked from this one and outlives it, it keeps the lock.

    Args:
        directory: A directory that exists and can be written.

    Raises:
        RuntimeError: If another program has locked it.
    """
    if sys.platform == "win32":
        warnings.warn(
            f"Windows has no `flock`: make sure that no other program uses '{directory}'.",
            RuntimeWarning,
            stacklevel=2,
        )
        yield
        return
    import fcntl

    file = os.open(os.path.join(directory, LOCK), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            holder = os.read(file, 1000).decode(errors="replace").strip()
            raise RuntimeError(
                f"Another program trains with the directory '{directory}' now "
                f"({holder or 'process unknown'}), and the two would overwrite each other's "
                "checkpoints. Wait for it, end it, or choose another `backup_dir`."
            ) from error
        except OSError as error:
            if error.errno not in NO_LOCKS:
                raise
            warnings.warn(
                f"The file system of '{directory}' has no locks ({error.strerror}): make sure that "
                "no other program trains with this `backup_dir`.",
                RuntimeWarning,
                stacklevel=2,
            )
        else:
            os.truncate(file, 0)
            os.write(file, f"process {os.getpid()} on {socket.gethostname()}\n".encode())
        yield
    finally:
        os.close(file)  # This releases the lock.
