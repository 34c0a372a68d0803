"""Models of each kind, trained by their own `fit` on arrays; as a program it prints what came out.

python -m tests.training.keras_models multi_worker      (in each worker of a cluster)
python -m tests.training.keras_models parameter_server  (in its coordinator)
"""

import sys

import keras
import numpy as np

from kerasrec.training import Model, Sequential
from tests.training.clusters import print_object
from tests.training.strategies import STRATEGIES

X = np.random.default_rng(0).normal(size=[20, 3]).astype("float32")
Y = X.sum(1, keepdims=True)


def dense():
    """A layer with the same weights each time."""
    return keras.layers.Dense(1, kernel_initializer=keras.initializers.RandomNormal(seed=3))


def functional(functional_class):
    x = keras.Input([3])
    return functional_class(x, dense()(x))


def sequential(sequential_class):
    return sequential_class([keras.Input([3]), dense()])


def subclassed(model_class):
    class Own(model_class):
        def __init__(self):
            super().__init__()
            self.dense = dense()

        def call(self, x):
            return self.dense(x)

    return Own()


def results(model):
    """The results of a model's methods that was made in the scope of a strategy."""
    model.compile("adam", "mse", metrics=["mae"])
    arrays = {"x": X, "y": Y, "batch_size": 8}
    fitted = model.fit(**arrays, epochs=2, validation_data=(X[:9], Y[:9]), shuffle=False, verbose=0)
    found = {
        "fit": fitted.history,
        "evaluate": model.evaluate(**arrays, verbose=0),
        "evaluate_to_dict": model.evaluate(X, Y, verbose=0, return_dict=True),
        "predict": model.predict(X, batch_size=8, verbose=0).tolist(),
    }
    # Keras draws other orders, so weights differ after this.
    shuffled = model.fit(**arrays, initial_epoch=2, epochs=3, verbose=0)
    return {**found, "shuffled": len(shuffled.history["loss"])}


def main():
    with STRATEGIES[sys.argv[1]]().scope():
        models = [functional(Model), sequential(Sequential), subclassed(Model)]
    for model in models:
        print_object(results(model))


if __name__ == "__main__":
    main()
