"""`ask import aichat`, with files written according to the source of aichat 0.30, none by the program itself."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ask.messages import Attachment
from tests.program import Ask, Home, Result
from tests.saved_history import list_messages, read_conversations, read_saved_runs

SECRET = "sk-aichat-0123456789abcdef"
PNG = b"\x89PNG\r\n\x1a\n000"
FILES = {
    "config.yaml": f"""
model: claude:claude-sonnet-5
temperature: 0.5
clients:
- type: openai
  api_key: null
- type: claude
  api_key: {SECRET}
- type: openai-compatible
  name: my-ollama
  api_base: http://localhost:11434/v1
- type: openai-compatible
  name: strange
  api_base: https://llm.example.org/v1
  api_key: {SECRET}
- 5
""",
    "roles/translate.md": "---\nmodel: openai:gpt-4o\ntemperature: 0.3\nuse_tools: fs\n---\n\nTo French: __INPUT__\n",
    "roles/emoji.md": "On {{__os__}}, write emoji. Keep {{this}}.\n\n### INPUT:\nhi\n\n### OUTPUT:\n👋\n",
    "roles/%%.md": "---\nmodel: strange:x\n---\n",
    "sessions/work.yaml": """
model: my-ollama:llama3.2
temperature: 0.2
messages:
- role: system
  content: You are terse.
- role: user
  content: 2026-11-27
- role: assistant
  content: no
- role: user
  content:
  - type: text
    text: What is this?
  - type: image_url
    image_url:
      url: data:image/png;base64,iVBORw0KGgowMDA=
  - type: image_url
    image_url:
      url: https://example.org/pic.png
- role: assistant
  content: A picture.
- role: user
  content: List the files
- role: tool
  content:
    tool_results:
    - call:
        name: fs_ls
        arguments:
          depth: 1
        id: call_x
      output: a.txt
    - call:
        name: fs_cat
        arguments: '{"path": "a.txt"}'
        id: null
      output:
        text: 12
    text: I look.
    sequence: false
- role: assistant
  content: There is a.txt.
data_urls: {}
""",
    "sessions/_/20250102T030405-birds.yaml": """
model: openai:gpt-4o
compressed_messages:
- role: system
  content: Base
- role: user
  content: old
- role: assistant
  content: old answer
messages:
- role: system
  content: |-
    Base

    This is a summary
- role: user
  content: new
- role: assistant
  content: new answer
""",
    "sessions/broken.yaml": "messages: [",
    "sessions/other.yaml": "- 1\n- 2\n",
    "messages.md": """\
# CHAT: why [2025-03-04T05:06:07+01:00]
why is the sky blue?
# CHAT: no entry [2025-03-04T05:06:07+01:00]
--------
Rayleigh.

--------
And more.
--------

# CHAT: ls [2025-03-05T05:06:07+01:00] (coder)
ls
--------
<tool_calls>
[{"call":{"name":"ls","arguments":{},"id":"call_1"},"output":"a.txt"}]
</tool_calls>

There is a.txt.
--------

""",
    "macros/x.yaml": "",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "aichat"
    for name, text in FILES.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_text(text)
    return path


@pytest.fixture
def aichat(ask: Ask, folder: Path) -> Callable[..., Any]:
    user = replace(ask, env={**ask.env, "AICHAT_CONFIG_DIR": str(folder)})

    def run() -> Any:
        result: Result = user("import", "aichat", "--keys", "--json")
        assert (result.code, SECRET in result.stderr) == (9, False), result.stderr
        return json.loads(result.stdout)

    return run


def test_everything_is_imported_once(aichat: Callable[..., Any], home: Home, folder: Path) -> None:
    before = {file: file.read_bytes() for file in folder.rglob("*.*") if file.is_file()}
    summary = aichat()
    assert summary["conversations"] == {"new": 4, "continued": 0, "present": 0}
    assert summary["templates"] == ["template", "emoji", "translate"]
    assert (summary["default_model"], summary["keys"]) == ("anthropic:claude-sonnet-5", ["anthropic"])
    notes = "\n".join(summary["not_imported"])
    for expected in ("client strange", "macros", "tools (fs)", "1 image", "options.temperature 0.5", "strange:x"):
        assert expected in notes
    (problem,) = summary["problems"]
    assert "broken.yaml" in problem
    again = aichat()
    assert again["conversations"] == {"new": 0, "continued": 0, "present": 4}
    assert [again[name] for name in ("templates", "default_model", "keys", "kept")] == [[], "", [], []]
    assert {file: file.read_bytes() for file in before} == before
    assert len(read_conversations(home.data / "history.db")) == 4


def test_sessions_are_complete(aichat: Callable[..., Any], home: Home) -> None:
    aichat()
    birds, work = (
        [run for run in read_saved_runs(home) if run.system == system] for system in ("Base", "You are terse.")
    )
    assert [message for run in birds for message in list_messages(run)] == [
        ("user", "old", True),
        ("assistant", "old answer", True),
        ("user", "new", True),
        ("assistant", "new answer", True),
    ]
    first, second, third = work
    assert (first.provider, first.model, first.version) == ("ollama", "llama3.2", "aichat")
    assert list_messages(first) == [("user", "2026-11-27", True), ("assistant", "no", True)]
    (image,) = second.entries[0].message.attachments
    assert image == Attachment("image.png", "image/png", PNG)
    assert "https://example.org/pic.png" in second.entries[0].message.content
    request, ls, cat = third.entries[1:4]
    assert request.message.content == "I look."
    assert [json.loads(record.call.arguments) for record in request.calls] == [{"depth": 1}, {"path": "a.txt"}]
    assert (ls.message.content, json.loads(cat.message.content)) == ("a.txt", {"text": 12})
    titles = [conversation.title for conversation in read_conversations(home.data / "history.db")]
    assert {"work: 2026-11-27", "birds: old"} <= {*titles}


def test_questions_outside_of_sessions_are_conversations(aichat: Callable[..., Any], home: Home) -> None:
    aichat()
    sky, ls = (run for run in read_saved_runs(home) if run.model == "unknown")
    assert list_messages(sky) == [
        ("user", "why is the sky blue?\n# CHAT: no entry [2025-03-04T05:06:07+01:00]", True),
        ("assistant", "Rayleigh.\n\n--------\nAnd more.", True),
    ]
    assert [message[:2] for message in list_messages(ls)] == [
        ("user", "ls"),
        ("assistant", ""),
        ("tool", "a.txt"),
        ("assistant", "There is a.txt."),
    ]
    assert sky.started == 1741061167


def test_questions_that_older_versions_saved_are_conversations(ask: Ask, home: Home, tmp_path: Path) -> None:
    entries = "# CHAT:[2024-03-04T05:06:07+01:00]\nwhy?\n--------\nso\n--------\n\n"
    entries += "# CHAT:[2024-03-04T05:06:08+01:00] (coder)\nls\n--------\ndir\n--------\n\n"
    (tmp_path / "messages.md").write_text(entries)
    assert ask("import", "aichat", str(tmp_path)).code == 0
    assert [list_messages(run)[0][:2] for run in read_saved_runs(home)] == [("user", "why?"), ("user", "ls")]
    (tmp_path / "messages.md").write_text("# My notes\n")
    result = ask("import", "aichat", str(tmp_path))
    assert (result.code, "messages.md" in result.stderr) == (9, True)


def test_roles_are_templates(aichat: Callable[..., Any], ask: Ask) -> None:
    aichat()
    translate, emoji = (json.loads(ask("templates", "show", name, "--json").stdout) for name in ("translate", "emoji"))
    assert (translate["prompt"], translate["model"]) == ("To French: {{input}}", "openai:gpt-4o")
    assert (translate["options"], translate["tools"]) == ({"temperature": 0.3}, False)
    assert emoji["system"].startswith("On {{__os__|this operating system}}, write emoji. Keep \\{{this}}.")
    assert emoji["system"].endswith("### OUTPUT:\n👋")
    assert ask("-p", "demo", "-t", "emoji", "hello").code == 0


def test_a_session_that_has_grown_is_continued(aichat: Callable[..., Any], home: Home, folder: Path) -> None:
    aichat()
    session = folder / "sessions/work.yaml"
    text = FILES["sessions/work.yaml"].removesuffix("data_urls: {}\n")
    session.write_text(f"{text}- role: user\n  content: Thanks\n- role: assistant\n  content: Bye\n")
    os.utime(session, (4_000_000_000, 4_000_000_000))
    assert aichat()["conversations"] == {"new": 0, "continued": 1, "present": 3}
    work = [run for run in read_saved_runs(home) if run.system == "You are terse."]
    assert [len(run.entries) for run in work] == [2, 2, 5, 2]
    session.write_text("messages:\n- role: user\n  content: Another topic\n- role: assistant\n  content: Yes\n")
    assert aichat()["conversations"] == {"new": 1, "continued": 0, "present": 3}


def test_variables_for_single_files_apply(ask: Ask, folder: Path, tmp_path: Path) -> None:
    (folder / "sessions").rename(tmp_path / "elsewhere")
    user = replace(
        ask,
        env={**ask.env, "AICHAT_CONFIG_DIR": str(folder), "AICHAT_SESSIONS_DIR": str(tmp_path / "elsewhere")},
    )
    assert json.loads(user("import", "aichat", "--json").stdout)["conversations"]["new"] == 4


@pytest.mark.parametrize("content", ["{1: a, b: c}", "&cycle [*cycle]"])
def test_a_session_that_json_cannot_express_costs_only_itself(ask: Ask, folder: Path, content: str) -> None:
    (folder / "sessions/odd.yaml").write_text(f"messages:\n- role: user\n  content: {content}\n")
    result = ask("import", "aichat", str(folder), "--json")
    summary = json.loads(result.stdout)
    assert (result.code, summary["conversations"]["new"]) == (9, 4), result.stderr
    assert any("odd.yaml" in problem for problem in summary["problems"])


def test_a_link_to_a_file_outside_of_a_given_folder_is_not_followed(
    ask: Ask, aichat: Callable[..., Any], folder: Path, tmp_path: Path
) -> None:
    (tmp_path / "private").write_text("PRIVATE KEY")
    (folder / "roles/link.md").symlink_to(tmp_path / "private")
    (folder / "roles/inside.md").symlink_to("emoji.md")
    summary = json.loads(ask("import", "aichat", str(folder), "--json").stdout)
    assert "inside" in summary["templates"]
    assert "link" not in summary["templates"]
    assert any("link.md" in problem for problem in summary["problems"])
    assert aichat()["templates"] == ["link"], "the user's own folder may contain links"


@pytest.mark.parametrize("value", ["!sk-secret x", '"sk-secret', "*sk-secret", "!!int sk-secret"])
def test_invalid_yaml_is_reported_without_its_text(ask: Ask, folder: Path, value: str) -> None:
    (folder / "config.yaml").write_text(f"clients:\n- api_key: {value}\n")
    result = ask("import", "aichat", str(folder))
    assert result.code == 9
    assert re.search(r"config.yaml \((invalid YAML|YAML aliases)", result.stderr)
    assert "sk-secret" not in result.stderr


def test_addresses_are_printed_without_credentials(ask: Ask, folder: Path) -> None:
    (folder / "config.yaml").write_text(
        "clients:\n- {name: private, api_base: 'https://user:sk-secret@llm.example.org/v1?key=sk-secret'}\n"
    )
    result = ask("import", "aichat", str(folder))
    assert "providers.private.base_url https://llm.example.org/v1 " in result.stderr
    assert "sk-secret" not in result.stderr
