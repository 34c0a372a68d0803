"""The options, weights and batches of commands that inspect one step of a model."""

import argparse
import contextlib
from unittest import mock

import tensorflow as tf

from benchmarks.comparison import MODES
from benchmarks.model import MODELS, initial_values
from benchmarks.trees import TreeSource


def parser_of(documentation):
    """A parser with the options of a model and a batch."""
    parser = argparse.ArgumentParser(description=documentation.split("\n")[0])
    parser.add_argument("--model", choices=MODELS, default="TreeLSTM")
    parser.add_argument("--batch", type=int, default=25)
    parser.add_argument("--units", type=int, default=150)
    return parser


def add_mode(parser):
    """Adds the option for the mode of a step."""
    parser.add_argument("--mode", choices=MODES, default=MODES[0])


@contextlib.contextmanager
def as_with_a_gpu():
    """Makes kerasrec choose sizes, layouts and places as if TensorFlow saw a GPU."""
    gpu = [tf.config.LogicalDevice("/device:GPU:0", "GPU")]
    with mock.patch.object(tf.config, "list_logical_devices", return_value=gpu):
        yield


def values_and_batches(arguments, directory=None):
    """The weights of the model, and batches of trees of a directory, or of random ones."""
    source = TreeSource(directory, arguments.batch)
    values = initial_values(arguments.model, source.num_words(), arguments.units)
    return values, source.batches(arguments.batch)
