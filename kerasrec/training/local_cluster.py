"""A cluster on one machine, to try out a program for many machines.

    python -m kerasrec.training.local_cluster --workers 2 -- python train.py
    python -m kerasrec.training.local_cluster --workers 2 --ps 1 -- python train.py

Each process finds its place in the environment variable TF_CONFIG, as on a real cluster. Without
parameter servers the command runs once for each worker, for `MultiWorkerMirroredStrategy`. With
them it runs once, as the coordinator of `ParameterServerStrategy`, and the workers and servers wait
for work from it.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any

# The time that a process may take to end: after another has failed; and after SIGTERM, when it may
# still save a checkpoint, as long as Slurm and Kubernetes allow.
TERMINATION_SECONDS = 5
SAVING_SECONDS = 30


def main(argv: Sequence[str] | None = None) -> int:
    """Starts the cluster, waits for the command, stops all others; returns the exit status."""
    options = parse_options(argv)
    if options.serve:
        serve()
    cluster = local_cluster(options.workers, options.ps)
    server = [sys.executable, "-m", "kerasrec.training.local_cluster", "--serve"]
    processes: dict[str, list[subprocess.Popen[bytes]]] = {job: [] for job in cluster}
    programs = processes["chief" if options.ps else "worker"]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    seconds = TERMINATION_SECONDS
    try:
        for job, addresses in cluster.items():
            for index in range(len(addresses)):
                runs_command = job == "chief" if options.ps else True
                command = options.command if runs_command else server
                processes[job].append(start(command, cluster, job, index))
        if options.ps:
            return wait(programs, processes["worker"])
        return wait(programs)
    except OSError as error:
        print(f"The command {options.command} cannot be started: {error}.", file=sys.stderr)
        return 127
    except KeyboardInterrupt:
        return 130
    except SystemExit:
        seconds = SAVING_SECONDS
        raise
    finally:
        stop(programs, seconds)  # Before the servers, since they save values of the servers.
        stop([process for job in processes.values() for process in job])


def parse_options(argv: Sequence[str] | None) -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m kerasrec.training.local_cluster",
        description="Run a command on a cluster of processes on this machine.",
    )
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--ps", type=int, default=0, help="parameter servers")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("command", nargs="*", help="after --, such as: python train.py")
    options = parser.parse_args(argv)
    if options.workers < 1 or options.ps < 0:
        parser.error("there must be at least one worker, and no negative number of servers")
    if not options.command and not options.serve:
        parser.error("no command; expected one after --, such as: -- python train.py")
    return options


def local_cluster(num_workers: int, num_servers: int) -> dict[str, list[str]]:
    """Addresses of each job's tasks, at ports that are free now."""
    jobs = ["worker"] * num_workers
    if num_servers:
        jobs += ["ps"] * num_servers + ["chief"]
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in jobs]
    cluster: dict[str, list[str]] = {}
    for job, listening in zip(jobs, sockets, strict=True):
        cluster.setdefault(job, []).append(f"127.0.0.1:{listening.getsockname()[1]}")
    for listening in sockets:
        listening.close()
    return cluster


def start(
    command: Sequence[str], cluster: dict[str, list[str]], job: str, index: int, **options: Any
) -> subprocess.Popen[bytes]:
    """Starts a task of a cluster; options are those of `subprocess.Popen`."""
    place = {"cluster": cluster, "task": {"type": job, "index": index}}
    return subprocess.Popen(command, env={**os.environ, "TF_CONFIG": json.dumps(place)}, **options)


def wait(
    processes: Sequence[subprocess.Popen[bytes]], workers: Sequence[subprocess.Popen[bytes]] = ()
) -> int:
    """Waits until all have ended, or one has failed, since the others would wait for it.

    It also returns when all workers for which a coordinator would wait have ended.
    """
    while True:
        codes = [process.poll() for process in processes]
        failed = [code for code in codes if code]
        if failed:
            return failed[0] if failed[0] > 0 else 128 - failed[0]  # as in shells
        if None not in codes:
            return 0
        if workers and all(worker.poll() is not None for worker in workers):
            print("The cluster is stopped: all workers have ended.", file=sys.stderr)
            return 1
        time.sleep(0.1)


def stop(
    processes: Sequence[subprocess.Popen[bytes]], seconds: float = TERMINATION_SECONDS
) -> None:
    """Ends all processes that still run, and waits at most this many seconds."""
    for process in processes:
        process.terminate()
    deadline = time.monotonic() + seconds
    for process in processes:
        try:
            process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def serve() -> Any:
    """Runs the coordinator's requests, until the process is stopped."""
    import tensorflow as tf

    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    server = tf.distribute.Server(
        resolver.cluster_spec(), resolver.task_type, resolver.task_id, protocol="grpc"
    )
    server.join()


if __name__ == "__main__":
    sys.exit(main())
