"""Recursive functions whose ops are on two workers of a cluster; prints what comes out.

python -m tests.engine.across_tasks      (in the coordinator of a cluster)
"""

import json

import tensorflow as tf

from tests.engine.test_devices import factorial, tree_model, with_gradients
from tests.engine.test_devices_option import rows_multiplied, sum_of_halves, tree_state

FIRST, SECOND = (f"/job:worker/task:{task}/device:CPU:0" for task in (0, 1))


def lists_of(function, argument, variables):
    """Values and gradients as JSON has them."""
    found = with_gradients(function, argument, variables)
    return [tensor.numpy().tolist() for tensor in found]


def results(first, second):
    """Values and gradients, with parts of the functions on one device and on another."""
    x = tf.Variable([3.0, 1.0, 5.0])
    model, weights = tree_model(first, second)
    return {
        "factorial": lists_of(factorial("auto", first, second), x, [x]),
        "tree": lists_of(model, 4, weights),
    }


def results_of_devices(target):
    """The same of `devices=` on both workers, and how many rows each of them multiplied."""
    model, weights = tree_state(devices=[FIRST, SECOND])
    return {
        "devices": lists_of(model, [4, 3, 4], weights),
        "rows": rows_multiplied(sum_of_halves(FIRST, SECOND), [9] * 5, target),
    }


def main():
    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    tf.config.experimental_connect_to_cluster(resolver, resolver.task_type, resolver.task_id)
    server = f"grpc://{resolver.cluster_spec().task_address('worker', 0)}"
    print(json.dumps({**results(FIRST, SECOND), **results_of_devices(server)}))


if __name__ == "__main__":
    main()
