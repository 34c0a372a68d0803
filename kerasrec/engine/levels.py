"""Runs programs of one round: a loop down the waves, a loop up, and the same for the gradient.

A wave is all tokens of a body at one depth. Since every body calls once, the waves of a program
lie in a line: wave w calls wave w + 1, in which the tokens of all call sites follow each other.
So the recursion over tokens is a linear recursion over waves, and a stage of the plan is one loop
over them. A wave's values are elements of `tf.TensorArray`s, kept under the wave's number: that is
the tag of the engine. Loops are of stock ops; what a run does not need TensorFlow removes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from kerasrec.engine.frame import Frame
from kerasrec.engine.limits import Limits
from kerasrec.engine.plan import Part, Plan
from kerasrec.engine.results import Gradients, Outcome, Sums, Tensors
from kerasrec.graph.graph import CallSite, Node, Region, Value

Carry = dict[str, Tensors]


class LevelRun:
    """One run of a program of one round.

    Args:
        plan: of the program.
        shared: tensors of SHARED values.
        limits: bounds on depth and width.
    """

    def __init__(self, plan: Plan, shared: dict[Value, tf.Tensor], limits: Limits):
        self.plan = plan
        self.graph = plan.graph
        self.bodies = plan.graph.bodies
        self.shared = shared
        self.limits = limits
        self.num_waves: tf.Tensor
        self.waves: dict[Value, tf.TensorArray] = {}
        self.choices: dict[Value, list[tf.TensorArray]] = {}
        self.sizes: dict[Value | str, tf.Tensor] = {}
        self.starts: dict[Value | str, tf.Tensor] = {}
        self.all_tokens: dict[Value, tf.Tensor] = {}

    def forward(self, arguments: Tensors) -> Outcome:
        """Runs stages 0 and 1."""
        sums = Sums()
        self._down(arguments)
        self._bulk(0, sums)
        outputs = self._up()
        self._bulk(1, sums)
        return Outcome(outputs, sums.tables())

    def backward(self, cotangents: Tensors, shared: dict[Value, tf.Tensor]) -> Gradients:
        """Runs stages 2 to 4, after `forward`.

        Args:
            cotangents: for each flat output of the entry; anything for outputs without gradient.
            shared: tensors of SHARED values, the cotangents of tables among them.
        """
        self.shared = shared
        sums = Sums()
        self._bulk(2, sums)
        self._gradient_down(cotangents)
        self._bulk(3, sums)
        arguments = self._gradient_up()
        self._bulk(4, sums)
        return Gradients(arguments, sums.gradients(shared))

    def _down(self, arguments: Tensors) -> None:
        """Stage 0: each wave computes the arguments of the next, until nobody calls."""

        def width(carry: Carry) -> tf.Tensor:
            return tf.add_n([tf.shape(tensors[0])[0] for tensors in carry.values()])

        def goes_on(wave: tf.Tensor, carry: Carry) -> tf.Tensor:
            waiting = width(carry)
            return (wave == 0) | ((waiting > 0) & self.limits.allow(wave, waiting))

        def enter(frames: dict[str, Frame], carry: Carry) -> None:
            for name, frame in frames.items():
                frame.set(self.bodies[name].parameters, carry[name])

        def leave(frames: dict[str, Frame]) -> Carry:
            return {name: self._passed_arguments(name, frames) for name in self.bodies}

        first = {name: _empty(body.parameters) for name, body in self.bodies.items()}
        first[self.graph.entry] = list(arguments)
        invariants = {name: _shapes(body.parameters) for name, body in self.bodies.items()}
        wave, carry = self._loop(0, (0, 1, goes_on), first, invariants, enter, leave)
        with tf.control_dependencies(self.limits.check(wave, width(carry))):
            self.num_waves = tf.identity(wave)

    def _up(self) -> Tensors:
        """Stage 1: each wave returns to the one before; the first returns to the outside."""

        def enter(frames: dict[str, Frame], carry: Carry) -> None:
            for name in self.bodies:
                self._hand_back(frames, name, carry[name], lambda site: site.returns)

        def leave(frames: dict[str, Frame]) -> Carry:
            return {
                name: [frames[name].get(node.output()) for node in body.outputs]
                for name, body in self.bodies.items()
            }

        first = {name: _empty(body.outputs) for name, body in self.bodies.items()}
        invariants = {name: _shapes(body.outputs) for name, body in self.bodies.items()}
        _, carry = self._loop(1, self._upwards(), first, invariants, enter, leave)
        return carry[self.graph.entry]

    def _gradient_down(self, cotangents: Tensors) -> None:
        """Stage 3: cotangents of outputs go down, from the caller to the called."""

        def enter(frames: dict[str, Frame], carry: Carry) -> None:
            for name, frame in frames.items():
                frame.set(_present(self.bodies[name].gradient_parameters), carry[name])

        def leave(frames: dict[str, Frame]) -> Carry:
            return {name: self._passed_cotangents(name, frames) for name in self.bodies}

        entrances = {
            name: _present(body.gradient_parameters) for name, body in self.bodies.items()
        }
        first = {name: _empty(nodes) for name, nodes in entrances.items()}
        first[self.graph.entry] = [
            cotangent
            for cotangent, node in zip(
                cotangents, self.bodies[self.graph.entry].gradient_parameters, strict=True
            )
            if node is not None
        ]
        invariants = {name: _shapes(nodes) for name, nodes in entrances.items()}

        def goes_on(wave: tf.Tensor, carry: Carry) -> tf.Tensor:
            return wave < self.num_waves

        self._loop(3, (0, 1, goes_on), first, invariants, enter, leave)

    def _gradient_up(self) -> list[tf.Tensor | None]:
        """Stage 4: cotangents of arguments come up, from the called to the caller."""
        exits = {name: _present(body.gradient_outputs) for name, body in self.bodies.items()}
        entry = self.bodies[self.graph.entry]
        if not any(exits.values()):
            return [None] * len(entry.parameters)

        def enter(frames: dict[str, Frame], carry: Carry) -> None:
            for name in self.bodies:
                self._hand_back(
                    frames, name, carry[name], lambda site: _present(site.gradient_returns)
                )

        def leave(frames: dict[str, Frame]) -> Carry:
            return {
                name: [frames[name].get(node.output()) for node in nodes]
                for name, nodes in exits.items()
            }

        first = {name: _empty(nodes) for name, nodes in exits.items()}
        invariants = {name: _shapes(nodes) for name, nodes in exits.items()}
        _, carry = self._loop(4, self._upwards(), first, invariants, enter, leave)
        found = iter(carry[self.graph.entry])
        return [None if node is None else next(found) for node in entry.gradient_outputs]

    def _upwards(self) -> tuple[tf.Tensor, int, Callable]:
        return self.num_waves - 1, -1, lambda wave, _: wave >= 0

    def _loop(
        self,
        stage: int,
        waves: tuple[Any, int, Callable],
        first: Carry,
        invariants: dict[str, list[tf.TensorShape]],
        enter: Callable[[dict[str, Frame], Carry], None],
        leave: Callable[[dict[str, Frame]], Carry],
    ) -> tuple[tf.Tensor, Carry]:
        """The loop of a stage: all bodies fire on their wave, kept values are written down.

        Args:
            stage: of the plan.
            waves: the first wave, the step to the next, and whether to go on with (wave, carry).
            first: what the first wave gets from its neighbour, by body.
            invariants: shapes of that.
            enter: puts what a wave gets into the frames.
            leave: takes what the next wave gets out of them.
        """
        start, step, goes_on = waves
        part = Part(stage, is_bulk=False)
        arrays = self._arrays(part)

        def iterate(wave: tf.Tensor, carry: Carry, arrays: dict) -> tuple:
            frames = {name: self._wave_frame(stage, name, wave, carry) for name in self.bodies}
            enter(frames, carry)
            for name, frame in frames.items():
                frame.run(self.plan.nodes.get((name, part), ()))
            written = {
                key: array.write(wave, self._written(frames, key)) for key, array in arrays.items()
            }
            return wave + step, leave(frames), written

        keys = list(arrays)
        wave, carry, found = tf.while_loop(
            lambda wave, carry, _: goes_on(wave, carry),
            lambda wave, carry, listed: _listed(
                iterate(wave, carry, dict(zip(keys, listed, strict=True)))
            ),
            (tf.convert_to_tensor(start), first, list(arrays.values())),
            shape_invariants=(tf.TensorShape([]), invariants, [tf.TensorShape(None)] * len(keys)),
            parallel_iterations=1,
        )
        self._keep(dict(zip(keys, found, strict=True)))
        return wave, carry

    def _arrays(self, part: Part) -> dict[tuple, tf.TensorArray]:
        """Empty TensorArrays for what a loop keeps, by (what, body, value, branch)."""
        dtypes: dict[tuple, tuple[tf.DType, tf.TensorShape]] = {}
        for name in self.bodies:
            if part.stage == 0:
                dtypes[("tokens", name, None, 0)] = (tf.int32, tf.TensorShape([1]))
            for value in self.plan.kept.get((name, part), ()):
                found = (value.type.dtype, value.type.tensor_shape())
                dtypes[("value", name, value, 0)] = found
            for predicate, num in self.plan.kept_predicates.get((name, part), ()):
                dtypes[("sizes", name, predicate, num)] = (tf.int32, tf.TensorShape([num]))
                for branch in range(num):
                    found = (tf.int32, tf.TensorShape([None]))
                    dtypes[("rows", name, (predicate, num), branch)] = found
        is_first = part.stage == 0
        return {
            key: tf.TensorArray(
                dtype,
                size=0 if is_first else self.num_waves,
                dynamic_size=is_first,
                element_shape=shape,
                clear_after_read=False,
            )
            for key, (dtype, shape) in dtypes.items()
        }

    def _written(self, frames: dict[str, Frame], key: tuple) -> tf.Tensor:
        """What one wave writes into one TensorArray."""
        what, name, value, branch = key
        frame = frames[name]
        if what == "tokens":
            return frame.count(None)[tf.newaxis]
        if what == "value":
            return frame.get(value)
        if what == "sizes":
            return tf.stack([tf.size(rows) for rows in frame.rows(value, branch)])
        return frame.rows(*value)[branch]

    def _keep(self, arrays: dict[tuple, tf.TensorArray]) -> None:
        for (what, name, value, branch), array in arrays.items():
            if what == "value":
                self.waves[value] = array
            elif what == "rows":
                rows = self.choices.setdefault(value[0], [])
                assert len(rows) == branch
                rows.append(array)
            else:
                sizes = array.stack()
                key = name if what == "tokens" else value
                self.sizes[key] = sizes
                self.starts[key] = tf.cumsum(sizes, exclusive=True)

    def _wave_frame(self, stage: int, name: str, wave: tf.Tensor, carry: Carry) -> Frame:
        if stage == 0:
            num_tokens = tf.shape(carry[name][0])[0]
        else:
            num_tokens = self.sizes[name][wave, 0]

        def fetch(value: Value) -> tf.Tensor:
            if value in self.waves:
                return self.waves[value].read(wave)
            return self._rows_of_wave(name, value, wave)

        def choices(predicate: Value) -> Tensors | None:
            arrays = self.choices.get(predicate)
            return arrays and [array.read(wave) for array in arrays]

        return Frame(num_tokens, self.shared, fetch, choices)

    def _rows_of_wave(self, name: str, value: Value, wave: tf.Tensor) -> tf.Tensor:
        """The rows that belong to a wave, of a value that a bulk computed for all of them."""
        region = value.region
        key, branch = (name, 0) if region is None else (region.predicate, region.branch)
        start = self.starts[key][wave, branch]
        return self.all_tokens[value][start : start + self.sizes[key][wave, branch]]

    def _bulk(self, stage: int, sums: Sums) -> None:
        """The bulk of a stage, on the tokens of all waves."""
        part = Part(stage, is_bulk=True)

        def fetch(value: Value) -> tf.Tensor:
            if value not in self.all_tokens:
                self.all_tokens[value] = self.waves[value].concat()
            return self.all_tokens[value]

        for name in self.bodies:
            nodes = self.plan.nodes.get((name, part), [])
            frame = Frame(tf.reduce_sum(self.sizes[name]), self.shared, fetch)
            frame.run(nodes)
            for value in self.plan.kept.get((name, part), ()):
                self.all_tokens[value] = frame.get(value)
            for node in nodes:
                if node.op in ("COLLECT", "ACCUMULATE"):
                    sums.take(node, frame)

    def _passed_arguments(self, name: str, frames: dict[str, Frame]) -> Tensors:
        """Arguments of a body's next wave: the tokens of its call sites, one after another."""
        body = self.bodies[name]
        sites = self.graph.sites_to(name)
        if not sites:
            return _empty(body.parameters)
        return [
            _joined([frames[site.caller].get(site.calls[place].inputs[0]) for site in sites])
            for place in range(len(body.parameters))
        ]

    def _passed_cotangents(self, name: str, frames: dict[str, Frame]) -> Tensors:
        """Cotangents of the outputs of a body's next wave; zero where a site has none."""
        body = self.bodies[name]
        sites = self.graph.sites_to(name)
        if not sites:
            return _empty(_present(body.gradient_parameters))
        return [
            _joined([_cotangent(frames[site.caller], site, place) for site in sites])
            for place, node in enumerate(body.gradient_parameters)
            if node is not None
        ]

    def _hand_back(
        self,
        frames: dict[str, Frame],
        name: str,
        tensors: Tensors,
        returns: Callable[[CallSite], list[Node]],
    ) -> None:
        """Splits what a body's wave returns among the call sites that made the wave."""
        sites = self.graph.sites_to(name)
        if len(sites) == 1:
            frames[sites[0].caller].set(returns(sites[0]) or [None] * len(tensors), tensors)
        elif sites:
            sizes = [frames[site.caller].count(_region(site)) for site in sites]
            pieces = [tf.split(tensor, sizes) for tensor in tensors]
            for place, site in enumerate(sites):
                nodes = returns(site) or [None] * len(tensors)
                frames[site.caller].set(nodes, [piece[place] for piece in pieces])


def _region(site: CallSite) -> Region | None:
    return site.calls[0].region


def _cotangent(frame: Frame, site: CallSite, place: int) -> tf.Tensor:
    call = site.gradient_calls[place] if site.gradient_calls else None
    if call is not None:
        return frame.get(call.inputs[0])
    found = site.returns[place].types[0]
    return tf.zeros([frame.count(_region(site)), *found.shape], found.dtype)


def _present(nodes) -> list[Node]:
    return [node for node in nodes if node is not None]


def _joined(tensors: Tensors) -> tf.Tensor:
    return tensors[0] if len(tensors) == 1 else tf.concat(tensors, 0)


def _empty(nodes: list[Node]) -> Tensors:
    return [tf.zeros([0, *node.types[0].shape], node.types[0].dtype) for node in nodes]


def _shapes(nodes: list[Node]) -> list[tf.TensorShape]:
    return [node.types[0].tensor_shape() for node in nodes]


def _listed(state: tuple) -> tuple:
    wave, carry, arrays = state
    return wave, carry, list(arrays.values())
