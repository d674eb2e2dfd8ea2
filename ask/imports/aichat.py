"""The configuration folder of aichat (https://github.com/sigoden/aichat): sessions, messages, roles, model and keys.

The formats are those of its source in version 0.30 (`src/config/session.rs`, `role.rs`, `mod.rs` and
`src/client/message.rs`).
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from collections.abc import Generator, Iterator, Mapping
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

from ask.history.export_format import ConversationExport
from ask.history.importer import SourceConversation
from ask.imports.aichat_session import PROGRAM, convert_calls, read_session
from ask.imports.model_names import ModelResolver, hide_credentials
from ask.imports.runs import AssistantMessage, SourceMessage, Turn, UserMessage, make_export
from ask.imports.source_data import SourceData, SourceFolder, SourceTemplate, make_conversation_id, parse_yaml, to_text
from ask.templates.placeholders import escape_placeholders

ENTRY_PATTERN = re.compile(r"^# CHAT:(?: .* )?\[([^\]\n]+)\](?: \(.*\))?\n", re.MULTILINE)
"""The first line of an entry in messages.md: the beginning of the question, the time, and the role.

Older versions of aichat wrote only the time and the role: # CHAT:[2024-03-04T05:06:07+01:00] (coder)
"""
CALLS_PATTERN = re.compile(r"<tool_calls>\n((?:.*\n)*?)(\[.*\])\n</tool_calls>\n*")
"""The calls before an answer: the text of the answer that made them, and a line of JSON with their results."""
SEPARATOR = "\n--------\n"
ROLE_PATTERN = re.compile(r"-{3,}\s*(.*?)\s*-{3,}\s*(.*)", re.DOTALL)
INPUT_PLACEHOLDER = "__INPUT__"
ENVIRONMENT_PLACEHOLDERS = {
    "__os__": "this operating system",
    "__os_distro__": "this operating system",
    "__os_family__": "this operating system",
    "__arch__": "this architecture",
    "__shell__": "bash",
    "__locale__": "the locale of this system",
    "__now__": "the current time",
    "__cwd__": "the working directory",
}
"""The variables of aichat that a prompt can contain, with the defaults of placeholders that replace them."""
MODEL_OPTIONS = ("temperature", "top_p")
NO_EQUIVALENTS = {
    "agents": "agents: templates (-t) and your own tools are the closest",
    "functions": "functions: --tool FILE:FUNCTION adds tools of your own",
    "macros": "macros: write shell functions",
    "rags": "RAGs: ask has none; attach files with -f",
}
"""The folders of aichat whose content cannot be imported, and what to do."""


def find_aichat_folder(environment: Mapping[str, str]) -> Path:
    """Return the folder that aichat uses in this environment."""
    if path := environment.get("AICHAT_CONFIG_DIR"):
        return Path(path)
    if path := environment.get("XDG_CONFIG_HOME"):
        return Path(path) / "aichat"
    return Path.home() / ("Library/Application Support" if sys.platform == "darwin" else ".config") / "aichat"


def read_aichat_data(folder: SourceFolder) -> SourceData:
    """Read the data of aichat. The conversations are read when they are iterated."""
    models = ModelResolver(folder.app, ":")
    config = folder.read_yaml(_find_file(folder, "CONFIG_FILE", "config.yaml"))
    config = config if isinstance(config, dict) else {}
    keys = dict(_read_clients(folder, models, config.get("clients")))
    model = to_text(config.get("model"))
    default_model = models.format_model(model)
    if ":" not in model and (provider := models.find_provider(model)):
        default_model = f"{provider}:"
    if model and not default_model:
        folder.notes.add(f"default model {model}: its provider is unknown")
    for name in ("use_tools", "repl_prelude", "cmd_prelude"):
        if config.get(name):
            folder.notes.add(f"the setting {name} of aichat")
    for name in MODEL_OPTIONS:
        if isinstance(value := config.get(name), int | float):
            folder.notes.add(f"{name} for all models: ask config set options.{name} {value}")
    for name, note in NO_EQUIVALENTS.items():
        path = folder.path / name
        if path.is_dir() and any(path.glob("*")):
            folder.notes.add(note)
    return SourceData(_read_conversations(folder, models), [*_read_roles(folder, models)], {}, default_model, keys)


def _find_file(folder: SourceFolder, variable: str, name: str) -> Path:
    """Return the path of a file or folder, which an environment variable of aichat can set for the usual folder."""
    path = "" if folder.is_foreign else folder.app.environment.get(f"AICHAT_{variable}", "")
    return Path(path) if path else folder.path / name


def _read_clients(folder: SourceFolder, models: ModelResolver, clients: Any) -> Iterator[tuple[str, str]]:
    """Add the models of the clients, and yield their keys by provider."""
    for client in clients if isinstance(clients, list) else ():
        if not isinstance(client, dict):
            continue
        name = str(client.get("name") or client.get("type") or "")
        url, key = to_text(client.get("api_base")), client.get("api_key")
        provider = (models.find_provider_by_url(url) if url else "") or models.find_provider(name)
        if not provider:
            command = f"ask config set providers.{name or 'NAME'}.base_url {hide_credentials(url) or 'URL'}"
            folder.notes.add(f"client {name}: its server is not configured here; {command} does that")
            continue
        models.add_prefix(name, provider)
        if isinstance(key, str) and key.strip():
            yield provider, key


def _read_roles(folder: SourceFolder, models: ModelResolver) -> Iterator[SourceTemplate]:
    for path in sorted(_find_file(folder, "ROLES_DIR", "roles").glob("*.md")):
        text = folder.read_text(path)
        if text is None:
            continue
        values, prompt = _split_role(text)
        model = to_text(values.get("model"))
        if model and not models.format_model(model):
            folder.notes.add(f"role {path.stem}: the provider of its model {model} is unknown")
        if tools := values.get("use_tools"):
            folder.notes.add(f"role {path.stem}: no tools ({tools}); list tools of ask in its front matter")
        is_prompt = INPUT_PLACEHOLDER in prompt
        prompt = _convert_prompt(prompt)
        options = {name: values[name] for name in MODEL_OPTIONS if isinstance(values.get(name), int | float)}
        yield SourceTemplate(
            path.stem,
            prompt if is_prompt else "",
            "" if is_prompt else prompt,
            models.format_model(model) if model else "",
            options,
        )


def _split_role(text: str) -> tuple[dict[str, Any], str]:
    """Split a role into the values of its front matter and its prompt."""
    match = ROLE_PATTERN.search(text)
    if not match:
        return {}, text.strip()
    try:
        values = parse_yaml(match[1])
    except ValueError:
        values = None
    return values if isinstance(values, dict) else {}, match[2].strip()


def _convert_prompt(prompt: str) -> str:
    """Return a prompt with ask's placeholders."""
    prompt = escape_placeholders(prompt).replace(INPUT_PLACEHOLDER, "{{input}}")
    for name, default in ENVIRONMENT_PLACEHOLDERS.items():
        prompt = prompt.replace(f"\\{{{{{name}}}}}", f"{{{{{name}|{default}}}}}")
    return prompt


def _read_conversations(folder: SourceFolder, models: ModelResolver) -> Generator[SourceConversation, None, None]:
    yield from _read_messages_file(folder, _find_file(folder, "MESSAGES_FILE", "messages.md"), "messages.md")
    sessions = [("sessions", _find_file(folder, "SESSIONS_DIR", "sessions"))]
    for agent in sorted((folder.path / "agents").glob("*")):
        yield from _read_messages_file(folder, agent / "messages.md", f"agents/{agent.name}/messages.md")
        sessions.append((f"agents/{agent.name}/sessions", agent / "sessions"))
    for name, path in sessions:
        for file in sorted([*path.glob("*.yaml"), *path.glob("_/*.yaml")]):
            yield from read_session(folder, models, file, f"{name}/{file.relative_to(path)}")


def _read_messages_file(folder: SourceFolder, path: Path, name: str) -> Iterator[SourceConversation]:
    """Yield the questions outside of sessions, each of which is a conversation."""
    text = folder.read_text(path)
    if not text:
        return
    matches = ENTRY_PATTERN.finditer(text)
    starts = [match for match in matches if text[max(match.start() - 2, 0) : match.start()] in ("", "\n\n")]
    if not starts:
        folder.notes.problems.append(f"cannot read {path} (no line begins a question of aichat)")
    ends = [*(match.start() for match in starts), len(text)][1:]
    repeated: Counter[str] = Counter()
    for match, end in zip(starts, ends, strict=True):
        entry = text[match.start() : end]
        repeated[entry] += 1
        conversation_id = make_conversation_id(PROGRAM, name, entry, str(repeated[entry]))
        time = parse_local_time(match[1])
        yield SourceConversation(
            conversation_id, time, partial(_load_entry, conversation_id, time, text[match.end() : end])
        )


def _load_entry(conversation_id: str, time: float, entry: str) -> ConversationExport | None:
    question, _, answer = f"\n{entry}".partition(SEPARATOR)
    answer = answer.rstrip().removesuffix("--------").rstrip()
    messages: list[SourceMessage] = [UserMessage(question.strip())]
    if match := CALLS_PATTERN.match(answer):
        try:
            messages += convert_calls({"text": match[1].strip(), "tool_results": json.loads(match[2])}, 0)
            answer = answer[match.end() :]
        except (ValueError, RecursionError):
            pass  # it is text that looks like this
    turn = Turn([*messages, AssistantMessage(answer)], time, model="unknown")
    return make_export(conversation_id, PROGRAM, [turn])


def parse_local_time(text: str) -> float:
    """Return the seconds since 1970 of an ISO 8601 time, which is local without a zone; 0.0 if it is invalid."""
    try:
        return max(datetime.fromisoformat(text).timestamp(), 0.0)
    except (ValueError, OverflowError, OSError):
        return 0.0
