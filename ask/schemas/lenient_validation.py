"""Checks values against a schema that someone else wrote: what cannot be understood in it is ignored."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cache, cached_property
from typing import Any, cast

from jsonschema import ValidationError
from jsonschema.protocols import Validator
from jsonschema.validators import extend
from jsonschema_specifications import REGISTRY as SPECIFICATIONS

from ask.schemas.schema import JsonSchema, find_validator_class

KeywordCheck = Callable[[Any, Any, Any, Any], Iterable[ValidationError] | None]


class LenientSchema(JsonSchema):
    """A schema that is never refused, as that of a tool is.

    A keyword that cannot be evaluated, such as a pattern in another language's syntax or a reference to nowhere, is
    ignored as an unknown keyword is; all others are checked. `format` is an annotation, and OpenAPI's `nullable` is
    respected.
    """

    @cached_property
    def _validator(self) -> Validator:
        return make_lenient_validator_class(find_validator_class(self.value))(self.value, registry=SPECIFICATIONS)

    def is_nullable(self, subschema: Any) -> bool:
        """Return whether null fits a part of this schema."""
        return not isinstance(subschema, bool | dict) or self._validator.evolve(schema=subschema).is_valid(None)


@cache
def make_lenient_validator_class(validator_class: type[Validator]) -> type[Validator]:
    """Return a validator class that ignores each keyword it cannot evaluate."""
    checks = {name: ignore_errors(check) for name, check in validator_class.VALIDATORS.items()}
    return cast("type[Validator]", extend(validator_class, checks))  # type: ignore[no-untyped-call]


def ignore_errors(check: KeywordCheck) -> KeywordCheck:
    """Return a keyword's check that finds nothing wrong where it fails itself."""
    active: set[tuple[int, int]] = set()

    def check_leniently(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
        key = (id(schema), id(instance))
        if key in active or (instance is None and schema.get("nullable") is True):
            return  # a schema that refers to itself without end, or null that OpenAPI allows
        active.add(key)
        try:
            yield from check(validator, value, instance, schema) or ()
        except RecursionError:
            raise
        except Exception:  # noqa: BLE001 - the schema may hold anything where a check expects a number or a schema
            return
        finally:
            active.discard(key)

    return check_leniently
