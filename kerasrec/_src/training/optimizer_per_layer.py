"""An optimizer that uses separate optimizers for some layers.

`keras.optimizers.MultiOptimizer` of new versions of Keras has no learning rate, so callbacks cannot
change it, and no moving average; nor does it report a name that fits no layer.
"""

import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import keras
import tensorflow as tf

from kerasrec._src.private import optimized_variables, update_averages

# A dict is a configuration, as Keras saves it.
OptimizerLike: TypeAlias = str | keras.optimizers.Optimizer | dict[str, Any]


@keras.saving.register_keras_serializable("kerasrec")
class OptimizerPerLayer(keras.optimizers.Optimizer):
    """Uses separate optimizers for named layers, and one optimizer for all others.

    Tai, Socher and Manning 2015 (section 5.3, and their program) train word vectors with plain
    gradient descent and all other weights with AdaGrad. Pretrained word vectors need a smaller step
    than weights that begin at random. Each optimizer keeps its own rule, schedule, clipping
    (its `global_clipnorm` applies to its own layers), weight decay, moving average and
    accumulation. `global_clipnorm` and `use_ema` here are for all weights together.

    `learning_rate` is that of `default`. Setting it, as `ReduceLROnPlateau` and
    `LearningRateScheduler` do, changes all learning rates by the same factor, or raises an error
    and changes none if an optimizer has a schedule.

    For layers that must not move at all, set `layer.trainable = False` instead.

    Args:
        default: A Keras optimizer, or the name of one, for the layers that `layers` does not name.
        layers: A dict from the name of a layer, or a part of its path (`"encoder/embedding"`), to
            the Keras optimizer, or the name of one, for it and all layers in it.
        name: The optimizer's name.
        use_ema: Whether to keep a moving average of all trainable weights, as every optimizer of
            Keras can; `keras.callbacks.SwapEMAWeights` evaluates and saves it.
        ema_momentum: The momentum of the moving average.
        global_clipnorm: The largest norm of the gradients of all weights together, a float, or
            None for no limit; larger gradients are scaled down before each optimizer gets its own.

    Attributes:
        default: The optimizer of all other layers.
        layers: The optimizers by layer.

    Raises:
        ValueError: If `layers` is not a dict from names, or something in it is not an optimizer; if
            an optimizer is given twice, or scales the loss; when weights are first seen, if a name
            fits no layer with trainable weights, or two names fit the same weight; when the
            learning rate is set, if that of `default` was 0, an optimizer has a schedule, or the
            new one is a schedule.

    Example:

    >>> optimizer = kerasrec.training.OptimizerPerLayer(
    ...     keras.optimizers.Adagrad(0.05), {"embedding": keras.optimizers.SGD(0.1)}
    ... )
    >>> model.compile(optimizer, kerasrec.training.TreeCrossentropy())
    """

    def __init__(
        self,
        default: OptimizerLike,
        layers: Mapping[str, OptimizerLike],
        name: str = "optimizer_per_layer",
        use_ema: bool = False,
        ema_momentum: float = 0.99,
        global_clipnorm: float | None = None,
    ) -> None:
        # Keras requires a learning rate; nothing reads it.
        super().__init__(
            0.0,
            name=name,
            use_ema=use_ema,
            ema_momentum=ema_momentum,
            global_clipnorm=global_clipnorm,
        )
        if not isinstance(layers, Mapping) or not all(isinstance(key, str) for key in layers):
            raise ValueError(
                f"layers is {layers!r}; expected a dict from names of layers (layer.name) to "
                "optimizers, after the default one, such as 'adam', {'embedding': 'sgd'}."
            )
        self.default = _optimizer("default", default)
        self.layers = {layer: _optimizer(f"layers[{layer!r}]", layers[layer]) for layer in layers}
        if len({id(optimizer) for optimizer in self._all()}) <= len(self.layers):
            raise ValueError(
                "OptimizerPerLayer got one optimizer object twice; its state belongs to the "
                "weights of one place. Make a new optimizer for each layer."
            )
        for optimizer in self._all():
            if (
                isinstance(optimizer, keras.optimizers.LossScaleOptimizer)
                or optimizer.loss_scale_factor is not None
            ):
                raise ValueError(
                    f"The optimizer {optimizer.name!r} scales the loss, which all layers share. "
                    "Wrap the whole: keras.optimizers.LossScaleOptimizer(OptimizerPerLayer(...)). "
                    "With the policy 'mixed_float16', compile does so by itself."
                )

    def build(self, variables: Sequence[keras.Variable]) -> None:
        if self.built:
            return
        paths = [variable.path for variable in variables]
        fits = {layer: any(_is_in(path, layer) for path in paths) for layer in self.layers}
        if not all(fits.values()):
            raise ValueError(
                f"No layer with trainable weights is named "
                f"{' or '.join(repr(layer) for layer in fits if not fits[layer])}. Those that are "
                f"there: {', '.join(dict.fromkeys(path.rpartition('/')[0] for path in paths))}. "
                "A frozen layer needs no optimizer."
            )
        by_optimizer = self._places(variables)
        super().build(variables)
        for optimizer, places in by_optimizer:
            optimizer.build([variables[place] for place in places])

    def apply(
        self,
        grads: Sequence[tf.Tensor | tf.IndexedSlices | None],
        trainable_variables: Sequence[keras.Variable] | None = None,
    ) -> None:
        if trainable_variables is None:
            trainable_variables = optimized_variables(self)
        self.build(list(trainable_variables))
        if self.global_clipnorm is not None:
            grads, _ = tf.clip_by_global_norm(list(grads), self.global_clipnorm)
        for optimizer, places in self._places(trainable_variables):
            if any(grads[place] is not None for place in places):
                optimizer.apply(
                    [grads[place] for place in places],
                    [trainable_variables[place] for place in places],
                )
            elif places:
                # Keras warns if some weights of an optimizer have no gradient, and raises an error
                # if all have none. Here they are only some of the model's weights, so a warning is
                # right.
                paths = [trainable_variables[place].path for place in places]
                warnings.warn(f"Gradients do not exist for variables {paths}.", stacklevel=2)
        update_averages(self)
        self.iterations.assign_add(1)

    @property
    def variables(self) -> list[keras.Variable]:
        inner = (variable for optimizer in self._all() for variable in optimizer.variables)
        return [*super().variables, *inner]

    @property
    def learning_rate(self) -> Any:
        return self.default.learning_rate

    @learning_rate.setter
    def learning_rate(self, learning_rate: float) -> None:
        if callable(learning_rate):
            raise ValueError(
                f"The learning rate is set to {learning_rate!r}, a schedule; expected a number, by "
                "which those of the layers also change. Pass schedules to the optimizers: "
                "OptimizerPerLayer(keras.optimizers.SGD(schedule), ...)."
            )
        # Everything is checked before anything is changed. In a configuration, a schedule is a
        # dict.
        places = ["default", *(f"layers[{layer!r}]" for layer in self.layers)]
        for place, optimizer in zip(places, self._all(), strict=True):
            schedule = optimizer.get_config().get("learning_rate")
            if isinstance(schedule, dict):
                raise ValueError(
                    f"The learning rate of {place} is the schedule {schedule['class_name']}, which "
                    "cannot be set. Give that optimizer a number, or remove callbacks that set "
                    "learning rates, such as ReduceLROnPlateau."
                )
        before = _number(self.default.learning_rate)
        if not before:
            raise ValueError(
                f"The learning rate of '{self.default.name}', the default optimizer, is 0, so "
                "layer rates cannot be scaled relative to it. Set each one's: "
                "optimizer.default.learning_rate and optimizer.layers[...].learning_rate."
            )
        factor = _number(learning_rate) / before
        for optimizer in self._all():
            optimizer.learning_rate = _number(optimizer.learning_rate) * factor

    def finalize_variable_values(self, var_list: Sequence[keras.Variable]) -> None:
        for optimizer, places in self._places(var_list):
            optimizer.finalize_variable_values([var_list[place] for place in places])
        super().finalize_variable_values(var_list)

    def get_config(self) -> dict[str, Any]:
        serialize = keras.optimizers.serialize
        return {
            "default": serialize(self.default),
            "layers": {layer: serialize(self.layers[layer]) for layer in self.layers},
            "name": self.name,
            "use_ema": self.use_ema,
            "ema_momentum": self.ema_momentum,
            "global_clipnorm": self.global_clipnorm,
        }

    def _all(self) -> list[keras.optimizers.Optimizer]:
        return [self.default, *self.layers.values()]

    def _places(
        self, variables: Iterable[keras.Variable]
    ) -> list[tuple[keras.optimizers.Optimizer, list[int]]]:
        """Returns each optimizer with the places of its variables among `variables`."""
        places: dict[str | None, list[int]] = {layer: [] for layer in (None, *self.layers)}
        for place, variable in enumerate(variables):
            places[self._layer_of(variable.path)].append(place)
        return list(zip(self._all(), places.values(), strict=True))

    def _layer_of(self, path: str) -> str | None:
        fitting = [layer for layer in self.layers if _is_in(path, layer)]
        if len(fitting) > 1:
            raise ValueError(
                f"The weight '{path}' is in the layers {' and '.join(map(repr, fitting))}, and "
                "each has an optimizer. Name layers that are not nested in each other."
            )
        return fitting[0] if fitting else None


def _optimizer(place: str, identifier: Any) -> keras.optimizers.Optimizer:
    problem = ValueError(
        f"{place} is {identifier!r}; expected a Keras optimizer or the name of one, such as "
        "keras.optimizers.SGD(0.1) or 'sgd'."
    )
    if identifier is None:
        raise problem
    try:
        return keras.optimizers.get(identifier)
    except (KeyError, TypeError, ValueError) as error:
        raise problem from error


def _is_in(path: str, layer: str) -> bool:
    """Returns whether the variable at `path` belongs to a layer of that name or part of a path."""
    return f"/{layer}/" in f"/{path}"


def _number(learning_rate: Any) -> float:
    return float(keras.ops.convert_to_numpy(learning_rate))
