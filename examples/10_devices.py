"""One recursion on several devices: `tf.device` places each part of its graph.

The called function is part of one static graph, which TensorFlow partitions like any other. When
run by itself, the program uses two devices of one process. When run as the coordinator of a
cluster, it uses two workers, like the factorial of the 2018 thesis (Kostopoulou, annex A):

    python -m kerasrec.training.local_cluster --workers 2 --ps 1 -- python examples/10_devices.py
"""

import os

import tensorflow as tf

import kerasrec

cpu = tf.config.list_physical_devices("CPU")[0]
if "TF_CONFIG" in os.environ:
    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    tf.config.experimental_connect_to_cluster(resolver, resolver.task_type, resolver.task_id)
    first, second = "/job:worker/task:0", "/job:worker/task:1"
else:
    if not tf.config.get_logical_device_configuration(cpu):
        devices = [tf.config.LogicalDeviceConfiguration()] * 2
        tf.config.set_logical_device_configuration(cpu, devices)
    first, second = "/CPU:0", "/CPU:1"


@kerasrec.recursive
def factorial(n):
    def more():
        with tf.device(first):
            smaller = n - 1.0
        rest = factorial(smaller)
        with tf.device(second):
            return n * rest

    return kerasrec.cond(n < 1.0, lambda: 1.0, more)


print(factorial.function_graphs(5.0))
n = tf.constant([3.0, 5.0])
with tf.GradientTape() as tape:
    tape.watch(n)
    y = factorial(n)
print("\nfactorial([3, 5]) =", y.numpy(), "with gradient", tape.gradient(y, n).numpy())
