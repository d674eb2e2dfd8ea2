"""`ask compare`: one question, the answers of several models."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable
from typing import Any

import pytest

from tests import wire
from tests.model_server import HOLD, ModelServer, Reply, Request
from tests.program import ASK, CTRL_C, Ask, Home, Running
from tests.screen import render_lines

COMMAND = ("compare", "-p", "openrouter", "-m", "v/a,v/b,")


def by_model(**replies: Reply | Callable[[Request], Reply]) -> Callable[[Request], Reply]:
    """Answer each model's request with its own reply; the names are those of the models, without "v/"."""

    def choose(request: Request) -> Reply:
        reply = replies[request.json["model"].removeprefix("v/")]
        return reply if isinstance(reply, Reply) else reply(request)

    return choose


def get_prompt(request: Request) -> str:
    return str(request.json["messages"][-1]["content"])


def judge(prefer: str) -> Callable[[Request], Reply]:
    """Name the answer with this text the best."""

    def decide(request: Request) -> Reply:
        labels = dict(re.findall(r'<answer label="(#\d)">\n(.*?)\n</answer>', get_prompt(request), re.DOTALL))
        label = next(label for label, text in labels.items() if text == prefer)
        return wire.says(json.dumps({"reason": f"{label} is right, #9 is not there", "best": label}))

    return decide


def test_all_answers_are_one_json_object_in_a_pipe(ask: Ask, server: ModelServer, home: Home) -> None:
    server.reply(by_model(a=wire.says("one"), b=wire.says("two")))
    (home.work / "notes.txt").write_text("remember this")
    result = ask(*COMMAND, "-f", "notes.txt", "-s", "Be brief.", "what", "now?", stdin=b"piped words")
    value = json.loads(result.text)
    assert (result.code, list(value)) == (0, ["answers"])
    first, second = value["answers"]
    assert [(each["provider"], each["model"], each["text"], each["error"]) for each in (first, second)] == [
        ("openrouter", "v/a", "one", None), ("openrouter", "v/b", "two", None),
    ]  # fmt: skip
    assert first["usage"]["output_tokens"] == 5
    assert first["seconds"] > 0
    for request in server.requests:
        system, user = request.json["messages"]
        assert system["role"] == "system"
        assert system["content"].endswith("Be brief.")
        assert "ask" in system["content"].partition("\n")[0]
        assert all(part in user["content"] for part in ("what now?", "remember this", "piped words"))
        assert "tools" not in request.json
    assert ask("history", "--json").text.strip() in ("", "[]")


@pytest.mark.parametrize("models", [[], ["-m", "demo:demo"]])
def test_fewer_than_two_models_are_an_error(ask: Ask, server: ModelServer, models: list[str]) -> None:
    result = ask("compare", *models, "these two files")
    assert (result.code, result.text, server.requests) == (2, "", [])
    assert "ask -- compare 'these two files'" in result.stderr


def test_a_model_that_fails_does_not_stop_the_others(ask: Ask, server: ModelServer) -> None:
    server.reply(by_model(a=wire.fails(400, "too cold"), b=wire.says("two")))
    result = ask(*COMMAND, "--judge", "v/j", "hi")
    assert result.code == 0
    first, second = json.loads(result.text)["answers"]
    assert ("too cold" in first["error"], second["text"]) == (True, "two")
    assert re.search(r"openrouter:v/a.*too cold", result.stderr)
    assert len(server.requests) == 2, "one answer needs no judge"


def test_the_first_error_is_that_of_the_command_if_none_answers(ask: Ask, server: ModelServer) -> None:
    server.reply(by_model(a=wire.fails(401, "no such key"), b=wire.says("half", finish="length")))
    result = ask(*COMMAND, "hi")
    assert result.code == 6
    assert all(word in result.stderr for word in ("v/a", "no such key", "v/b"))
    assert [bool(each["error"]) for each in json.loads(result.text)["answers"]] == [True, True]


def test_a_race_keeps_the_first_complete_answer(ask: Ask, server: ModelServer) -> None:
    slow = Reply((wire.sse(wire.text("slowly"), done=False), HOLD), content_type="text/event-stream")
    server.reply(by_model(a=slow, b=wire.says("two")))
    result = ask.process(*COMMAND, "--race", "hi")
    assert result.code == 0
    assert [each["text"] for each in json.loads(result.text)["answers"]] == ["two"]
    server.wait_for_abandoned(1)


def test_an_error_does_not_win_a_race(ask: Ask, server: ModelServer) -> None:
    b_may_answer = threading.Event()

    def fail(_: Request) -> Reply:
        b_may_answer.set()
        return wire.fails(400, "too cold")

    late = wire.says("two")
    server.reply(by_model(a=fail, b=Reply((b_may_answer, 0.2, *late.steps), content_type=late.content_type)))
    result = ask(*COMMAND, "--race", "hi")
    assert (result.code, json.loads(result.text)["answers"][-1]["text"]) == (0, "two")
    assert ask(*COMMAND, "--race", "--judge", "v/j", "hi").code == 2


@pytest.mark.slow
def test_the_judge_sees_the_answers_without_names(ask: Ask, server: ModelServer) -> None:
    server.reply(by_model(a=wire.says("one"), b=wire.says("two"), j=judge("two")))
    orders: set[tuple[str, ...]] = set()
    for _ in range(12):
        result = ask(*COMMAND, "--judge", "v/j", "-o", "temperature=1.5", "hi")
        verdict = json.loads(result.text)["judge"]
        assert (result.code, verdict["best"], verdict["model"]) == (0, "openrouter:v/b", "v/j")
        assert verdict["text"] == "openrouter:v/b is right, #9 is not there"
        request = server.requests[-1]
        assert not re.search("v/[ab]", get_prompt(request))
        assert "hi" in get_prompt(request)
        assert ("temperature" in request.json, "response_format" in request.json) == (False, True)
        orders.add(tuple(re.findall(r"^(one|two)$", get_prompt(request), re.MULTILINE)))
    assert len(orders) == 2, "the order is random"


def test_a_judge_that_fails_loses_no_answer(ask: Ask, server: ModelServer) -> None:
    server.reply(by_model(a=wire.says("one"), b=wire.says("two"), j=wire.fails(400, "no verdict")))
    result = ask(*COMMAND, "--judge", "v/j", "hi")
    assert result.code == 6
    assert [each["text"] for each in json.loads(result.text)["answers"]] == ["one", "two"]
    assert "no verdict" in result.stderr


def test_answers_are_combined(ask: Ask, server: ModelServer) -> None:
    server.reply(by_model(a=wire.says("one"), b=wire.says("two"), c=wire.says("one and two")))
    result = ask(*COMMAND, "--combine", "v/c", "hi")
    assert json.loads(result.text)["combined"]["text"] == "one and two"
    assert all(f"\n{text}\n</answer>" in get_prompt(server.requests[-1]) for text in ("one", "two"))


def stream_markdown(title: str, rows: int) -> Reply:
    words = "".join(f"- **{title}** row {number}\n" for number in range(rows))
    pieces = [wire.sse(wire.text(piece), done=False) for piece in re.findall("(?s).{1,40}", words)]
    steps: list[Any] = [step for piece in pieces for step in (piece, 0.005)]
    end = wire.sse(wire.finish(), wire.usage(10, rows))
    return Reply((*steps, end), content_type="text/event-stream")


def test_answers_stream_in_columns_on_a_terminal(ask: Ask, server: ModelServer) -> None:
    server.reply(
        by_model(a=stream_markdown("left", 40), b=stream_markdown("right", 3), j=judge("no"), c=wire.says("both"))
    )
    result = ask.on_terminal(*COMMAND, "--combine", "v/c", "hi")
    assert result.code == 0
    lines = render_lines(result.stdout)
    places = [number for number, line in enumerate(lines) if "left row 0" in line]
    assert places, lines
    assert re.search(r"left row 0 +│ .*right row 0", lines[places[-1]])
    assert re.search(r"openrouter:v/a +│ openrouter:v/b", lines[places[-1] - 1])
    final = "\n".join(lines[places[-1] :])
    assert all(f"left row {number}" in final for number in range(40)), "nothing is left out in the end"
    assert "40 tokens" in final
    assert "both" in final.rpartition("combined")[2]
    assert all(len(line) <= 80 for line in lines)


def test_parallel_comparisons_do_not_erase_each_others_lines(ask: Ask, server: ModelServer) -> None:
    def answer(request: Request) -> Reply:
        return stream_markdown(f"{request.json['model'][-1]}-{get_prompt(request).rpartition(' ')[2]}", 12)

    server.reply(answer)
    script = f"printf '%s\\n' one two three | xargs -P 3 -I{{}} {ASK} {' '.join(COMMAND)} 'say {{}}'"
    with Running(["bash", "-c", script], env=ask.env, cwd=ask.cwd, terminal=True) as running:
        shown = render_lines(running.finish().stdout)
    for word in ("one", "two", "three"):
        last = max(number for number, line in enumerate(shown) if f"a-{word} row 11" in line)
        for number, line in enumerate(shown[last - 11 : last + 1]):
            assert [f"{model}-{word} row {number}" for model in "ab"] == re.findall(r"[ab]-\w+ row \d+", line), shown


@pytest.mark.slow
def test_columns_show_no_escape_sequence_of_a_server(ask: Ask, server: ModelServer) -> None:
    error = "no \x1b]52;c;QUFB\x07\u202e\nway"
    server.reply(by_model(a=wire.fails(400, error), **{"\x1b]0;b\x07": wire.says("two")}))
    result = ask.on_terminal("compare", "-p", "openrouter", "-m", "v/a", "-m", "v/\x1b]0;b\x07", "hi")
    lines = render_lines(result.stdout)
    assert not re.search(rb"\x1b\]|\x07|\xe2\x80\xae", result.stdout)
    assert any(r"error: no \x1b]52;c;QUFB" in line for line in lines), lines
    assert any(r"openrouter:v/\x1b]0;b\x07" in line for line in lines)


@pytest.mark.slow
def test_a_narrow_terminal_shows_sections(ask: Ask, server: ModelServer) -> None:
    server.reply(by_model(a=wire.says("one"), b=wire.says("two"), j=judge("two")))
    result = ask.on_terminal(*COMMAND, "-m", "v/a", "-m", "v/b", "--judge", "v/j", "hi")
    lines = render_lines(result.stdout)
    assert not any("│" in line for line in lines), "four columns would be too narrow"
    assert [line for line in lines if line in ("one", "two")] == ["one", "two", "one", "two"]
    assert "openrouter:v/b is right, #9 is not there" in lines
    single = ask.on_terminal(*COMMAND, "--race", "--plain", "hi")
    assert sum(word in single.text.split() for word in ("one", "two")) == 1


def test_ctrl_c_stops_at_once(ask: Ask, server: ModelServer) -> None:
    started = Reply((wire.sse(wire.text("begun"), done=False), HOLD), content_type="text/event-stream")
    server.reply(by_model(a=started, b=started))
    with ask.start_on_terminal(*COMMAND, "hi") as running:
        server.wait_for_requests(2)
        running.wait_for("begun")
        running.type_in(CTRL_C)
        result = running.finish()
    assert result.code == 130
    assert "Traceback" not in result.text
    server.wait_for_abandoned(2)
