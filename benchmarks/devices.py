"""Names of two devices, of this process or of a cluster that it coordinates."""

import tensorflow as tf


def of_workers():
    """Of two workers that `kerasrec.training.local_cluster` has started."""
    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    tf.config.experimental_connect_to_cluster(resolver, resolver.task_type, resolver.task_id)
    return [f"/job:worker/task:{task}/device:CPU:0" for task in (0, 1)]


def server():
    """The address of the first of these workers."""
    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    return f"grpc://{resolver.cluster_spec().task_address('worker', 0)}"


def of_this_process():
    """Of two logical devices; before TensorFlow first runs."""
    (cpu,) = tf.config.list_physical_devices("CPU")
    two = [tf.config.LogicalDeviceConfiguration()] * 2
    tf.config.set_logical_device_configuration(cpu, two)
    return ["/device:CPU:0", "/device:CPU:1"]
