"""The devices on which instances of a body run, as the user names them."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

from kerasrec._src.errors import TraceError


def checked_instances(instances: Sequence[str]) -> tuple[str, ...]:
    """Returns names of devices or tasks as a tuple.

    Raises:
        TraceError: If they are not a list of such names.
    """
    if isinstance(instances, str) or not all(isinstance(name, str) for name in instances):
        raise TraceError(
            f"instances is {instances!r}; it must be a list of names of devices or tasks, such as "
            "['/GPU:0', '/GPU:1'] or ['/job:worker/task:0', '/job:worker/task:1']."
        )
    for name in instances:
        try:
            tf.DeviceSpec.from_string(name)
        except ValueError:
            raise TraceError(
                f"instances has {name!r}, which is no name of a device or task, such as '/GPU:0' "
                "or '/job:worker/task:1'."
            ) from None
    return tuple(instances)


def check_that_they_are_there(instances: Sequence[str], function: str) -> None:
    """Checks that all named devices exist; the error lists those that do.

    TensorFlow would run the part of a missing device on another one, without saying so.

    Raises:
        TraceError: If this process knows no device of a given name.
    """
    there = [device.name for device in tf.config.list_logical_devices()]
    specs = [tf.DeviceSpec.from_string(name) for name in there]
    for name in instances:
        wanted = tf.DeviceSpec.from_string(name)
        if not any(spec.make_merged_spec(wanted) == spec for spec in specs):
            raise TraceError(
                f"{function} has an instance on {name}, and there is no such device. There are "
                f"{', '.join(there)}. A task is there after "
                "tf.config.experimental_connect_to_cluster; several logical devices, after "
                "tf.config.set_logical_device_configuration."
            )
