"""Validate values against schemas from elsewhere, ignoring the parts that cannot be evaluated."""

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
    """A schema that is never rejected, such as that of an MCP tool.

    A keyword that cannot be evaluated, such as a pattern in another regular expression dialect or a dangling
    reference, is ignored like an unknown keyword; all others are checked. `format` is only an annotation, and
    OpenAPI's `nullable` is respected.
    """

    @cached_property
    def _validator(self) -> Validator:
        return make_lenient_validator_class(find_validator_class(self.value))(self.value, registry=SPECIFICATIONS)

    def is_nullable(self, subschema: Any) -> bool:
        """Check whether a subschema accepts null."""
        return not isinstance(subschema, bool | dict) or self._validator.evolve(schema=subschema).is_valid(None)


@cache
def make_lenient_validator_class(validator_class: type[Validator]) -> type[Validator]:
    """Return a validator class that ignores each keyword it cannot evaluate."""
    checks = {name: ignore_errors(check) for name, check in validator_class.VALIDATORS.items()}
    return cast("type[Validator]", extend(validator_class, checks))  # type: ignore[no-untyped-call]


def ignore_errors(check: KeywordCheck) -> KeywordCheck:
    """Wrap the check of a keyword so that it passes if it raises an exception."""
    active: set[tuple[int, int]] = set()

    def check_leniently(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
        key = (id(schema), id(instance))
        if key in active or (instance is None and schema.get("nullable") is True):
            return  # a schema that refers to itself, or a null that OpenAPI allows
        active.add(key)
        try:
            yield from check(validator, value, instance, schema) or ()
        except RecursionError:
            raise
        except Exception:  # noqa: BLE001 - a malformed schema can make a check fail in any way
            return
        finally:
            active.discard(key)

    return check_leniently
