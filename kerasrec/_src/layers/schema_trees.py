"""`SchemaTrees`: from data of a schema to the inputs of tree layers."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import tensorflow as tf

from kerasrec._src.datatypes.trees import OfKinds, by_kind
from kerasrec._src.layers.schema_layer import SchemaLayer, is_stand_in
from kerasrec._src.public import Schema

_ARGUMENTS = ("token_of", "features_of", "children_of")
_CONSTANTS = ("__numpy__", "__tensor__")  # As Keras saves them.


@keras.saving.register_keras_serializable("kerasrec")
class SchemaTrees(SchemaLayer):
    """Turns a batch into the inputs of tree layers: `kerasrec.Schema.trees` as a layer.

    `schema.trees(schema.inputs(), ...)` creates and calls one. Create it yourself to give it a
    name.

    The layer is saved with its constants and with the names of fields. Functions are saved as in
    `keras.layers.Lambda`: by name, if `keras.saving.register_keras_serializable` registers them. A
    `lambda` is saved as code, which `keras.models.load_model` runs only with `safe_mode=False`, and
    which has no access to imports when it is loaded: `tf.stack` fails there.

    Args:
        schema: A `kerasrec.Schema`, or a subclass of `kerasrec.DataType`.
        token_of: The argument of `kerasrec.Schema.trees`.
        features_of: The argument of `kerasrec.Schema.trees`. It must not read trainable weights,
            which are not trained there; put them into a layer after this one.
        children_of: The argument of `kerasrec.Schema.trees`.
        **kwargs: The options of every Keras layer: `name`, `dtype` and `trainable`.

    Call arguments:
        batch: A dict of RaggedTensors from `schema.encode` or `schema.inputs()`.

    Output shape:
        A pair `(x, children)`, both ragged. `x` contains tokens, int32, int64 or string
        `[batch, (nodes)]` or `[batch, (nodes), ids]`, or features, float
        `[batch, (nodes), features]`, or is a tuple of both. `children` is int32
        `[batch, (nodes), (children)]`.

    Raises:
        ValueError: If `token_of`, `features_of` or `children_of` are not as in `Schema.trees`, or
            if a function reads trainable weights.
        TypeError: If the batch lacks a tensor, or if one is not ragged.

    Example:

    >>> documents = [{"size": 1.5, "parts": [{"name": "a"}, {"name": "b"}]}, {"size": 2.5}]
    >>> schema = kerasrec.Schema.infer(documents)
    >>> layer = kerasrec.layers.SchemaTrees(schema, token_of={"document": 1, "parts": 2})
    >>> x, children = layer(schema.encode(documents))
    >>> x, children
    (<tf.RaggedTensor [[1, 2, 2], [1]]>, <tf.RaggedTensor [[[1, 2], [], []], [[]]]>)
    """

    def __init__(
        self,
        schema: Any,
        *,
        token_of: OfKinds | None = None,
        features_of: OfKinds | None = None,
        children_of: OfKinds | None = None,
        **kwargs: Any,
    ):
        super().__init__(schema, **kwargs)
        self.token_of = self._by_name("token_of", token_of)
        self.features_of = self._by_name("features_of", features_of)
        self.children_of = self._by_name("children_of", children_of)
        self._runs: dict[str, Any] = {}
        self.built = True

    def _by_name(self, name: str, of_kinds: OfKinds | None) -> Any:
        """The entry of each kind, by its name, since a loaded schema has other classes."""
        if of_kinds is None or callable(of_kinds):
            return of_kinds
        entries = by_kind(self.schema, name, of_kinds)
        return {kind.name: entry for kind, entry in entries.items()}

    def _trees(self, batch: dict[str, tf.RaggedTensor]) -> tuple[Any, tf.RaggedTensor]:
        options = {name: getattr(self, name) for name in _ARGUMENTS}
        return self.schema.trees(batch, **options)

    def _run(self) -> Any:
        """The function to run, traced once, whose outputs are known."""
        if not self._runs:
            trees = tf.function(
                self._trees, input_signature=[self.schema.element_spec], autograph=False
            )
            run = trees.get_concrete_function()
            weights = [variable.name for variable in run.variables if variable.trainable]
            if weights:
                raise ValueError(
                    f"A function of {self.name} reads the weights {', '.join(weights)}, which "
                    "would not be trained or saved: they belong to no layer of the model. Let it "
                    "give numbers, and call a layer on `x`."
                )
            self._runs["trees"] = run
        return self._runs["trees"]

    def call(self, batch: dict[str, Any]) -> tuple[Any, Any]:
        """Makes trees; see the class."""
        if is_stand_in(batch):
            size = tf.shape(next(iter(batch.values())))[0]
            zeros: tuple[Any, Any] = tf.nest.map_structure(
                lambda spec: tf.zeros([size, *(dim or 1 for dim in spec.shape[1:])], spec.dtype),
                self._run().structured_outputs,
            )
            return zeros
        trees: tuple[Any, Any] = self._run()(self._checked(batch))
        return trees

    def compute_output_spec(self, batch: dict[str, Any]) -> Any:
        """Returns symbolic `x` and `children`."""
        (size, *_), *_ = (tensor.shape for tensor in self.schema._checked(batch).values())
        return tf.nest.map_structure(
            lambda spec: keras.KerasTensor((size, *spec.shape[1:]), spec.dtype.name, ragged=True),
            self._run().structured_outputs,
        )

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor arguments, as Keras saves them."""
        given = {name: _config_of(getattr(self, name)) for name in _ARGUMENTS}
        return {**super().get_config(), **given}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> SchemaTrees:
        """Returns a layer made from the result of `get_config`."""
        return cls(**{**config, **{name: _of_config(config[name]) for name in _ARGUMENTS}})


Schema._trees_layer = SchemaTrees


def _config_of(given: Any) -> Any:
    """The entry of all kinds, or of each, as plain data; kinds may have any name."""
    if isinstance(given, dict):
        return [[name, _config_of(entry)] for name, entry in given.items()]
    if callable(given):
        return keras.layers.Lambda(given).get_config()["function"]
    array = np.asarray(given)
    if array.dtype.kind in "OSU":  # Keras does not load all forms of text that it saves.
        return keras.tree.map_structure(
            lambda text: text.decode() if isinstance(text, bytes) else text, array.tolist()
        )
    return keras.saving.serialize_keras_object(given)


def _of_config(config: Any) -> Any:
    if isinstance(config, list):
        return {name: _entry_of(entry) for name, entry in config}
    return _entry_of(config)


def _entry_of(config: Any) -> Any:
    """A constant or a function."""
    if not isinstance(config, dict):
        return config
    if config["class_name"] in _CONSTANTS:
        return keras.saving.deserialize_keras_object(config)
    return keras.layers.Lambda.from_config({"function": config}).function
