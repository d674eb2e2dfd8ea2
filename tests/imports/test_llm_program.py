"""`ask import llm` reads what the installed llm itself has just written."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests import wire
from tests.model_server import ModelServer
from tests.program import PROGRAMS, Ask, Home, run
from tests.saved_history import list_messages, read_saved_runs

FUNCTION = "def shout(text: str) -> str:\n    return text.upper()"


@pytest.mark.slow
def test_the_data_of_the_installed_program_is_imported(
    ask: Ask, home: Home, server: ModelServer, tmp_path: Path
) -> None:
    folder = tmp_path / "llm"
    folder.mkdir()
    (folder / "extra-openai-models.yaml").write_text(
        f"- model_id: bird\n  model_name: bird\n  api_base: {server.base_url}\n  supports_tools: true\n  vision: true\n"
    )
    photo = tmp_path / "photo.png"
    photo.write_bytes(b"\x89PNG\r\n\x1a\n0000")
    env = {**home.env, "LLM_USER_PATH": str(folder)}

    def llm(*arguments: str) -> None:
        result = run([str(PROGRAMS / "llm"), *arguments], env=env, cwd=home.work)
        assert result.code == 0, result.stderr

    server.reply(wire.says("One."), wire.calls(("shout", {"text": "hi"})), wire.says("HI."), wire.says("A bird."))
    llm("-m", "bird", "-s", "Be brief", "first")
    llm("-c", "-T", "llm_version", "--functions", FUNCTION, "shout hi")
    llm("-m", "bird", "look", "-a", str(photo))
    llm("aliases", "set", "fast", "gpt-4o-mini")
    llm("models", "default", "gpt-4o")
    llm("keys", "set", "gemini", "--value", "key-of-gemini-0123")
    llm("-m", "gpt-4o", "-s", "Translate to $lang", "-p", "lang", "French", "--save", "french")
    summary = json.loads(ask("import", "llm", str(folder), "--keys", "--json").stdout)
    assert summary["conversations"]["new"] == 2
    assert (summary["aliases"], summary["default_model"]) == ({"fast": "openai:gpt-4o-mini"}, "openai:gpt-4o")
    assert (summary["keys"], summary["templates"], summary["problems"]) == (["gemini"], ["french"], [])
    first, second, third = read_saved_runs(home)
    assert [message[:2] for message in list_messages(first)] == [("user", "first"), ("assistant", "One.")]
    assert [message[:2] for message in list_messages(second)] == [
        ("user", "shout hi"),
        ("assistant", ""),
        ("tool", "HI"),
        ("assistant", "HI."),
    ]
    assert third.entries[0].message.attachments[0].data == photo.read_bytes()
    assert json.loads(ask("templates", "show", "french", "--json").stdout)["system"] == "Translate to {{lang|French}}"
