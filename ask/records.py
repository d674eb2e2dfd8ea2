"""`NamedTuple`, with the semantics of `typing.NamedTuple`, but created faster; and rules for the values of fields.

`typing` compiles code for each class, which for the 60 classes that every run needs would take 10 ms.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any, Self
    from typing import NamedTuple as NamedTuple  # noqa: PLC0414 - the alias re-exports it
else:
    from operator import itemgetter

    class _Record(tuple):
        __slots__ = ()

        def __new__(cls, *values: Any, **named_values: Any) -> Self:
            missing = len(cls._fields) - len(values)
            if named_values or not 0 <= missing <= len(cls._defaults):
                values = cls._complete(values, named_values)
            elif missing:
                values += cls._defaults[-missing:]
            return tuple.__new__(cls, values)

        @classmethod
        def _complete(cls, values: tuple[Any, ...], named_values: dict[str, Any]) -> tuple[Any, ...]:
            """Return the values of all fields."""
            remaining = cls._fields[len(values) :]
            wrong = named_values.keys() - remaining
            if wrong or len(values) > len(cls._fields):
                rejected = ", ".join(sorted(wrong)) or f"{len(values)} values"
                raise TypeError(f"{cls.__name__} has the fields {', '.join(cls._fields)}; it cannot take {rejected}")
            available = cls._field_defaults | named_values
            try:
                return values + tuple([available[field] for field in remaining])
            except KeyError as error:
                raise TypeError(f"{cls.__name__} has no value for the field {error}") from None

        def __getnewargs__(self) -> tuple[Any, ...]:
            return tuple(self)

        def __repr__(self) -> str:
            return f"{type(self).__name__}({', '.join(f'{field}={getattr(self, field)!r}' for field in self._fields)})"

        @classmethod
        def _make(cls, values: Iterable[Any]) -> Self:
            return cls(*values)

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
            fields = tuple(namespace.get("__annotations__", ()))
            namespace |= {
                "__slots__": (),
                "__match_args__": fields,
                "_fields": fields,
                "_field_defaults": {field: namespace[field] for field in fields if field in namespace},
                "_defaults": tuple([namespace[field] for field in fields if field in namespace]),
                **{field: property(itemgetter(position)) for position, field in enumerate(fields)},
            }
            return type(name, (_Record,), namespace)

    class NamedTuple(metaclass=_NamedTupleType):
        """A tuple whose items are also attributes; see the documentation of `typing.NamedTuple`."""


class Rule(NamedTuple):
    """What `Annotated` adds to the type of a value that `ask.type_checks.parse_value` reads.

    Attributes:
        description: the allowed values, for error messages.
        is_valid: checks a value of the type.
        convert: returns the value to use in its place.
    """

    description: str
    is_valid: Callable[[Any], object] = lambda _: True
    convert: Callable[[Any], Any] = lambda value: value


MAX_NUMBER = 1_000_000_000
"""The largest number allowed in config.toml; as a time in seconds it means no limit."""
POSITIVE_INTEGER = Rule(f"a positive integer, at most {MAX_NUMBER}", lambda number: 0 < number <= MAX_NUMBER)
POSITIVE_NUMBER = POSITIVE_INTEGER._replace(description=f"a positive number, at most {MAX_NUMBER}")
