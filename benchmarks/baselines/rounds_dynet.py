"""DyNet: plain recursion over each root; DyNet batches its operations by itself (autobatching)."""

# Importing dynet sets up everything, so batching must be chosen before.
import _dynet as dy

from benchmarks.baselines.dynet_batching import as_columns
from benchmarks.rounds_runner import Runner

SOURCES = {
    "walk": ("kernel", "recurrent_kernel", "bias", "table"),
    "branches": ("kernel", "bias"),
}


class RoundsDyNet(Runner):
    def __init__(self, weights):
        super().__init__(weights)
        options = dy.DynetParams()
        options.set_autobatch(True)
        options.set_mem(2048)
        options.init()
        self._collection = collection = dy.ParameterCollection()
        self._weights = {
            name: collection.parameters_from_numpy(as_columns(value))
            for name, value in weights.items()
            if name != "table"
        }
        self._weights["table"] = collection.lookup_parameters_from_numpy(weights["table"])
        # Gradients add up; a step, here of size zero, sets them to zero.
        self._trainer = dy.SimpleSGDTrainer(collection, 0.0)

    def computed(self, case):
        self._trainer.update()
        return super().computed(case)

    def functions(self, case):
        if case.program not in SOURCES:
            return None
        make = {"walk": self._walk, "branches": self._branches}[case.program]
        inputs = {name: array.tolist() for name, array in case.inputs.items()}

        def forward():
            dy.renew_cg()
            return {"output": dy.concatenate_cols(make(inputs)).npvalue().T}

        def gradient():
            dy.renew_cg()
            mean = dy.esum([dy.sum_elems(output) for output in make(inputs)]) / case.batch
            mean.forward()
            mean.backward()
            return {f"gradient of {name}": self._gradient(name) for name in SOURCES[case.program]}

        return {"forward": forward, "gradient": gradient}

    def _gradient(self, name):
        array = self._weights[name].grad_as_array()
        return array if name == "table" else array.T.copy()

    def _walk(self, inputs):
        children, words, weights = inputs["children"], inputs["words"], self._weights
        kernels = [weights["kernel"], weights["recurrent_kernel"]]

        def walk(node, h):
            left, right = children[node]
            if left < 0:
                x = dy.lookup(weights["table"], words[node])
                return dy.tanh(dy.affine_transform([weights["bias"], kernels[0], x, kernels[1], h]))
            return walk(right, walk(left, h))

        zeros = dy.zeros(len(self.weights["bias"]))
        return [walk(root, zeros) for root in inputs["roots"]]

    def _branches(self, inputs):
        bias, kernel = self._weights["bias"], self._weights["kernel"]

        def branches(n, kind, h):
            if n == 0:
                return h
            if kind % 2:
                return branches(n - 1, kind // 2, h) * 0.5
            return branches(n - 1, kind // 2, dy.tanh(dy.affine_transform([bias, kernel, h])))

        zeros = dy.zeros(len(self.weights["bias"]))
        pairs = zip(inputs["depth"], inputs["kinds"], strict=True)
        return [branches(depth, kind, zeros) for depth, kind in pairs]
