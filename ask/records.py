"""`NamedTuple`, with the semantics of `typing.NamedTuple`, but created faster.

`typing` compiles code for each class, which for the 60 classes that every run needs would take 10 ms.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any, Self
    from typing import NamedTuple as NamedTuple  # noqa: PLC0414 - the alias re-exports it
else:
    from operator import itemgetter

    class _Record(tuple):
        __slots__ = ()

        def __new__(cls, *values: Any, **named_values: Any) -> Self:
            if named_values or len(values) != len(cls._fields):
                defaults = cls._field_defaults
                try:
                    values += tuple(
                        [
                            named_values.pop(field) if field in named_values else defaults[field]
                            for field in cls._fields[len(values) :]
                        ]
                    )
                except KeyError as error:
                    raise TypeError(f"{cls.__name__} has no value for the field {error}") from None
                if named_values or len(values) > len(cls._fields):
                    wrong = ", ".join(named_values) or f"{len(values)} values"
                    raise TypeError(f"{cls.__name__} has the fields {', '.join(cls._fields)}; it cannot take {wrong}")
            return tuple.__new__(cls, values)

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
                **{field: property(itemgetter(position)) for position, field in enumerate(fields)},
            }
            return type(name, (_Record,), namespace)

    class NamedTuple(metaclass=_NamedTupleType):
        """A tuple whose items are also attributes; see the documentation of `typing.NamedTuple`."""
