"""`--decide`: the values of a schema's fields, chosen by a decisions API, with their probabilities."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from ask.client.logprob_decision_api import DECISION_MODELS
from ask.plugin_api.provider_loading import check_provider
from providers import gemini, openai, openrouter
from tests import wire
from tests.batch_services import json_reply
from tests.decision_services import (
    SERVICES,
    DecisionService,
    GeminiDecisions,
    OpenAIDecisions,
    OpenRouterDecisions,
)
from tests.model_server import ModelServer
from tests.program import TEST_KEY, Ask, Home, Result
from tests.sample_files import pdf, png

SCHEMA = 'urgent bool: a person waits, kind "bug" | "order" | "other", anger 1..3'
ANSWERS = {
    "urgent": {"true": 0.03},
    "kind": {"bug": 0.91, "order": 0.07, "other": 0.02},
    "anger": {"1": 0.25, "2": 0.6, "3": 0.15},
}
CHOSEN = {"urgent": False, "urgent_p": 0.97, "kind": "bug", "kind_p": 0.91, "anger": 2, "anger_p": 0.6}


@pytest.fixture
def ask(home: Home, server: ModelServer) -> Ask:
    root = server.base_url.removesuffix("/api/v1")
    keys = {f"{name}_API_KEY": TEST_KEY for name in ("OPENAI", "OPENROUTER", "GEMINI")}
    urls = {"OPENAI_BASE_URL": server.base_url, "OPENROUTER_BASE_URL": server.base_url, "GEMINI_BASE_URL": root}
    return Ask({**home.env, **keys, **urls}, home.work)


def decide(ask: Ask, service: type[DecisionService], *arguments: str, schema: str = SCHEMA, **options: Any) -> Result:
    return ask("-p", service.provider, "-m", service.model, "--decide", "--schema", schema, *arguments, **options)


@pytest.fixture(params=SERVICES)
def service(request: pytest.FixtureRequest, server: ModelServer) -> DecisionService:
    kind: type[DecisionService] = request.param
    started = kind(ANSWERS)
    server.reply(started)
    return started


@pytest.mark.slow_after_first
def test_values_have_probabilities(ask: Ask, service: DecisionService) -> None:
    result = decide(ask, type(service), "--json", "the server is down")
    value = json.loads(result.text)
    assert (result.code, value["data"], list(value["data"])) == (0, CHOSEN, list(CHOSEN))
    assert json.loads(value["text"]) == CHOSEN
    assert value["decisions"][1] == {
        "name": "kind", "value": "bug", "probability": 0.91, "probabilities": ANSWERS["kind"], "refusal": None
    }  # fmt: skip
    assert value["usage"]["input_tokens"] == 1000
    assert value["usage"]["cost"] == pytest.approx(0.0001)
    [body] = service.bodies
    system, *_, last = "\n".join(service.read_texts(body)).split("\n")
    assert ("ask" in system, last) == (True, "the server is down")
    [headers] = service.headers
    assert any(TEST_KEY in header for header in headers.values())
    assert TEST_KEY not in json.dumps(body)


def test_instructions_are_the_descriptions(ask: Ask, server: ModelServer) -> None:
    service = OpenAIDecisions(ANSWERS)
    server.reply(service)
    assert decide(ask, OpenAIDecisions, "hi").text == json.dumps(CHOSEN, separators=(",", ":")) + "\n"
    urgent, kind, anger = service.bodies[0]["questions"]
    assert (urgent["type"], urgent["instructions"]) == ("predicate", "a person waits")
    assert [choice["value"] for choice in kind["choices"]] == ["bug", "order", "other"]
    assert [level["label"] for level in anger["levels"]] == ["1", "2", "3"]


@pytest.mark.slow_after_first
def test_verbose_shows_all_probabilities(ask: Ask, service: DecisionService) -> None:
    result = decide(ask, type(service), "-v", "hi")
    assert json.loads(result.text) == CHOSEN
    assert "kind: bug 0.91, order 0.07, other 0.02" in result.stderr


@pytest.mark.slow_after_first
def test_descriptions_of_values_are_sent(ask: Ask, server: ModelServer, service: DecisionService) -> None:
    options = [{"const": "bug", "description": "it is broken"}, *({"const": each} for each in ("order", "other"))]
    schema = {"type": "object", "properties": {"kind": {"oneOf": options}}}
    assert json.loads(decide(ask, type(service), "hi", schema=json.dumps(schema)).text)["kind"] == "bug"
    assert "it is broken" in json.dumps(service.bodies[0])
    truth = [{"const": value, "description": f"it is {value}"} for value in (False, True)]
    schema = {"type": "object", "properties": {"urgent": {"oneOf": truth}}}
    assert json.loads(decide(ask, type(service), "hi", schema=json.dumps(schema)).text)["urgent"] is False
    sent = json.dumps(service.bodies[1])
    assert sent.index("it is True") < sent.index("it is False")


@pytest.mark.parametrize("service_type", SERVICES)
def test_a_refused_question_is_null(ask: Ask, server: ModelServer, service_type: type[DecisionService]) -> None:
    server.reply(service_type({**ANSWERS, "kind": None}))
    result = decide(ask, service_type, "--json", "hi")
    value = json.loads(result.text)
    assert (result.code, value["exit_code"], value["finish"]) == (10, 10, "filter")
    assert value["data"] == {**CHOSEN, "kind": None, "kind_p": None}
    assert "kind" in value["error"]
    assert "urgent" not in value["error"]
    assert [bool(each["refusal"]) for each in value["decisions"]] == [False, True, False]
    plain = decide(ask, service_type, "hi")
    assert (plain.code, json.loads(plain.text)) == (10, value["data"])
    assert "cut off" not in ask("history", "show").text


def test_a_blocked_input_has_no_decisions(ask: Ask, server: ModelServer) -> None:
    server.reply(GeminiDecisions(ANSWERS, block_reason="prohibited_content"))
    result = decide(ask, GeminiDecisions, "hi")
    assert (result.code, json.loads(result.text)) == (10, dict.fromkeys(CHOSEN))
    assert "prohibited_content" in result.stderr


def test_a_run_is_saved_like_others(ask: Ask, server: ModelServer) -> None:
    server.reply(OpenRouterDecisions(ANSWERS))
    decide(ask, OpenRouterDecisions, "hi")
    assert json.dumps(CHOSEN) in ask("history", "show").text
    [entry] = json.loads(ask("history", "list", "--json").text)
    assert (entry["provider"], entry["model"]) == (OpenRouterDecisions.provider, OpenRouterDecisions.model)


# What cannot be decided


def test_a_model_without_decisions_api_is_an_error(ask: Ask, server: ModelServer) -> None:
    result = ask("-p", "openai", "-m", "gpt-6-sol", "--decide", "--schema", SCHEMA, "hi")
    assert (result.code, server.requests) == (7, [])
    assert all(model in result.stderr for model in DECISION_MODELS)


def test_the_models_in_the_hint_have_a_decisions_api() -> None:
    plugins = {"openai": openai.provider, "openrouter": openrouter.provider, "gemini": gemini.provider}
    for name in DECISION_MODELS:
        provider, _, model = name.partition(":")
        assert check_provider(plugins[provider], provider, "").get_decision_api(model)
    assert len(DECISION_MODELS) == len(SERVICES)


@pytest.mark.parametrize(
    "model", ["gemini:gemini-decision-1", "openrouter:openai/gpt-6-luna-decisions", "openrouter:typesafe/jev-1.13"]
)
def test_a_model_for_decisions_needs_the_option(ask: Ask, server: ModelServer, model: str) -> None:
    result = ask("-m", model, "hi")
    assert (result.code, server.requests) == (7, [])
    assert all(option in result.stderr for option in ("--decide", "--schema"))
    other = ask("compare", "-m", "openrouter:v/a", "-m", model, "hi")
    assert (other.code, server.requests) == (7, [])


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ((), "--schema"),
        (("--schema", "urgent bool, name"), "'name'"),
        (("--schema", "[bool]"), "fields"),
        (("--schema", "a bool", "-T", "web_search"), "-T"),
        (("--schema", "a bool", "--effort", "low"), "--effort"),
        (("--schema", "a bool", "--cmd"), "--cmd"),
    ],
)
def test_wrong_options_are_named(ask: Ask, server: ModelServer, arguments: tuple[str, ...], named: str) -> None:
    result = ask("-m", "openai:gpt-6-luna", "--decide", *arguments, "hi")
    assert (result.code, server.requests) == (2, [])
    assert named in result.stderr


@pytest.mark.parametrize(("service_type", "limit"), [(OpenAIDecisions, 400), (OpenRouterDecisions, 200)])
def test_the_number_of_questions_has_a_limit(
    ask: Ask, server: ModelServer, service_type: type[DecisionService], limit: int
) -> None:
    names = [f"q{number}" for number in range(limit + 1)]
    server.reply(service_type({name: {"true": 1.0} for name in names}))
    too_many = decide(ask, service_type, "hi", schema=", ".join(f"{name} bool" for name in names))
    assert (too_many.code, server.requests) == (7, [])
    assert str(limit) in too_many.stderr
    result = decide(ask, service_type, "hi", schema=", ".join(f"{name} bool" for name in names[1:]))
    assert (result.code, json.loads(result.text)["q1_p"]) == (0, 1)


def test_more_than_255_values_are_an_error(ask: Ask, server: ModelServer) -> None:
    schema = {"type": "object", "properties": {"kind": {"enum": [f"v{number}" for number in range(256)]}}}
    result = decide(ask, GeminiDecisions, "hi", schema=json.dumps(schema))
    assert (result.code, server.requests) == (7, [])
    assert all(word in result.stderr for word in ("'kind'", "256", "255"))


# Requests


@pytest.mark.parametrize("service_type", SERVICES)
def test_twenty_levels_are_possible_everywhere(
    ask: Ask, server: ModelServer, service_type: type[DecisionService]
) -> None:
    server.reply(service_type({"age": {str(level): 0.81 if level == 18 else 0.01 for level in range(1, 21)}}))
    result = decide(ask, service_type, "hi", schema="age 1..20")
    assert json.loads(result.text) == {"age": 18, "age_p": 0.81}


def test_values_keep_their_types(ask: Ask, server: ModelServer, service: DecisionService) -> None:
    labels = ["1", "2.5", "true", "null", "text"]
    server.reply(type(service)({"value": {label: 0.6 if label == "2.5" else 0.1 for label in labels}}))
    schema = {"type": "object", "properties": {"value": {"enum": [1, 2.5, True, None, "text"]}}}
    server._next = 1
    assert json.loads(decide(ask, type(service), "hi", schema=json.dumps(schema)).text) == {
        "value": 2.5,
        "value_p": 0.6,
    }


def test_images_are_sent(ask: Ask, home: Home, service: DecisionService) -> None:
    (home.work / "a.png").write_bytes(png())
    result = decide(ask, type(service), "-f", "a.png", "what is it")
    assert (result.code, json.loads(result.text)) == (0, CHOSEN)
    assert base64.b64encode(png()).decode() in json.dumps(service.bodies[0])


@pytest.mark.parametrize("service_type", [OpenAIDecisions, OpenRouterDecisions])
def test_a_file_that_the_api_does_not_accept_is_an_error(
    ask: Ask, home: Home, server: ModelServer, service_type: type[DecisionService]
) -> None:
    (home.work / "a.pdf").write_bytes(pdf())
    result = decide(ask, service_type, "-f", "a.pdf", "what is it")
    assert (result.code, server.requests) == (7, [])
    assert "a.pdf" in result.stderr


def test_gemini_reads_documents(ask: Ask, home: Home, server: ModelServer) -> None:
    service = GeminiDecisions(ANSWERS)
    server.reply(service)
    (home.work / "a.pdf").write_bytes(pdf())
    assert decide(ask, GeminiDecisions, "-f", "a.pdf", "what is it").code == 0
    assert service.bodies[0]["input"][-1] == {
        "type": "document", "mime_type": "application/pdf", "data": base64.b64encode(pdf()).decode()
    }  # fmt: skip


def test_an_earlier_file_that_the_api_does_not_accept_is_left_out(ask: Ask, home: Home, server: ModelServer) -> None:
    service = OpenAIDecisions(ANSWERS)
    server.reply(wire.says("A page."), service)
    (home.work / "a.pdf").write_bytes(pdf())
    assert ask("-p", "openrouter", "-m", "v/a", "-f", "a.pdf", "what is it?").code == 0
    assert decide(ask, OpenAIDecisions, "-c", "so what").code == 0
    texts = "\n".join(service.read_texts(service.bodies[0]))
    assert "A page." in texts
    assert base64.b64encode(pdf()).decode() not in json.dumps(service.bodies[0])


def test_a_conversation_is_part_of_the_input(ask: Ask, server: ModelServer, service: DecisionService) -> None:
    server._replies.insert(0, wire.says("My name is Ada."))
    ask("-p", "openrouter", "-m", "v/a", "what is your name?")
    assert decide(ask, type(service), "-c", "so what").code == 0
    texts = "\n".join(service.read_texts(service.bodies[0]))
    assert texts.index("what is your name?") < texts.index("My name is Ada.") < texts.index("so what")
    if isinstance(service, OpenAIDecisions):
        assert [message["role"] for message in service.bodies[0]["input"]] == ["system", "user", "assistant", "user"]
    else:
        assert "Assistant: My name is Ada." in texts


def test_tool_results_are_text(ask: Ask, home: Home, server: ModelServer, service: DecisionService) -> None:
    (home.work / "note.txt").write_text("remember the milk")
    call = wire.answer("", [("read_file", {"filepath": "note.txt"})])
    server._replies[:0] = [wire.whole_reply(call), wire.says("Read.")]
    assert ask("-p", "openrouter", "-m", "v/a", "--no-stream", "read note.txt").text == "Read.\n"
    assert decide(ask, type(service), "-c", "so what").code == 0
    assert "remember the milk" in "\n".join(service.read_texts(service.bodies[0]))


def test_only_options_of_the_command_line_are_sent(ask: Ask, home: Home, server: ModelServer) -> None:
    service = OpenAIDecisions(ANSWERS)
    server.reply(service)
    home.configure("[options]\ntemperature = 0\n")
    assert decide(ask, OpenAIDecisions, "-o", "prompt_cache_key=k", "hi").code == 0
    assert service.bodies[0]["prompt_cache_key"] == "k"
    assert "temperature" not in service.bodies[0]


def test_secrets_are_removed(ask: Ask, service: DecisionService) -> None:
    schema = f"urgent bool: {TEST_KEY} is used"
    assert decide(ask, type(service), f"is {TEST_KEY} safe?", schema=schema).code == 0
    assert TEST_KEY not in json.dumps(service.bodies[0])


def test_failures_are_retried_and_keys_rotated(ask: Ask, home: Home, server: ModelServer) -> None:
    home.configure("[network]\nbackoff = 0.01\n")
    server._replies += [wire.fails(500), wire.fails(401, "bad key"), OpenAIDecisions(ANSWERS)]
    result = decide(ask, OpenAIDecisions, "hi", env={"OPENAI_API_KEY": f"{TEST_KEY}|sk-other-key"})
    assert (result.code, json.loads(result.text)) == (0, CHOSEN)
    assert len(server.requests) == 3
    assert server.requests[-1].headers["Authorization"] == "Bearer sk-other-key"


@pytest.mark.parametrize(
    "reply",
    [
        ({"error": {"message": "no such model", "code": 404}}, 404),
        ({"error": {"message": "bad question"}}, 200),
        ({"object": "list"}, 200),
        ({}, 200),
    ],
)
def test_errors_are_reported(
    ask: Ask, home: Home, server: ModelServer, service: DecisionService, reply: tuple[Any, int]
) -> None:
    home.configure("[network]\ntries = 1\n")
    server._replies[:] = [json_reply(*reply)]
    result = decide(ask, type(service), "hi")
    assert (result.code, result.text) == (6, "")
    assert reply[0].get("error", {}).get("message", "answers") in result.stderr


def test_another_model_decides_if_one_fails(ask: Ask, home: Home, server: ModelServer) -> None:
    home.configure("[network]\ntries = 1\n")
    server._replies += [wire.fails(503), GeminiDecisions(ANSWERS)]
    fallbacks = ("--fallback", "openai:gpt-6-sol", "--fallback", "gemini:gemini-decision-1")
    result = decide(ask, OpenAIDecisions, *fallbacks, "hi")
    assert (result.code, json.loads(result.text)) == (0, CHOSEN)
    assert "gpt-6-sol" in result.stderr


def test_a_recording_is_replayed(ask: Ask, server: ModelServer) -> None:
    server.reply(OpenAIDecisions({**ANSWERS, "kind": None}))
    recorded = decide(ask, OpenAIDecisions, "--record", "r.jsonl", "--json", "hi")
    replayed = decide(ask, OpenAIDecisions, "--json", "hi", env={"ASK_REPLAY": "r.jsonl"})
    first, second = (json.loads(result.text) for result in (recorded, replayed))
    assert recorded.code == replayed.code == 10
    assert first | {"conversation": ""} == second | {"conversation": ""}
    assert len(server.requests) == 1


def test_the_price_of_decisions_is_known_to_max_cost(ask: Ask, server: ModelServer) -> None:
    server.reply(GeminiDecisions(ANSWERS))
    result = decide(ask, GeminiDecisions, "--max-cost", "0.5", "hi")
    assert (result.code, len(server.requests)) == (0, 1)


# ask compare


def test_a_judge_with_a_decisions_api_decides(ask: Ask, server: ModelServer, service: DecisionService) -> None:
    def judge(text: str) -> dict[str, dict[str, float]]:
        first = text.index("<answer") < text.index("two") < text.rindex("<answer")
        return {"best": {"#1": 0.8 if first else 0.2, "#2": 0.2 if first else 0.8}}

    judging = type(service)(judge)

    def reply(request: Any) -> Any:
        if request.path == judging.path:
            return judging(request)
        return wire.says("one" if request.json["model"] == "v/a" else "two")

    server._replies[:] = [reply]
    models = ("-m", "openrouter:v/a", "-m", "openrouter:v/b")
    result = ask("compare", *models, "--judge", f"{judging.provider}:{judging.model}", "which?")
    value = json.loads(result.text)
    assert result.code == 0
    assert value["judge"]["best"] == "openrouter:v/b"
    assert value["judge"]["text"].index("openrouter:v/b 0.80") < value["judge"]["text"].index("openrouter:v/a 0.20")


def replace_leaves(value: Any, wrong: Any, path: tuple[Any, ...] = ()) -> Any:
    """Yield copies of a JSON value, in each of which another part is wrong, or missing if `wrong` is None."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield path, {**value, key: wrong} if isinstance(value, dict) else [*value[:key], wrong, *value[key + 1 :]]
        if isinstance(value, dict) and wrong is None:
            yield path, {name: each for name, each in value.items() if name != key}
        for inner_path, changed in replace_leaves(item, wrong, (*path, key)):
            copied = dict(value) if isinstance(value, dict) else list(value)
            copied[key] = changed
            yield inner_path, copied


@pytest.mark.slow
@pytest.mark.parametrize("wrong", [None, "x", -0.1, 1.5, True, [], {}, [{}], 10**400, ""], ids=repr)
def test_an_answer_with_a_wrong_part_is_an_error_or_a_refused_question(
    ask: Ask, server: ModelServer, service: DecisionService, wrong: Any
) -> None:
    decide(ask, type(service), "--no-save", "hi")
    good = service.build_response(service.bodies[0], ANSWERS)
    for path, body in replace_leaves(good, wrong):
        server.reply(json_reply(body))
        result = decide(ask, type(service), "--no-save", "--json", "hi")
        assert result.code in (0, 6, 7, 10), (path, body, result.stderr)
        data = json.loads(result.text)["data"] if result.text else None
        if data:
            for name, values in {"urgent": (True, False), "kind": tuple(ANSWERS["kind"]), "anger": (1, 2, 3)}.items():
                assert data[name] is None or data[name] in values, (path, body)
                assert data[f"{name}_p"] is None or 0 <= data[f"{name}_p"] <= 1, (path, body)
