"""DyNet: plain recursion; DyNet batches its operations by itself (autobatching)."""

# Importing dynet sets up everything, so batching must be chosen before.
import _dynet as dy

from benchmarks.baselines.baseline import Baseline
from benchmarks.model import INITIAL_ACCUMULATOR, LEARNING_RATE, weight_shapes


class DyNetBatching(Baseline):
    def __init__(self, model, values):
        options = dy.DynetParams()
        options.set_autobatch(True)
        options.set_mem(2048)
        options.init()
        self._collection = collection = dy.ParameterCollection()
        self._shapes = {name: values[name].shape for name in weight_shapes(model, 1)}
        self._weights = {
            name: collection.parameters_from_numpy(as_columns(values[name]))
            for name in self._shapes
        }
        self._table = collection.lookup_parameters_from_numpy(values["table"])
        # Its epsilon below the root is the initial sum of squares of Keras.
        self._trainer = dy.AdagradTrainer(collection, LEARNING_RATE, INITIAL_ACCUMULATOR)
        # Keras does not clip.
        self._trainer.set_clip_threshold(0)
        self._cell = CELLS[model]
        self._units = values["output_kernel"].shape[0]

    def inputs(self, batch):
        trees = []
        for tokens, children, labels, is_node in zip(*batch, batch.is_node, strict=True):
            arrays = tokens[is_node], children[is_node], labels[is_node]
            trees.append(tuple(array.tolist() for array in arrays))
        return (trees,)

    def logits(self, trees):
        dy.renew_cg()
        return dy.concatenate_cols(self._logits(trees)).npvalue().T

    def gradients(self, trees):
        loss = self._loss(trees)
        value = loss.value()
        loss.backward()
        gradients = {}
        for name, weight in self._weights.items():
            gradients[name] = self._as_rows(name, weight.grad_as_array())
            # Else the next ones are added.
            weight.scale_gradient(0.0)
        return value, gradients

    def train(self, trees):
        loss = self._loss(trees)
        value = loss.value()
        loss.backward()
        self._trainer.update()
        return value

    def weights(self):
        return {
            name: self._as_rows(name, weight.as_array()) for name, weight in self._weights.items()
        }

    def _as_rows(self, name, array):
        return array.T.reshape(self._shapes[name]).copy()

    def _logits(self, trees):
        """Logits of all nodes, tree by tree."""
        cell = self._cell(self._weights, self._units)
        kernel, bias = self._weights["output_kernel"], self._weights["output_bias"]
        logits = []
        for tokens, children, _ in trees:
            states = [None] * len(tokens)
            # Children follow their parents.
            for node in reversed(range(len(tokens))):
                left, right = children[node]
                if left < 0:
                    states[node] = cell.leaf(dy.lookup(self._table, tokens[node], update=False))
                else:
                    states[node] = cell.inner(states[left], states[right])
            logits += [dy.affine_transform([bias, kernel, state[0]]) for state in states]
        return logits

    def _loss(self, trees):
        dy.renew_cg()
        labels = [label for *_, labels in trees for label in labels]
        losses = [
            dy.pickneglogsoftmax(logits, label)
            for logits, label in zip(self._logits(trees), labels, strict=True)
        ]
        return dy.esum(losses) / len(trees)


def as_columns(array):
    """DyNet has kernels on the left, of columns; a third-order tensor is a kernel as well."""
    return array if array.ndim == 1 else array.reshape(len(array), -1).T.copy()


class TreeRNN:
    def __init__(self, weights, units):
        self._kernel, self._bias = weights["kernel"], weights["bias"]
        self._recurrent_kernel = weights["recurrent_kernel"]

    def leaf(self, x):
        return (dy.tanh(dy.affine_transform([self._bias, self._kernel, x])),)

    def inner(self, left, right):
        h = dy.concatenate([left[0], right[0]])
        return (dy.tanh(dy.affine_transform([self._bias, self._recurrent_kernel, h])),)


class RNTN(TreeRNN):
    def __init__(self, weights, units):
        super().__init__(weights, units)
        self._tensor, self._units = weights["tensor"], units

    def inner(self, left, right):
        h = dy.concatenate([left[0], right[0]])
        half = dy.reshape(self._tensor * h, (self._units, 2 * self._units))
        z = dy.affine_transform([self._bias, self._recurrent_kernel, h, half, h])
        return (dy.tanh(z),)


class TreeLSTM:
    def __init__(self, weights, units):
        self._units = units
        self._kernel, self._recurrent_kernel = weights["kernel"], weights["recurrent_kernel"]
        bias = weights["bias"]
        self._leaf_bias = dy.pick_range(bias, 0, 3 * units)
        forget = dy.pick_range(bias, 3 * units, 4 * units)
        self._inner_bias = dy.concatenate([bias, forget])

    def leaf(self, x):
        i, o, u = self._gates(dy.affine_transform([self._leaf_bias, self._kernel, x]), 3)
        c = dy.cmult(dy.logistic(i), dy.tanh(u))
        return dy.cmult(dy.logistic(o), dy.tanh(c)), c

    def inner(self, left, right):
        h = dy.concatenate([left[0], right[0]])
        z = dy.affine_transform([self._inner_bias, self._recurrent_kernel, h])
        i, o, u, f_1, f_2 = self._gates(z, 5)
        kept = dy.cmult(dy.logistic(f_1), left[1]) + dy.cmult(dy.logistic(f_2), right[1])
        c = dy.cmult(dy.logistic(i), dy.tanh(u)) + kept
        return dy.cmult(dy.logistic(o), dy.tanh(c)), c

    def _gates(self, z, number):
        units = self._units
        return [dy.pick_range(z, units * gate, units * (gate + 1)) for gate in range(number)]


CELLS = {"TreeRNN": TreeRNN, "RNTN": RNTN, "TreeLSTM": TreeLSTM}
