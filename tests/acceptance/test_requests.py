"""What each provider is sent, and that its answers come out the same, streamed or not."""

from __future__ import annotations

import json
from datetime import date

import pytest

from tests.acceptance.conftest import Model
from tests.acceptance.services import SERVICES, Call, Service
from tests.program import TEST_KEY, Ask

ONE_PER_FORMAT = ("openrouter", "anthropic", "ollama", "gemini")


def services(*names: str) -> pytest.MarkDecorator:
    """Run a test with each service; those that are not named are slow."""
    params = [
        pytest.param(service, id=name, marks=() if name in names else pytest.mark.slow)
        for name, service in SERVICES.items()
    ]
    return pytest.mark.parametrize("service", params)


streamed_and_whole = pytest.mark.parametrize(
    "whole", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["streamed", "whole"]
)
TOOLS = {"read_file", "write_file", "edit_file", "list_dir", "bash", "fetch_url", "search_web"}
READ = Call("read_file", {"filepath": "config.json"})


def options(service: Service, *, whole: bool = False) -> list[str]:
    return ["-p", service.name, "-m", service.model, *(["--no-stream"] if whole else [])]


@streamed_and_whole
@services(*ONE_PER_FORMAT)
def test_a_question_is_sent_behind_the_default_system_prompt(
    ask: Ask, model: Model, service: Service, whole: bool
) -> None:
    model.say("Because of Rayleigh scattering.", service=service, whole=whole)
    days = {date.today().isoformat()}
    result = ask(*options(service, whole=whole), "why is the sky blue?")
    days.add(date.today().isoformat())
    assert (result.code, result.text) == (0, "Because of Rayleigh scattering.\n")
    [request] = model.server.requests
    assert request.path.startswith(service.path)
    assert any(TEST_KEY in value for value in request.headers.values())
    assert TEST_KEY not in request.path + request.body.decode()
    sent = model.last(service)
    assert any(day in sent.system for day in days)
    assert "ask" in sent.system.split() or "`ask`" in sent.system
    assert sent.user == ["why is the sky blue?"]
    assert set(sent.tools) == TOOLS
    body = request.json
    assert body.get("stream", "streamGenerateContent" in request.path) is not whole
    assert body.get("model", request.path) in (service.model, request.path)
    assert service.model in request.path + json.dumps(body)


@services("openrouter")
def test_the_users_system_prompt_follows_the_default_one(ask: Ask, model: Model, service: Service) -> None:
    model.say("Arr.", service=service)
    assert ask(*options(service), "-s", "Talk like a pirate.", "hello").code == 0
    system = model.last(service).system
    assert system.endswith("Talk like a pirate.")
    assert date.today().strftime("%Y") in system.removesuffix("Talk like a pirate.")


@streamed_and_whole
@services(*ONE_PER_FORMAT)
def test_a_tool_call_is_run_and_its_result_goes_back(ask: Ask, model: Model, service: Service, whole: bool) -> None:
    (ask.cwd / "config.json").write_text('{"port": 8080}')
    model.say("Let me look.", READ, service=service, whole=whole)
    model.say("Port 8080.", service=service, whole=whole)
    result = ask(*options(service, whole=whole), "which port?")
    assert (result.code, result.text) == (0, "Let me look.\nPort 8080.\n")
    first, second = model.transcripts(service)
    assert (second.system, second.user, second.tools) == (first.system, ["which port?"], first.tools)
    assert second.assistant == ["Let me look."]
    assert second.calls == [("read_file", {"filepath": "config.json"})]
    assert len(second.results) == 1
    assert '{"port": 8080}' in second.results[0]


@services("openrouter", "anthropic")
def test_parallel_calls_are_all_answered_in_order(ask: Ask, model: Model, service: Service) -> None:
    calls = [Call("read_file", {"filepath": f"{name}.txt"}, f"call_{name}") for name in "abc"]
    for name in "abc":
        (ask.cwd / f"{name}.txt").write_text(f"contents of {name}")
    model.say("", *calls, service=service)
    model.say("Done.", service=service)
    assert ask(*options(service), "read them").text == "Done.\n"
    sent = model.last(service)
    assert [arguments["filepath"] for _, arguments in sent.calls] == ["a.txt", "b.txt", "c.txt"]
    assert [f"contents of {name}" in result for name, result in zip("abc", sent.results, strict=True)] == [True] * 3


@services(*ONE_PER_FORMAT)
def test_a_conversation_is_continued(ask: Ask, model: Model, service: Service) -> None:
    (ask.cwd / "config.json").write_text('{"port": 8080}')
    model.say("", READ, service=service)
    model.say("Port 8080.", service=service)
    model.say("Because you chose it.", service=service)
    first = ask(*options(service), "which port?")
    again = ask("--resume", first.conversation, "why?")
    assert (again.code, again.text, again.conversation) == (0, "Because you chose it.\n", first.conversation)
    sent = model.last(service)
    assert sent.user == ["which port?", "why?"]
    assert sent.calls == [("read_file", {"filepath": "config.json"})]
    assert '{"port": 8080}' in sent.results[0]
    assert "Port 8080." in sent.assistant


@services("openrouter")
def test_without_tools_none_are_sent(ask: Ask, model: Model, service: Service) -> None:
    model.say("Four.", service=service)
    assert ask(*options(service), "--no-tools", "2+2?").text == "Four.\n"
    assert model.last(service).tools == []
    assert "tools" not in model.bodies[0]


@pytest.mark.slow
def test_a_conversation_is_handed_over_to_every_other_provider(ask: Ask, model: Model) -> None:
    (ask.cwd / "config.json").write_text('{"port": 8080}')
    first, *others = SERVICES.values()
    model.say("I look.", READ, service=first)
    model.say("Port 8080.", service=first)
    conversation = ask(*options(first), "which port?").conversation
    for number, service in enumerate(others, 1):
        model.say(f"Answer {number}.", service=service)
        result = ask("--resume", conversation, *options(service), f"question {number}")
        assert (result.code, result.text) == (0, f"Answer {number}.\n")
        sent = model.last(service)
        assert sent.user == ["which port?", *(f"question {earlier}" for earlier in range(1, number + 1))]
        assert sent.calls == [("read_file", {"filepath": "config.json"})]
        assert '{"port": 8080}' in sent.results[0]


@pytest.mark.parametrize(
    ("service", "field"),
    [("openrouter", "max_tokens"), ("anthropic", "max_tokens"), ("deepseek", "max_tokens"), ("lmstudio", "max_tokens")],
)
def test_model_parameters_are_sent_under_the_names_given(ask: Ask, model: Model, service: str, field: str) -> None:
    one = SERVICES[service]
    model.say("Yes.", service=one)
    assert ask(*options(one), "-o", f"{field}=50", "-o", "temperature=0.5", "hi").code == 0
    assert (model.bodies[0][field], model.bodies[0]["temperature"]) == (50, 0.5)


def test_an_image_is_sent_as_an_image(ask: Ask, model: Model) -> None:
    png = (
        b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\x06\0\0\0\x1f\x15\xc4\x89"
        b"\0\0\0\rIDATx\x9cc\xf8\xff\xff?\0\x05\xfe\x02\xfe\xa75\x81\x84\0\0\0\0IEND\xaeB`\x82"
    )
    (ask.cwd / "dot.png").write_bytes(png)
    model.say("A dot.")
    assert ask("-f", "dot.png", "what is this?").text == "A dot.\n"
    parts = model.bodies[0]["messages"][-1]["content"]
    [image] = [part for part in parts if part["type"] == "image_url"]
    assert image["image_url"]["url"].startswith("data:image/png;base64,")


def test_a_text_file_is_sent_with_its_name(ask: Ask, model: Model) -> None:
    (ask.cwd / "notes.txt").write_text("remember the milk")
    model.say("Milk.")
    assert ask("-f", "notes.txt", "what to buy?").text == "Milk.\n"
    [question] = model.last().user
    assert "notes.txt" in question
    assert "remember the milk" in question
    assert "what to buy?" in question


def test_a_schema_is_sent_and_its_answer_checked(ask: Ask, model: Model) -> None:
    openai = SERVICES["openai"]
    model.say('{"name": "Ada", "age": 36}', service=openai)
    result = ask(*options(openai), "--schema", "name, age int", "who?")
    assert (result.code, json.loads(result.text)) == (0, {"name": "Ada", "age": 36})
    schema = model.bodies[0]["response_format"]["json_schema"]["schema"]
    assert schema["properties"]["age"]["type"] == "integer"
    assert set(schema["required"]) == {"name", "age"}


def test_an_answer_that_never_fits_the_schema_is_exit_code_10(ask: Ask, model: Model) -> None:
    model.say("no JSON at all")
    result = ask("--schema", "name, age int", "who?")
    assert result.code == 10
    assert len(model.bodies) == 3
