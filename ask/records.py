"""`NamedTuple`, with the semantics of `typing.NamedTuple`, but created faster.

`typing` compiles code for each class, which for the 60 classes that every run needs would take 10 ms.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import NamedTuple as NamedTuple  # noqa: PLC0414 - the alias re-exports it
else:
    from operator import itemgetter

    class _NamedTupleType(type):
        """Turns the annotations of each direct subclass of `NamedTuple` into fields."""

        def __new__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any]) -> type:
            if bases[0] is not tuple and not hasattr(bases[0], "_fields"):
                fields = tuple(namespace.get("__annotations__", ()))
                namespace |= {
                    "__slots__": (),
                    "__match_args__": fields,
                    "_fields": fields,
                    "_field_defaults": {field: namespace[field] for field in fields if field in namespace},
                    **{field: property(itemgetter(position)) for position, field in enumerate(fields)},
                }
            return super().__new__(cls, name, bases, namespace)

    class NamedTuple(tuple, metaclass=_NamedTupleType):
        """A tuple whose items are also attributes; see the documentation of `typing.NamedTuple`."""

        __slots__ = ()

        def __new__(cls, *values: Any, **named_values: Any) -> Self:
            if not named_values and len(values) == len(cls._fields):
                return super().__new__(cls, values)
            positional = dict(zip(cls._fields, values, strict=False))
            items = cls._field_defaults | positional | named_values
            wrong = (positional.keys() & named_values) | (items.keys() ^ set(cls._fields))
            if wrong or len(values) > len(cls._fields):
                problem = f"missing, unknown or repeated: {', '.join(sorted(wrong))}" if wrong else "too many values"
                raise TypeError(f"{problem}; the fields of {cls.__name__} are {', '.join(cls._fields)}")
            return super().__new__(cls, map(items.__getitem__, cls._fields))

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
            return type(self)(**self._asdict() | changes)
