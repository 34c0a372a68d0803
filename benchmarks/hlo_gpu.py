"""Compiles a step for a GPU, on a machine that need not have one.

TensorFlow compiles for the devices it sees. JAX can compile for a GPU that is only described, and
takes TensorFlow functions. Its XLA is of another version than TensorFlow's.
"""

from pathlib import Path

import jax
import tensorflow as tf
from jax.experimental import jax2tf, topologies

from benchmarks.baselines import baseline_class
from benchmarks.baselines.tensorflow_cells import nodes_loss
from benchmarks.one_step import as_with_a_gpu

BASELINE = "kerasrec in xla"
_DESCRIPTION = Path(__file__).with_name("h200.txtpb")


class GpuCompiler:
    """A model, compiled for an NVIDIA H200.

    Args:
        model, values: of the baseline.
    """

    def __init__(self, model, values):
        with as_with_a_gpu():
            self._baseline = baseline_class(BASELINE)(model, values)

    def text(self, mode, batch):
        """The optimized text of inference, or of the loss with its gradients, on a batch."""
        model = self._baseline.model
        trained, others = (
            [variable.numpy() for variable in variables]
            for variables in (model.trainable_variables, model.non_trainable_variables)
        )
        inputs = [item.numpy() for item in self._baseline.inputs(batch)]
        with as_with_a_gpu():
            step = self._gradients if mode == "training" else self._logits
            return _compiled(jax2tf.call_tf(step), trained, others, *inputs)

    def _logits(self, trained, others, tokens, children, labels):
        """The baseline's loss; variables are arguments, since TensorFlow has no device for them."""
        model = self._baseline.model
        return model.stateless_call(trained, others, [tokens, children])[0]

    def _gradients(self, trained, others, tokens, children, labels):
        model = self._baseline.model
        with tf.GradientTape() as tape:
            tape.watch(trained)
            logits, _ = model.stateless_call(trained, others, [tokens, children], training=True)
            loss = nodes_loss(logits, labels, tf.shape(labels)[0])
        return loss, tape.gradient(loss, trained)


def _compiled(function, *arguments):
    topology = topologies.get_topology_desc(
        platform="cuda",
        topology_name="",
        target_config=_DESCRIPTION.read_text(encoding="utf-8"),
        topology="1x1x1",  # One process with one GPU.
    )
    place = jax.sharding.SingleDeviceSharding(topology.devices[0])
    traced = jax.jit(function, in_shardings=place, out_shardings=place).trace(*arguments)
    return traced.lower(lowering_platforms=("cuda",)).compile().as_text()
