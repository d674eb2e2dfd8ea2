"""`--decide`: which fields of a schema are questions, and the JSON that their answers become."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ask import DecisionAnswer, DecisionQuestion
from ask.errors import UsageError
from ask.schemas.decision_questions import format_decisions, format_refusals, parse_questions
from ask.schemas.schema import parse_schema
from ask.schemas.short_form import parse_short_form

BOOLEAN = {"type": "boolean"}
KIND = {"enum": ["bug", "order"]}


def make_schema(**fields: Any) -> dict[str, Any]:
    return {"type": "object", "properties": fields}


def parse_field(field: Any, **definitions: Any) -> DecisionQuestion:
    schema = make_schema(field=field) | ({"$defs": definitions} if definitions else {})
    assert parse_schema(schema)
    return parse_questions(schema)[0]


def test_short_form_gives_one_question_of_each_kind() -> None:
    schema = parse_short_form('urgent bool: a person waits, kind "bug" | "order", anger 1..3: how angry')
    assert parse_questions(schema) == (
        DecisionQuestion("urgent", "predicate", (True, False), "a person waits"),
        DecisionQuestion("kind", "choice", ("bug", "order"), 'Choose the value of "kind" for the input.'),
        DecisionQuestion("anger", "score", (1, 2, 3), "how angry"),
    )


@pytest.mark.parametrize(
    ("field", "kind", "values"),
    [
        ({"enum": [False, True]}, "predicate", (True, False)),
        ({"enum": ["low", "high"], "ordered": True}, "score", ("low", "high")),
        ({"enum": ["low", "high"], "ordered": False}, "choice", ("low", "high")),
        ({"type": "integer", "enum": [1, 2, 3]}, "choice", (1, 2, 3)),
        ({"type": "integer", "exclusiveMinimum": 0, "exclusiveMaximum": 4}, "score", (1, 2, 3)),
        ({"type": "integer", "minimum": -10, "maximum": 9}, "score", tuple(range(-10, 10))),
        ({"enum": ["a", None, "a", 1, True]}, "choice", ("a", None, 1, True)),
        ({"oneOf": [{"const": "a"}, {"const": "b"}]}, "choice", ("a", "b")),
        ({"$ref": "#/$defs/Kind"}, "choice", ("bug", "order")),
        ({"allOf": [{"$ref": "#/$defs/Kind"}]}, "choice", ("bug", "order")),
    ],
)
def test_fields_with_a_fixed_set_of_values_are_questions(field: Any, kind: str, values: tuple[Any, ...]) -> None:
    question = parse_field(field, Kind=KIND)
    assert (question.kind, question.values) == (kind, values)
    assert [type(value) for value in question.values] == [type(value) for value in values]
    assert question.instructions


def test_description_of_a_field_is_its_instructions() -> None:
    reference = {"$ref": "#/$defs/Kind", "description": "what  the\ncustomer wants"}
    assert parse_field(reference, Kind=KIND | {"description": "unused"}).instructions == "what the customer wants"
    assert parse_field(reference, Kind=KIND).values == ("bug", "order")
    assert "is late" in parse_questions(make_schema(is_late=BOOLEAN))[0].instructions


def test_constants_have_descriptions() -> None:
    question = parse_field({"oneOf": [{"const": "a", "description": "good"}, {"const": "b"}, {"const": "a"}]})
    assert (question.values, question.descriptions) == (("a", "b"), ("good", ""))
    assert question.describe_values() == ("good", "")
    options = [{"const": False, "description": "calm"}, {"const": True, "description": "angry"}]
    assert parse_field({"oneOf": options})[1:] == (
        "predicate", (True, False), 'The following is true of the input: "field".', ("angry", "calm")
    )  # fmt: skip


@pytest.mark.parametrize(
    ("field", "named"),
    [
        ({"type": "string"}, "'field'"),
        ({"type": "integer"}, "'field'"),
        ({"type": "integer", "minimum": 1}, "'field'"),
        ({"type": "integer", "minimum": 0, "maximum": 20}, "20 levels"),
        ({"type": "integer", "minimum": 0, "maximum": 10, "multipleOf": 5}, "'field'"),
        ({"type": "number", "minimum": 0, "maximum": 1}, "'field'"),
        ({"type": ["boolean", "null"]}, "'field'"),
        ({"enum": ["only"]}, "one value"),
        ({"enum": [[1], [2]]}, "'field'"),
        ({"enum": ["1", 1]}, "1"),
        ({"enum": ["a", " "]}, "empty"),
        ({"enum": [*map(str, range(21))], "ordered": True}, "20 levels"),
        ({"$ref": "#/$defs/Loop"}, "'field'"),
        ({}, "'field'"),
    ],
)
def test_other_fields_are_named(field: Any, named: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_field(field, Loop={"$ref": "#/$defs/Loop"})
    assert "'field'" in str(caught.value)
    assert named in str(caught.value)
    assert caught.value.hint


@pytest.mark.parametrize("schema", [{"type": "array", "items": BOOLEAN}, {"type": "object"}, True, BOOLEAN])
def test_schema_without_fields_is_an_error(schema: Any) -> None:
    with pytest.raises(UsageError):
        parse_questions(schema)


def test_field_with_the_name_of_a_probability_is_an_error() -> None:
    with pytest.raises(UsageError) as caught:
        parse_questions(make_schema(kind=KIND, kind_p=BOOLEAN))
    assert "'kind_p'" in str(caught.value)
    assert parse_questions(make_schema(kind_p=BOOLEAN))[0].name == "kind_p"


@given(st.lists(st.floats(0, 1), min_size=2, max_size=20))
def test_the_most_probable_value_is_chosen(probabilities: list[float]) -> None:
    question = DecisionQuestion("q", "score", tuple(range(len(probabilities))), "i")
    answer = question.make_answer(probabilities)
    assert answer.probability == max(probabilities)
    assert probabilities.index(max(probabilities)) == answer.value
    assert answer.probabilities == tuple(probabilities)


@pytest.mark.parametrize(("probability", "value", "chosen"), [(0.5, True, 0.5), (0.49, False, 0.51), (1.0, True, 1.0)])
def test_predicate_is_true_from_one_half(probability: float, value: bool, chosen: float) -> None:
    question = DecisionQuestion("q", "predicate", (True, False), "i")
    answer = question.make_answer((probability, 1 - probability))
    assert (answer.value, format_decisions([answer])) == (value, {"q": value, "q_p": chosen})


def test_refused_questions_are_null() -> None:
    answers = [DecisionAnswer("a", "x", 0.05), DecisionAnswer("b", refusal="no"), DecisionAnswer("c", refusal="no")]
    assert format_decisions(answers) == {"a": "x", "a_p": 0.05, "b": None, "b_p": None, "c": None, "c_p": None}
    assert list(format_decisions(answers)) == ["a", "a_p", "b", "b_p", "c", "c_p"]
    assert format_refusals(answers) == "b, c: no"
    assert format_refusals(answers[:1]) == ""


SCALARS = st.none() | st.booleans() | st.integers() | st.text(max_size=3) | st.floats(allow_nan=False)
FIELDS = st.recursive(
    st.sampled_from([BOOLEAN, KIND, {"type": "integer", "minimum": 1, "maximum": 5}, {"$ref": "#/$defs/x"}, True, []])
    | st.lists(SCALARS, max_size=5).map(lambda values: {"enum": values})
    | st.tuples(SCALARS, SCALARS).map(lambda ends: {"type": "integer", "minimum": ends[0], "maximum": ends[1]}),
    lambda inner: (
        st.lists(inner, max_size=2).map(lambda each: {"oneOf": each}) | inner.map(lambda one: {"allOf": [one]})
    ),
)


@pytest.mark.hypothesis
@given(st.dictionaries(st.text(max_size=4), FIELDS, max_size=3))
def test_any_schema_gives_valid_questions_or_an_error(fields: dict[str, Any]) -> None:
    try:
        questions = parse_questions(make_schema(**fields))
    except UsageError as error:
        assert error.hint
        return
    assert [question.name for question in questions] == list(fields)
    for question in questions:
        assert 2 <= len(set(question.labels)) == len(question.values)
        assert question.instructions
        json.dumps(question.values)
