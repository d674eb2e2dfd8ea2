"""`--decide`: turns the fields of a schema into questions for a decisions API, and its answers into JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Any

from ask.errors import UsageError
from ask.messages import DecisionAnswer, DecisionKind, DecisionQuestion, DecisionValue
from ask.parsing import read_dict, read_int, read_list, read_str

PROBABILITY_SUFFIX = "_p"
"""What the name of a field's probability ends with."""
MAX_LEVELS = 20
"""The limit for the levels of a scale."""
MAX_REFERENCES = 10
"""The limit for `$ref`s that lead to each other."""
JSON_TYPES = {bool: "boolean", int: "integer", float: "number", str: "string", type(None): "null"}
DEFAULT_INSTRUCTIONS = {
    "predicate": 'The following is true of the input: "{}".',
    "choice": 'Choose the value of "{}" for the input.',
    "score": 'Rate "{}" for the input.',
}
"""Instructions for fields without a description, by kind of question."""
FIELDS_HINT = 'such as --schema "urgent bool, kind \\"bug\\" | \\"order\\", anger 1..5"'


def parse_questions(schema: Any) -> tuple[DecisionQuestion, ...]:
    """Return a question for each field of a schema.

    A boolean is a predicate. An enum is a choice, and so is a `oneOf` or `anyOf` of constants, which may have
    descriptions. An integer with `minimum` and `maximum`, and an enum with `"ordered": true`, are scores.

    Raises:
        UsageError: the schema has no fields, or a field is none of these; the message names it.
    """
    root = read_dict(schema)
    fields = read_dict(root.get("properties"))
    if not fields or root.get("type", "object") != "object":
        raise UsageError("--decide needs a --schema with named fields", FIELDS_HINT)
    questions = tuple(_parse_field(name, _resolve_references(field, root)) for name, field in fields.items())
    for name in fields:
        if name + PROBABILITY_SUFFIX in fields:
            message = f"--decide: the field '{name}{PROBABILITY_SUFFIX}' is where the probability of '{name}' belongs"
            raise UsageError(message, "rename one of them")
    return questions


def build_result_schema(questions: Iterable[DecisionQuestion]) -> dict[str, Any]:
    """Return the schema of the JSON object that the answers to questions become; see `format_decisions`."""
    properties: dict[str, Any] = {}
    for question in questions:
        properties[question.name] = _build_value_schema(question)
        properties[question.name + PROBABILITY_SUFFIX] = {"type": ["number", "null"], "minimum": 0, "maximum": 1}
    return make_object_schema(properties)


def make_object_schema(properties: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of an object with exactly these properties."""
    return {"type": "object", "properties": properties, "required": [*properties], "additionalProperties": False}


def _build_value_schema(question: DecisionQuestion) -> dict[str, Any]:
    if question.kind == "predicate":
        return {"type": ["boolean", "null"], "description": question.instructions}
    types = {"null"} | {JSON_TYPES[type(value)] for value in question.values}
    values = [*question.values, *([] if None in question.values else [None])]
    ordered = {"ordered": True} if question.kind == "score" else {}
    return {"type": sorted(types), "enum": values, **ordered, "description": question.instructions}


def build_answer_schema(questions: Iterable[DecisionQuestion]) -> dict[str, Any]:
    """Return the schema of the JSON object that a model without a decisions API writes as its answer to questions."""
    properties = {}
    for question in questions:
        texts = zip(question.labels, question.describe_values(), strict=True)
        lines = [question.instructions, *(f"{label}: {text}" for label, text in texts if text)]
        types = sorted({JSON_TYPES[type(value)] for value in question.values})
        properties[question.name] = {
            "type": types[0] if len(types) == 1 else types,
            **({} if question.kind == "predicate" else {"enum": [*question.values]}),
            "description": "\n".join(lines),
        }
    return make_object_schema(properties)


def format_decisions(answers: Iterable[DecisionAnswer]) -> dict[str, Any]:
    """Return the JSON object for answers: each field, followed by its probability; both null if it was refused."""
    values: dict[str, Any] = {}
    for answer in answers:
        values[answer.name] = answer.value
        values[answer.name + PROBABILITY_SUFFIX] = answer.probability
    return values


def format_probabilities(questions: Iterable[DecisionQuestion], answers: Iterable[DecisionAnswer]) -> list[str]:
    """Return a line for each question with the probabilities of its values, the highest first."""
    lines = []
    for question, answer in zip(questions, answers, strict=True):
        ranked = sorted(zip(question.labels, answer.probabilities, strict=False), key=itemgetter(1), reverse=True)
        text = ", ".join(f"{label} {probability:.2f}" for label, probability in ranked)
        lines.append(f"{question.name}: {answer.refusal or text or 'no probabilities'}")
    return lines


def format_refusals(answers: Iterable[DecisionAnswer]) -> str:
    """Return the names of the refused questions with the reasons, on one line; "" if none was refused."""
    reasons: dict[str, list[str]] = {}
    for answer in answers:
        if answer.refusal:
            reasons.setdefault(answer.refusal, []).append(answer.name)
    return "; ".join(f"{', '.join(names)}: {reason}" for reason, names in reasons.items())


def _resolve_references(field: Any, root: Mapping[str, Any]) -> dict[str, Any]:
    """Return a field's schema with the definition that it refers to, as Pydantic writes an Enum."""
    schema = read_dict(field)
    for _ in range(MAX_REFERENCES):
        options = read_list(schema.get("allOf"))
        if len(options) == 1:
            schema = {**read_dict(options[0]), **{name: schema[name] for name in schema if name != "allOf"}}
        reference = read_str(schema.get("$ref"))
        if not reference.startswith("#/"):
            break
        definition: Any = root
        for part in reference[2:].split("/"):
            definition = read_dict(definition).get(part.replace("~1", "/").replace("~0", "~"))
        schema = {**read_dict(definition), **{name: schema[name] for name in schema if name != "$ref"}}
    return schema


def _parse_field(name: str, field: Mapping[str, Any]) -> DecisionQuestion:
    values, descriptions = _list_values(field)
    kind: DecisionKind
    is_scale = "enum" not in field and field.get("type") == "integer"
    if len(values) == 2 and all(isinstance(value, bool) for value in values):
        kind, descriptions = "predicate", descriptions if values[0] else descriptions[::-1]
        values = (True, False)
    elif is_scale or field.get("ordered") is True:
        kind = "score"
    else:
        kind = "choice"
    question = DecisionQuestion(name, kind, values, "", descriptions)
    _check_values(question)
    description = " ".join(read_str(field.get("description")).split())
    return question._replace(instructions=description or DEFAULT_INSTRUCTIONS[kind].format(name.replace("_", " ")))


def _list_values(field: Mapping[str, Any]) -> tuple[tuple[DecisionValue, ...], tuple[str, ...]]:
    """Return the values that a field can have, and their descriptions; () and () if it has any number of values."""
    options = [read_dict(option) for option in read_list(field.get("oneOf")) or read_list(field.get("anyOf"))]
    descriptions: tuple[str, ...] = ()
    values: Sequence[Any] = ()
    if "enum" in field:
        values = read_list(field["enum"])
    elif options and all("const" in option for option in options):
        values = [option["const"] for option in options]
        descriptions = tuple(read_str(option.get("description") or option.get("title")) for option in options)
    elif field.get("type") == "boolean":
        values = (True, False)
    elif field.get("type") == "integer":
        values = _list_levels(field)
    if not all(isinstance(value, str | bool | int | float | None) for value in values):
        return (), ()
    # By their JSON, because True == 1 in Python.
    unique = {json.dumps(value): i for i, value in reversed([*enumerate(values)])}
    indexes = sorted(unique.values())
    return tuple(values[i] for i in indexes), tuple(descriptions[i] for i in indexes if any(descriptions))


def _list_levels(field: Mapping[str, Any]) -> Sequence[int]:
    """Return the integers between a field's bounds; () if it lacks one, or may skip some of them."""
    low, above = read_int(field.get("minimum")), read_int(field.get("exclusiveMinimum"))
    high, below = read_int(field.get("maximum")), read_int(field.get("exclusiveMaximum"))
    lowest = max((bound for bound in (low, None if above is None else above + 1) if bound is not None), default=None)
    highest = min((bound for bound in (high, None if below is None else below - 1) if bound is not None), default=None)
    if lowest is None or highest is None or "multipleOf" in field:
        return ()
    return range(lowest, highest + 1)[: MAX_LEVELS + 1]


def _check_values(question: DecisionQuestion) -> None:
    field = f"--decide: the field '{question.name}'"
    if not question.values:
        hint = "use --decide only with booleans, enums, and integers with minimum and maximum (1..5)"
        raise UsageError(f"{field} is not a boolean, an enum or a scale", hint)
    if len(question.values) < 2:
        raise UsageError(f"{field} has only one value", "remove it, or add values")
    if question.kind == "score" and len(question.values) > MAX_LEVELS:
        raise UsageError(f"{field} has more than {MAX_LEVELS} levels", "use fewer, such as 1..5")
    labels = question.labels
    duplicate = next((label for label in labels if labels.count(label) > 1), None)
    if duplicate is not None:
        raise UsageError(f"{field} has the value {duplicate} both as text and as another type", "remove one of them")
    if not all(map(str.strip, labels)):
        raise UsageError(f"{field} has an empty value", "give it a name, such as none")
