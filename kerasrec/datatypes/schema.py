"""`Schema`: values of a data type as tensors."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar

import keras
import tensorflow as tf

from kerasrec.autograph import not_converted
from kerasrec.datatypes.declare import DataType, family_of, is_object
from kerasrec.datatypes.decode import decode
from kerasrec.datatypes.described import class_of, config_of
from kerasrec.datatypes.documents import reader_of, refuse_one_document
from kerasrec.datatypes.encode import encode
from kerasrec.datatypes.field import described
from kerasrec.datatypes.flat import flat_of
from kerasrec.datatypes.infer import infer
from kerasrec.datatypes.kinds import Kind, Kinds
from kerasrec.datatypes.make import make
from kerasrec.datatypes.to_batch import to_batch
from kerasrec.datatypes.trees import OfKinds, to_trees
from kerasrec.datatypes.values import Tables, Value
from kerasrec.errors import SentenceFirst
from kerasrec.trace.tracer import Tracer


class Schema(Kinds):
    """A data type with all that its fields lead to.

    Values are stored as one dict of ragged tensors. Tree nodes, that is values of data types, are
    numbered within each example, node 0 is the root. `batch["kind"]`, int32 `[batch, (nodes)]`, is
    the kind of each; every field of a kind has a tensor with a row for each node of that kind, in
    the order of their numbers: `batch["Number.value"]`, float32 `[batch, (rows)]`. A field that
    refers to nodes holds their numbers, -1 for None; a list has one axis more, `[batch, (rows),
    (entries)]`. So memory is proportional to nodes and entries, and a batch goes through `tf.data`,
    `keras.Input`, `fit` and `predict` as any other dict. `kerasrec.datasets.write_value_files` puts
    values into files.

    Args:
        root: a subclass of `kerasrec.DataType`: the type of each example.

    Raises:
        TypeError: `root` is something else, or a field is not declared as `DataType` says.

    Example:

    >>> schema = kerasrec.Schema(Expr)
    >>> batch = schema.encode([Apply("+", [Number(1.0), Number(2.0)])])
    >>> batch["Number.value"]
    <tf.RaggedTensor [[1.0, 2.0]]>
    """

    # What `trees` is of a `keras.Input`; `layers/schema_trees.py` sets it.
    _trees_layer: ClassVar[Callable[..., keras.layers.Layer]]

    @functools.cached_property
    def _flat(self) -> Any:
        """`flat_of` as one op, since it takes several hundred."""
        run = functools.partial(flat_of, self)
        return tf.function(run, input_signature=[self.element_spec], autograph=False)

    def __reduce__(self) -> tuple[Any, ...]:
        if any(kind.is_inferred for kind in self.kinds):
            return Schema.from_config, (self.get_config(),)
        return Schema, (self.root,)

    def inputs(self, name: str | None = None) -> dict[str, Any]:
        """A `keras.Input` for each tensor of a batch, for a functional model.

        Args:
            name: what the names of the inputs begin with. A model that reads several batches, such
                as pairs of documents, needs one for each, since names of inputs are unique in a
                model. Keys stay those of a batch.
        """
        start = "" if name is None else f"{name}."
        return {
            key: keras.Input(
                tuple(spec.shape[1:]), dtype=spec.dtype.name, ragged=True, name=start + key
            )
            for key, spec in self.element_spec.items()
        }

    def encode(self, values: Iterable[Any]) -> dict[str, tf.RaggedTensor]:
        """Values as a batch: see the class.

        Args:
            values: objects of the data type, or nested data: dicts with the names of fields as
                keys, objects of other dataclasses and nodes of Python's `ast` (the name of the
                class is the kind), and `nltk.Tree`s, which have the fields `label` and `children`.
                Where a type has several kinds, a dict says under `"kind"` which it is.

        Raises:
            ValueError: `values` is one value, or a value does not fit; the message has its path,
                such as `example 3.arguments[1].value`.
        """
        refuse_one_document("encode", values)
        return encode(self, values, reader_of(self))

    @classmethod
    def infer(
        cls,
        documents: Iterable[Any],
        max_choices: int = 100,
        *,
        optional: bool | str | Iterable[str] = False,
        numbers: str | Iterable[str] = (),
    ) -> Schema:
        """A schema from examples of nested data: JSON, dataclasses, nodes of `ast`, `nltk.Tree`s.

        Objects under one key are of one kind, which is called as the key; or, if they have a key
        `"kind"`, they are of the kind that stands there. For objects of dataclasses and nodes of
        `ast` that is the name of their class. A field that some objects lack, or that is None
        there, is optional. Texts that are numbers everywhere are numbers. Where values of several
        forms stand, such as numbers and objects, there is a kind for each form. Keys that no
        example has are left out when documents are encoded.

        Args:
            documents: examples.
            max_choices: a text or an integer is one of few choices, if there are at most as many
                different ones as this, each seen twice or more on average. Values that are not seen
                here share one extra choice. Numbers written with a point, such as 5.0, are
                never choices.
            optional: fields that later documents may lack though all examples have them, such as
                `["document.name", "atoms.charge"]`, a kind and a field as `print(schema)` has them,
                where `Call(node)` is the kind `Call` of the type `node`; True for all fields. Lists
                need not be named: one that is missing is empty.
            numbers: fields of integers that are quantities, such as `["customer.age"]`: they stay
                numbers, however few different ones there are.

        Raises:
            ValueError: `documents` is one document, there are none, one contains something that is
                not JSON, such as NaN, a list has None among other entries, or `optional` or
                `numbers` has something that is no such field.
        """
        refuse_one_document("Schema.infer", documents)
        return cls.from_config(infer(documents, max_choices, optional, numbers))

    def get_config(self) -> dict[str, Any]:
        """The schema as plain data."""
        return config_of(self)

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Schema:
        """A schema from what `get_config` gave, with new classes of the same names."""
        return cls(class_of(**config))

    def decode(self, batch: Mapping[str, Any] | Value) -> Any:
        """The values that a batch was encoded from: new objects, or documents.

        Documents lack what is None, and texts and numbers that are no known choice are None.

        Args:
            batch: as `encode` gives it; or what a recursive function returns, a value for each
                token or, if it was called for one without a token axis, a single one.

        Returns:
            A list; for a single value, the object. A value that may be None is None where it is.

        Raises:
            ValueError: it is neither, or a value is of another type.
        """
        if not isinstance(batch, Value):
            return decode(self, batch)
        nodes = self._examples(batch, "Schema.decode")._node
        are_there = nodes >= 0
        there = dataclasses.replace(batch, _node=tf.boolean_mask(nodes, are_there))
        found = iter(decode(self, self.batch(there)))
        values = [next(found) if is_there else None for is_there in are_there.numpy()]
        return values if batch._node.shape.rank else values[0]

    @not_converted
    def batch(self, values: Value) -> dict[str, tf.RaggedTensor]:
        """What a recursive function returns, as a batch.

        Tree nodes that no value leads to are left out. Gradients reach the numbers of the batch.

        Args:
            values: of the type of the schema, an example each.

        Raises:
            ValueError: they are of another type.
            tf.errors.InvalidArgumentError: one of them is None.
        """
        with SentenceFirst():
            return to_batch(self, self._examples(values, "Schema.batch"))

    @not_converted
    def trees(
        self,
        values: Value | Mapping[str, tf.RaggedTensor],
        *,
        token_of: OfKinds | None = None,
        features_of: OfKinds | None = None,
        children_of: OfKinds | None = None,
    ) -> tuple[Any, tf.RaggedTensor]:
        """Values as what a tree layer reads: `layer(*schema.trees(values))`.

        Values of all kinds are the tree nodes of one table. Node 0 is the root, and the others
        follow level by level. A value that several others refer to is one tree node, behind all of
        these; the layer then needs `shared_nodes=True`. Gradients go through the features to the
        numbers of the values. It runs eagerly, within a `tf.function`, in `tf.data.Dataset.map`,
        in `call` of a layer or a model, and on `schema.inputs()`, for a functional model. There it
        is the layer `kerasrec.layers.SchemaTrees`, which says how functions are saved.

        `token_of`, `features_of` and `children_of` say for values what they say for Python objects
        in `kerasrec.datasets.encode`. Each is a dict with a function for each kind, as for
        `kerasrec.match`, or one function for all kinds. A function is called once for each kind and
        gets all values of that kind: a field is a tensor with a row for each. Tokens and features
        may also be constants. A kind without an entry has token 0 (or an empty text), features of
        zeros, and no children.

        Args:
            values: what a recursive function returns, an example each; or a batch, as `encode`
                gives it or a layer gets it; or `schema.inputs()`.
            token_of: gives tokens, int32, int64 or string `[rows]`, or several for each value,
                `[rows, ids]`. If neither it nor `features_of` is given, the token is the number of
                the kind, from 1 to `len(schema.kinds)`, in the order of `print(schema)`.
            features_of: gives features, float `[rows, features]`; `[rows]` is one feature.
            children_of: gives the children in their order: a field that holds values, or a list of
                such fields; the names of fields may stand in place of a function. A field that is
                None is -1, a slot without a child. By default all fields that hold values, in the
                order of declaration.

        Returns:
            A pair `(x, children)`, ragged: `x` are tokens, `[batch, (nodes)]` or `[batch, (nodes),
            ids]`, or features, `[batch, (nodes), features]`, or a tuple of both. `children` is
            int32 `[batch, (nodes), (children)]`. For padded ones take `x.to_tensor()` and
            `children.to_tensor(-1)`.

        Raises:
            ValueError: values are of another type, a batch lacks a tensor, a dict has a key that is
                no kind, or a function gives something else than said above.
            tf.errors.InvalidArgumentError: a value is None, or a function gives not a row for each.

        Example:

        >>> x, children = schema.trees(
        ...     schema.encode([Apply("+", [Number(1.0), Number(2.0)])]),
        ...     token_of={Number: 1, Apply: lambda apply: 2 + apply.operator},
        ... )
        >>> x, children
        (<tf.RaggedTensor [[2, 1, 1]]>, <tf.RaggedTensor [[[1, 2], [], []]]>)
        """
        if isinstance(values, Mapping):
            if _are_symbolic(values):
                layer = self._trees_layer(
                    self, token_of=token_of, features_of=features_of, children_of=children_of
                )
                found: tuple[Any, tf.RaggedTensor] = layer(self._checked(values))
                return found
            values = self.values(values)
        with SentenceFirst():
            examples = self._examples(values, "Schema.trees")
            return to_trees(self, examples, token_of, features_of, children_of)

    def _examples(self, values: Any, what: str) -> Value:
        """Values with an axis of examples."""
        if not isinstance(values, Value) or values._type is not family_of(self.root):
            raise ValueError(
                f"{what} got {values!r}; expected values of {self.root.__name__}, as a "
                "recursive function returns them."
            )
        if isinstance(values._node, tf.RaggedTensor):
            raise ValueError(
                f"{what} got rows of values; expected one for each example. Take their "
                "entries: `tf.nest.map_structure(lambda rows: rows.values, values)`."
            )
        if values._node.shape.rank:
            return values
        return dataclasses.replace(values, _node=values._node[tf.newaxis])

    @not_converted
    def values(self, batch: Mapping[str, tf.RaggedTensor]) -> Value:
        """A batch as an argument of a recursive function, a token for each example.

        Args:
            batch: as `encode` gives it, or as a layer gets it.

        Raises:
            ValueError: it lacks a tensor.
        """
        batch = self._checked(batch)
        if _are_symbolic(batch):
            raise ValueError(
                "Schema.values got a keras.Input; expected tensors, as Schema.encode gives them. "
                "In a functional model, Schema.trees and a SchemaEncoder take inputs. A recursive "
                "function is called in `call` of a layer, such as `keras.layers.Lambda(lambda "
                "batch: f(schema.values(batch)), output_shape=())(inputs)`."
            )
        with SentenceFirst():
            is_eager = tf.executing_eagerly()
            flat, roots = self._flat(batch) if is_eager else flat_of(self, batch)
        return Value(roots, Tables.of_flat(self, flat), self.numbers(self.root))

    def _checked(self, batch: Any) -> dict[str, Any]:
        """The tensors of a batch, symbolic or not, once it is known that they are of the schema."""
        if not isinstance(batch, Mapping):
            raise ValueError(
                f"The batch is {described(batch)}; expected a dict as Schema.encode gives it."
            )
        missing = [key for key in self.element_spec if key not in batch]
        if missing:
            raise ValueError(
                f"The batch has no {', '.join(missing)}; expected a dict as Schema.encode gives "
                f"it, with the keys {', '.join(self.element_spec)}."
            )
        batch = {key: batch[key] for key in self.element_spec}
        for key, spec in self.element_spec.items():
            found = batch[key]
            if isinstance(found, keras.KerasTensor):  # clone_model forgets that it is ragged.
                is_right = spec.dtype.name == found.dtype and spec.shape.rank == len(found.shape)
            else:
                found = tf.type_spec_from_value(found)
                is_right = spec.is_compatible_with(found)
            if not is_right:
                is_cast = spec.dtype == tf.float64 and tf.as_dtype(found.dtype).is_floating
                is_padded = isinstance(found, tf.TensorSpec)
                raise ValueError(
                    f"{key!r} of the batch is {found}; expected {spec}, as Schema.encode gives it."
                    + _CAST * (is_cast and not is_padded)
                    + _PADDED * is_padded
                )
        return batch

    def of(self, values: Iterable[Any]) -> Value:
        """Objects as an argument of a recursive function, a token for each."""
        return self.values(self.encode(values))

    def __repr__(self) -> str:
        return f"<Schema of {self.root.__name__}, {len(self.kinds)} kinds>"

    def __str__(self) -> str:
        families: dict[type, list[Kind]] = {}
        for kind in self.kinds:
            families.setdefault(family_of(kind.type), []).append(kind)
        lines = []
        for family, kinds in families.items():
            for kind in kinds:
                is_family = kind.name.startswith(family.__name__)
                title = kind.name if is_family else f"{kind.name}({family.__name__})"
                lines.append(title)
                lines += [f"  {field.name}: {field}" for field in kind.fields]
        return "\n".join(lines)


# Why tensors may be padded, and floats others than those of a batch.
_PADDED = (
    " model.export of Keras passes padded tensors: export a tf.function with "
    "input_signature=[schema.element_spec] by keras.export.ExportArchive instead."
)
_CAST = (
    " A subclass of keras.Model casts the floats that it is given: call "
    "`super().__init__(autocast=False)` in its `__init__`. In place of keras.Sequential make a "
    "functional model of `schema.inputs()`."
)


def _are_symbolic(batch: Mapping[str, Any]) -> bool:
    return any(isinstance(tensor, keras.KerasTensor) for tensor in batch.values())


def as_values(arguments: Sequence[Any]) -> list[Any]:
    """Arguments of a recursive function; data types among them as values, one token each.

    Args:
        arguments: objects of a data type, and lists of objects of one type; all else stays. Those
            of one type become values of one batch.
    """
    found = list(arguments)
    places: dict[type[DataType], list[int]] = {}
    for place, argument in enumerate(arguments):
        first = argument[0] if isinstance(argument, list) and argument else argument
        if is_object(first):
            places.setdefault(family_of(type(first)), []).append(place)
    for family, chosen in places.items():
        several = [found[place] for place in chosen]
        lists = [item if isinstance(item, list) else [item] for item in several]
        values = _known(Schema(family)).of([item for items in lists for item in items])
        nodes = tf.split(values._node, list(map(len, lists)))
        for place, item, node in zip(chosen, several, nodes, strict=True):
            node = node if isinstance(item, list) else node[0]
            found[place] = dataclasses.replace(values, _node=node)
    return found


def _make(tracer: Tracer, item: DataType) -> Value:
    return make(tracer, item, lambda family: _known(Schema(family)))


DataType._make = _make


@functools.lru_cache(maxsize=64)
def _known(schema: Schema) -> Schema:
    """An equal schema from before, which has traced what it needs."""
    return schema
