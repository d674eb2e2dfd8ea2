"""`NamedTuple`, which has the semantics of `typing.NamedTuple` but is created faster, and constraints for fields.

`typing` compiles code for each class, which for the 60 classes that every run needs would take 10 ms.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any, Self
    from typing import NamedTuple as NamedTuple  # noqa: PLC0414 - the alias re-exports it
else:
    try:
        from _collections import _tuplegetter as create_field  # as in the collections module: twice as fast
    except ImportError:
        from operator import itemgetter

        def create_field(position: int, doc: str) -> property:
            return property(itemgetter(position), doc=doc)

    class _RecordSignature:
        """The `__signature__` of a record, created when `inspect.signature` or `help` asks for it."""

        def __get__(self, record: object, record_type: type) -> Any:
            from inspect import Parameter, Signature, get_annotations

            fields = record_type._fields
            direct_type = next(base for base in record_type.__mro__ if _Record in base.__bases__)
            try:
                types = get_annotations(direct_type, eval_str=True)
            except NameError:  # of a module that imports them only for type checkers
                types = get_annotations(direct_type)
            defaults = dict.fromkeys(fields, Parameter.empty) | record_type._field_defaults
            kind = Parameter.POSITIONAL_OR_KEYWORD
            return Signature(
                [Parameter(field, kind, default=defaults[field], annotation=types[field]) for field in fields]
            )

    _new = tuple.__new__

    class _Record(tuple):
        __slots__ = ()
        __signature__ = _RecordSignature()

        def __new__(cls, *values: Any, **named_values: Any) -> Self:
            if not named_values and (rest := cls._rests.get(len(values))) is not None:
                return _new(cls, values + rest if rest else values)
            remaining = cls._fields[len(values) :]
            wrong = named_values.keys() - remaining
            if wrong or len(values) > len(cls._fields):
                rejected = ", ".join(sorted(wrong)) or f"{len(values)} values"
                raise TypeError(f"{cls.__name__} has the fields {', '.join(cls._fields)}; it cannot take {rejected}")
            available = cls._field_defaults | named_values
            try:
                return tuple.__new__(cls, (*values, *map(available.__getitem__, remaining)))
            except KeyError as error:
                raise TypeError(f"{cls.__name__} has no value for the field {error}") from None

        def __getnewargs__(self) -> tuple[Any, ...]:
            return tuple(self)

        def __repr__(self) -> str:
            return f"{type(self).__name__}({', '.join(f'{field}={getattr(self, field)!r}' for field in self._fields)})"

        @classmethod
        def _make(cls, values: Iterable[Any]) -> Self:
            record = tuple.__new__(cls, values)
            if len(record) != len(cls._fields):
                raise TypeError(f"{cls.__name__} has {len(cls._fields)} fields, not {len(record)}")
            return record

        def _asdict(self) -> dict[str, Any]:
            return dict(zip(self._fields, self, strict=True))

        def _replace(self, /, **changes: Any) -> Self:
            replaced = tuple.__new__(type(self), map(changes.pop, self._fields, self))
            if changes:
                raise TypeError(f"{type(self).__name__} has no field {', '.join(changes)}")
            return replaced

        __replace__ = _replace  # for copy.replace(), from Python 3.13 on

    class _NamedTupleType(type):
        """Creates a `_Record` whose fields are the annotations for each subclass of `NamedTuple`."""

        def __new__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any]) -> type:
            if not bases:
                return super().__new__(cls, name, bases, namespace)
            annotations = namespace.get("__annotations__", {})
            fields = tuple(annotations)
            defaults = tuple([namespace[field] for field in fields if field in namespace])
            positions = range(len(fields) - len(defaults), len(fields) + 1)
            namespace |= {
                "__slots__": (),
                "__match_args__": fields,
                "_fields": fields,
                "_field_defaults": {field: namespace[field] for field in fields if field in namespace},
                "_rests": {position: defaults[position - positions.start :] for position in positions},
                **{field: create_field(position, annotations[field]) for position, field in enumerate(fields)},
            }
            return type(name, (_Record,), namespace)

    class NamedTuple(metaclass=_NamedTupleType):
        """A tuple whose items are also attributes; see the documentation of `typing.NamedTuple`."""


class Constraint(NamedTuple):
    """A constraint that `Annotated` adds to the type of a value, checked by `ask.config.type_checks.parse_value`.

    Attributes:
        description: the allowed values, for error messages.
        is_valid: checks a value of the type.
        convert: returns the value to use in place of a string, before the checks; a ValueError makes it invalid.
    """

    description: str
    is_valid: Callable[[Any], object] = lambda _: True
    convert: Callable[[str], Any] = lambda text: text


MAX_NUMBER = 1_000_000_000
"""The largest number allowed in config.toml; as a time in seconds it means no limit."""
COST_DECIMALS = 12
"""The decimals of sums of costs in US dollars: without rounding, 0.1 + 0.2 would be 0.30000000000000004."""
POSITIVE_INTEGER = Constraint(f"a positive integer, at most {MAX_NUMBER}", lambda number: 0 < number <= MAX_NUMBER)
POSITIVE_NUMBER = POSITIVE_INTEGER._replace(description=f"a positive number, at most {MAX_NUMBER}")
