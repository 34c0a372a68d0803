"""`DataType`: classes as a schema."""

from __future__ import annotations

import abc
import dataclasses
import inspect
import sys
import types
import typing
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Protocol, TypeGuard

from kerasrec._src.datatypes.field import Field, field_of
from kerasrec._src.trace.tracer import Tracer, active_tracer

if sys.version_info >= (3, 11):
    from typing import dataclass_transform
else:

    def dataclass_transform(**options: Any) -> Any:
        """A decorator that only type checkers read; Python 3.10 does not have it."""
        return lambda decorated: decorated


# Names that a value inside a recursive function needs for itself.
RESERVED = ("has", "kind", "lookup")


class _NoAttribute:
    """Hides a method of all classes from `dataclass`, which would take it for a default."""

    def __get__(self, *_: Any) -> Any:
        raise AttributeError("Data types have no `register`; declare a class below the type.")


# The metaclass of protocols, and so of abstract classes: data types may be either.
class _Class(type(Protocol)):  # type: ignore[misc]
    """The metaclass of data types."""

    register: Any = _NoAttribute()

    def __instancecheck__(cls, instance: Any) -> bool:
        """For `isinstance` and `case Number(...)`: they would be false in a recursive function."""
        refuse = getattr(type(instance), "_refuse_in_body", None)
        if refuse is not None:
            refuse(instance, f"`isinstance(..., {cls.__name__})`")
        return abc.ABCMeta.__instancecheck__(cls, instance)


@dataclass_transform(eq_default=False)
class DataType(metaclass=_Class):
    """Base class for data that recursive functions read, such as trees with several kinds of node.

    A direct subclass of `DataType` is a type, and its subclasses are the type's kinds. Their fields
    are declared as those of a dataclass, and every kind is one: a value is an ordinary Python
    object.

    ```python
    class Expr(kerasrec.DataType):
        pass

    class Number(Expr):
        value: float

    class Apply(Expr):
        operator: Literal["+", "*"]
        arguments: list[Expr]

    Apply("+", [Number(1.0), Number(2.0)])
    ```

    A class with fields but no subclasses is a type with a single kind. Kinds also have the fields
    of the classes above them.

    | a field that is declared as | in a recursive function is a tensor |
    |---|---|
    | `float`, `int`, `bool`, `str` | float32, int32, bool, string `[tokens]` |
    | `np.float64`, another number of NumPy | the same dtype, `[tokens]` |
    | `Literal["a", "b"]`, an `enum.Enum` | int32 `[tokens]`, the number of the choice |
    | `tf.TensorSpec([8])` or `Annotated[np.ndarray, tf.TensorSpec([8])]` | float32 `[tokens, 8]` |
    | a data type | a value of it for each token |
    | `list[...]` of one of these | a row for each token, `[tokens, (entries)]` |
    | one of these but a list, or None | the same, and zero for None; `e.has("field")` is bool |

    Choices that are numbers, as those of an `enum.IntEnum`, can be read in a recursive function
    only if they are 0, 1, 2, ... in this order, so that each is its own number.

    Two fields may refer to the same object, which is stored once. `==` compares objects by
    identity, not by their fields.

    Within a recursive function, calling a kind makes a value for each token. A field accepts the
    types in the table above, or a Python value for all tokens; a list also accepts a Python list of
    these. Within the same run, `kerasrec.match` gives access to the value's fields; the result of
    an outside call goes to another function, or to `Schema.decode`.

    Raises:
        TypeError: If a field has one of the names `has`, `kind` and `lookup`, or if a class belongs
            to two types. The types of fields are checked when a `Schema` is made.
    """

    # For a kind that was inferred from documents; its fields may have any names.
    _form: ClassVar[str] = "object"
    _inferred_fields: ClassVar[tuple[Field, ...] | None] = None
    _is_declared: ClassVar[bool] = False  # One that was refused may still be listed by Python.
    _kinds: ClassVar[tuple[type[DataType], ...]] = ()
    __signature__ = inspect.Signature()
    # Makes a value from an object, inside a recursive function; `schema.py` sets it.
    _make: ClassVar[Callable[[Tracer, DataType], Any]]

    # Type checkers know a class by its fields.
    if not typing.TYPE_CHECKING:

        def __new__(cls, *args: Any, **kwargs: Any) -> Any:
            """Returns an object; inside a recursive function, a value for each token."""
            instance = object.__new__(cls)
            tracer = active_tracer()
            if tracer is None:
                return instance
            instance.__init__(*args, **kwargs)
            return DataType._make(tracer, instance)

    def __init_subclass__(cls, **kwargs: Any):
        super().__init_subclass__(**kwargs)
        if cls._inferred_fields is not None:
            cls._is_declared = True
            return
        families = [base for base in cls.__mro__ if DataType in base.__bases__]
        if len(families) > 1:
            names = " and ".join(family.__name__ for family in families)
            raise TypeError(
                f"{cls.__name__} is of two types, {names}. A kind belongs to one: leave out one of "
                "the bases, or let it have a field of the other type."
            )
        dataclasses.dataclass(eq=False, repr=False)(cls)
        _, *fields = inspect.signature(cls.__init__).parameters.values()
        cls.__signature__ = inspect.Signature(fields)
        for field in _declared(cls):
            if field.name in RESERVED or field.name.startswith("_"):
                raise TypeError(
                    f"{cls.__name__}.{field.name}: a field may not be called "
                    f"{', '.join(RESERVED)} or begin with an underscore. Give it another name."
                )
        cls._is_declared = True

    def __repr__(self) -> str:
        return _shown(self, 3)


def _shown(value: Any, depth: int) -> str:
    """A value for prints, with this many levels: it may be deep, or lead to itself."""
    if is_object(value):
        items = (f"{name}={_shown(entry, depth - 1)}" for name, entry in vars(value).items())
        return f"{type(value).__name__}({', '.join(items) if depth else '...'})"
    if isinstance(value, list):
        shown = [_shown(entry, depth - 1) for entry in value[:4]] if depth else []
        return f"[{', '.join(shown + ['...'] * (len(shown) < len(value)))}]"
    return repr(value)


def family_of(kind: type[DataType]) -> type[DataType]:
    """Returns the type of a kind: the class directly below `DataType` among its bases."""
    *_, family = (base for base in kind.__mro__ if DataType in base.__bases__)
    return family


def kinds_of(family: type[DataType]) -> list[type[DataType]]:
    """Returns the kinds of a type in the order of declaration: classes that have no subclasses."""
    below: Sequence[type[DataType]] = vars(family).get("_kinds") or family.__subclasses__()
    below = [subclass for subclass in below if vars(subclass).get("_is_declared")]
    kinds = [kind for subclass in below for kind in kinds_of(subclass)] if below else [family]
    return list(dict.fromkeys(kinds))  # One with several bases is met several times.


def fields_of(kind: type[DataType]) -> list[Field]:
    """Returns the fields of a kind, those of the classes above it first.

    Raises:
        TypeError: If an annotation cannot be read, or is not one of those that `DataType` lists.
    """
    if kind._inferred_fields is not None:
        return list(kind._inferred_fields)
    hints = _hints(kind)
    return [
        field_of(kind.__name__, field.name, hints[field.name], is_data_type)
        for field in _declared(kind)
    ]


def is_data_type(candidate: Any) -> TypeGuard[type[DataType]]:
    """Whether something is a subclass of `DataType`."""
    # Python 3.10 takes list[int] for a class.
    is_class = isinstance(candidate, type) and typing.get_origin(candidate) is None
    return is_class and issubclass(candidate, DataType) and candidate is not DataType


def is_object(candidate: Any) -> TypeGuard[DataType]:
    """Whether something is an object of a data type; `isinstance` refuses values of a function."""
    return DataType in type(candidate).__mro__


def _hints(kind: type[DataType]) -> dict[str, Any]:
    """The annotations. Text is evaluated in the module of the class and among data types."""
    hints: dict[str, Any] = {}
    for base in reversed(kind.__mro__):
        scope = kind.__qualname__.rpartition(".")[0]
        # Of several local classes of one name, that of the same function comes last, and so counts.
        types = [data_type for data_type in _all_data_types() if data_type._inferred_fields is None]
        types.sort(key=lambda data_type: data_type.__qualname__.rpartition(".")[0] == scope)
        names = {data_type.__name__: data_type for data_type in types}
        names |= vars(sys.modules.get(base.__module__, typing))
        names |= {data_type.__name__: data_type for data_type in (family_of(kind), kind)}
        for name, annotation in vars(base).get("__annotations__", {}).items():
            hints[name] = _evaluated(f"{kind.__name__}.{name}", annotation, names)
    return hints


def _evaluated(what: str, annotation: Any, names: dict[str, Any]) -> Any:
    """An annotation without text in it: `"Expr"` and `list["Expr"]` name a class."""
    if isinstance(annotation, typing.ForwardRef):
        annotation = annotation.__forward_arg__
    if isinstance(annotation, str):
        try:
            return _evaluated(what, eval(annotation, dict(names)), names)
        except NameError as error:
            raise TypeError(
                f"{what} is declared as {annotation!r}: {error}. Declare the class that it names "
                "before this one is used, or in the same module."
            ) from error
    inner = typing.get_args(annotation)
    if any(isinstance(argument, str | typing.ForwardRef) for argument in inner) and (
        typing.get_origin(annotation) not in (typing.Literal, typing.Annotated)
    ):
        arguments = [_evaluated(what, argument, names) for argument in inner]
        if typing.get_origin(annotation) in (typing.Union, types.UnionType):
            return typing.Union[tuple(arguments)]  # noqa: UP007  # There is no other way to write it.
        return typing.get_origin(annotation)[tuple(arguments)]
    return annotation


def _declared(kind: type) -> tuple[dataclasses.Field[Any], ...]:
    return dataclasses.fields(kind)


def _all_data_types() -> list[type[DataType]]:
    data_types: list[type[DataType]] = []
    waiting: list[type[DataType]] = [DataType]
    while waiting:
        below = waiting.pop().__subclasses__()
        data_types += below
        waiting += below
    return data_types
