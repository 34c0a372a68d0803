"""Layers that are saved with the arguments of their constructor."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Collection, Sequence
from typing import Any, ClassVar

import keras

from kerasrec._src.layers.shared_sublayers import config_of_sublayer
from kerasrec._src.private import layers_in, unnoticed_by_keras


class SavedByArguments(keras.layers.Layer):
    """A layer whose configuration is the arguments that its constructor got.

    Keras does the same for arguments that are numbers and strings.

    `in_attributes` of a class names the arguments that are saved as the attributes of these names
    have them, since they may change, or since the constructor takes them in several forms.
    """

    in_attributes: ClassVar[Collection[str]] = ()
    _arguments: dict[str, Any]
    _given_built: list[keras.layers.Layer]

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        """Makes a layer that knows the arguments of its constructor."""
        layer = super().__new__(cls, *args, **kwargs)
        given = _constructor_arguments(cls, args, kwargs)
        # Keras would look for weights in a visible attribute.
        object.__setattr__(layer, "_arguments", given)
        object.__setattr__(layer, "_given_built", _built_layers(given))
        return layer

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments that the constructor got, as Keras saves them, layers among them.

        A subclass implements it only if its arguments are something that Keras cannot save.
        """
        config = super().get_config()
        bases = type(self).__mro__
        kept = {name for base in bases for name in vars(base).get("in_attributes", ())}
        for name, value in self._arguments.items():
            if name in kept:
                value = getattr(self, name)
            if name in kept or name not in config:
                config[name] = _saved(value, self._given_built)
        return config

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Any:
        """Returns a layer made from the result of `get_config`.

        Layers that its constructor makes compute in its dtype, whatever the policy of the process.
        """
        made = {
            name: keras.saving.deserialize_keras_object(value)
            for name, value in config.items()
            if isinstance(value, dict | list)
        }
        arguments, policy = {**config, **made}, keras.config.dtype_policy()
        keras.config.set_dtype_policy(keras.dtype_policies.get(arguments.get("dtype")))
        try:
            return cls(**arguments)
        finally:
            keras.config.set_dtype_policy(policy)


def check_that_it_loads(cell: Any) -> None:
    """Makes a user's cell again from its configuration, as loading a saved model would.

    Raises:
        ValueError: If that fails, or makes another cell. A model would be trained, and be lost.
    """
    if type(cell).__module__.startswith(f"{__package__}."):
        return
    name, expected = type(cell).__name__, _sizes(cell)
    try:
        differing = set(_sizes(_read_back(cell))) - set(expected)
        if cell.goes_down:  # It may have the arity of the children with which it is built.
            differing -= {"arity None"}
        reason = f"its copy has other sizes: {', '.join(sorted(differing))}" if differing else ""
    except Exception as error:
        reason = str(error).rsplit("Exception encountered: ", 1)[-1].strip().rstrip(".")
    parameters = inspect.signature(type(cell).__init__).parameters.values()
    if reason and all(parameter.kind is not parameter.VAR_KEYWORD for parameter in parameters):
        raise ValueError(
            f"A saved {name} could not be loaded: {reason}. Let `{name}.__init__` take `**kwargs`, "
            "and pass them on: `super().__init__(**kwargs)`. They hold the options of every cell, "
            "such as its `name` and `dtype`."
        )
    if reason:
        raise ValueError(
            f"A saved {name} could not be loaded: {reason}. Write a `get_config` that returns the "
            f"arguments of `{name}.__init__`, such as `return {{**super().get_config(), 'units': "
            "self.units}`. A cell without one is saved with all arguments that are numbers, "
            "strings, lists, layers or registered functions."
        )


def _sizes(cell: keras.layers.Layer) -> list[str]:
    """The attributes that the layer of a cell reads before it is built, in words."""
    names = ("state_size", "_output_size", "arity", "read_inner_inputs")
    return [f"{name.lstrip('_')} {getattr(cell, name, None)!r}" for name in names]


def _read_back(cell: keras.layers.Layer) -> Any:
    """A copy of a cell, made from its configuration. A lambda can be loaded if one trusts it."""
    classes = {type(layer).__name__: type(layer) for layer in layers_in(cell)}
    with (
        unnoticed_by_keras(),
        keras.saving.custom_object_scope(classes),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore")
        config = keras.saving.serialize_keras_object(cell)
        return keras.saving.deserialize_keras_object(config, safe_mode=False)


def _built_layers(arguments: dict[str, Any]) -> list[keras.layers.Layer]:
    """The layers among the arguments of a constructor that have weights already."""
    flat = keras.tree.flatten(arguments)
    return [value for value in flat if isinstance(value, keras.layers.Layer) and value.built]


def _saved(value: Any, built: Sequence[keras.layers.Layer]) -> Any:
    """The value of a constructor argument, as Keras saves it.

    A layer that had no weights when the cell got it is built by the cell, also when it is loaded.
    """
    if isinstance(value, list | tuple):
        return [_saved(part, built) for part in value]
    config = config_of_sublayer(value)
    if isinstance(value, keras.layers.Layer) and not any(value is layer for layer in built):
        config.pop("build_config", None)
    return config


def _constructor_arguments(
    cls: type, args: Sequence[Any], options: dict[str, Any]
) -> dict[str, Any]:
    """The arguments that a constructor gets, by name, with the defaults that its class names.

    Empty if they do not fit: then the constructor itself raises an error.
    """
    signature = inspect.signature(cls.__init__)  # type: ignore[misc]  # As Keras does.
    try:
        bound = signature.bind(None, *args, **options)
    except TypeError:
        return {}
    bound.apply_defaults()
    given: dict[str, Any] = {}
    for name, value in list(bound.arguments.items())[1:]:
        kind = signature.parameters[name].kind
        if kind is not inspect.Parameter.VAR_POSITIONAL or value:
            given.update(value if kind is inspect.Parameter.VAR_KEYWORD else {name: value})
    return given
