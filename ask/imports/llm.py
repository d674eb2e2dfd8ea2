"""The data folder of llm (https://llm.datasette.io): its log, templates, aliases, default model and keys."""

from __future__ import annotations

import json
import re
import sqlite3
import string
import sys
from collections.abc import Generator, Iterator, Mapping
from pathlib import Path
from typing import Any

from ask.history.importer import SourceConversation
from ask.imports.llm_log import LogDatabase, LogReader
from ask.imports.model_names import ModelResolver, hide_credentials
from ask.imports.source_data import SourceData, SourceFolder, SourceTemplate, to_text
from ask.templates.placeholders import INPUT_NAME, Placeholder, escape_placeholders, find_placeholders
from ask.text import describe_parse_error

FOLDER_NAME = "io.datasette.llm"
NO_EQUIVALENTS = {
    "attachments": "attach the files with -f",
    "attachment_types": "attach the files with -f",
    "extract": "use --code",
    "extract_last": "use --code",
    "fragments": "attach them with -f",
    "functions": "--tool FILE:FUNCTION adds tools of your own",
    "schema_object": "use --schema",
    "system_fragments": "add them to its system prompt",
    "tools": "list tools of ask in its front matter",
}
"""The keys of llm's templates that templates of ask cannot have, and what to do."""


def find_llm_folder(environment: Mapping[str, str]) -> Path:
    """Return the folder that llm uses in this environment."""
    if path := environment.get("LLM_USER_PATH"):
        return Path(path)
    if sys.platform == "darwin":
        return Path.home() / "Library/Application Support" / FOLDER_NAME
    return Path(environment.get("XDG_CONFIG_HOME") or Path.home() / ".config") / FOLDER_NAME


def read_llm_data(folder: SourceFolder) -> SourceData:
    """Read the data of llm. The conversations are read when they are iterated."""
    models = ModelResolver(folder.app, "/")
    _read_extra_models(folder, models)
    if (folder.path / "embeddings.db").is_file():
        folder.notes.add("embeddings (embeddings.db)")
    for model in _read_json(folder, "model_options.json"):
        folder.notes.add(
            f"default options of the model {model}: set options for all models with ask config set options.NAME"
        )
    aliases, own_aliases = {}, _read_json(folder, "aliases.json")
    for alias, model in own_aliases.items():
        if formatted := models.format_model(str(model)):
            aliases[alias] = formatted
        else:
            folder.notes.add(f"alias {alias}: the provider of {model} is unknown")
    default = (folder.read_text(folder.path / "default_model.txt") or "").strip()
    default = str(own_aliases.get(default, default))
    default_model = models.format_model(default)
    if default and not default_model:
        folder.notes.add(f"default model {default}: its provider is unknown")
    return SourceData(
        _read_conversations(folder, models),
        [*_read_templates(folder, models)],
        aliases,
        default_model,
        dict(_read_keys(folder, models)),
    )


def _read_json(folder: SourceFolder, name: str) -> dict[str, Any]:
    path = folder.path / name
    text = folder.read_text(path)
    if not text:
        return {}
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        folder.notes.problems.append(f"cannot read {path} (not JSON: {describe_parse_error(error)})")
        return {}
    return value if isinstance(value, dict) else {}


def _read_extra_models(folder: SourceFolder, models: ModelResolver) -> None:
    """Read the models of other servers that the user has described, with their addresses."""
    entries = folder.read_yaml(folder.path / "extra-openai-models.yaml")
    for entry in entries if isinstance(entries, list) else ():
        if not isinstance(entry, dict) or not isinstance(entry.get("model_id"), str):
            continue
        name, url = entry["model_id"], to_text(entry.get("api_base"))
        provider = models.find_provider_by_url(url) if url else "openai"
        if not provider and not (provider := models.find_provider(name.partition("/")[0])):
            url = hide_credentials(url)
            command = f"ask config set providers.NAME.base_url {url}"
            folder.notes.add(f"model {name} at {url}: its server is not configured here; {command} does that")
        models.add_model(name, provider, str(entry.get("model_name") or name))
        aliases = entry.get("aliases")
        for alias in aliases if isinstance(aliases, list) else ():
            models.add_model(str(alias), *models.resolve(name))


def _read_conversations(folder: SourceFolder, models: ModelResolver) -> Generator[SourceConversation, None, None]:
    path = folder.path / "logs.db"
    if not path.is_file():
        return
    try:
        database = LogDatabase(path)
    except (sqlite3.Error, OSError) as error:
        folder.notes.problems.append(f"cannot read {path} ({error})")
        return
    try:
        if "logs" in database.tables:
            folder.notes.add("the table logs, which llm used before version 0.5")
        yield from LogReader(database, models, folder.notes).list_conversations()
    except sqlite3.Error as error:
        folder.notes.problems.append(f"cannot read the rest of {path} ({error})")
    finally:
        database.close()


def _read_templates(folder: SourceFolder, models: ModelResolver) -> Iterator[SourceTemplate]:
    for path in sorted((folder.path / "templates").glob("*.yaml")):
        values = folder.read_yaml(path)
        if isinstance(values, str):
            values = {"prompt": values}
        if not isinstance(values, dict):
            continue
        defaults = values.get("defaults")
        defaults = {str(name): str(value) for name, value in defaults.items()} if isinstance(defaults, dict) else {}
        model = to_text(values.get("model"))
        if model and not models.format_model(model):
            folder.notes.add(f"template {path.stem}: the provider of its model {model} is unknown")
        for key in NO_EQUIVALENTS.keys() & {name for name, value in values.items() if value}:
            folder.notes.add(f"template {path.stem}: no {key}; {NO_EQUIVALENTS[key]}")
        system = _convert_text(to_text(values.get("system")), defaults)
        if any(name == INPUT_NAME for name, _ in find_placeholders(system)):
            folder.notes.add(f"template {path.stem}: not imported, because its system prompt contains $input")
            continue
        options = values.get("options")
        yield SourceTemplate(
            path.stem,
            _convert_text(to_text(values.get("prompt")), defaults),
            system,
            models.format_model(model) if model else "",
            options if isinstance(options, dict) else {},
        )


def _convert_text(text: str, defaults: Mapping[str, str]) -> str:
    """Return a text with $name replaced by {{name}} or {{name|default}}."""
    parts, end = [], 0
    for match in string.Template.pattern.finditer(text):
        parts.append(escape_placeholders(text[end : match.start()]))
        name = match["named"] or match["braced"]
        parts.append(_format_placeholder(name, defaults.get(name)) if name else "$")
        end = match.end()
    return "".join([*parts, escape_placeholders(text[end:])])


def _format_placeholder(name: str, default: str | None) -> str:
    placeholder = f"{{{{{name}|{default}}}}}"
    # Some texts cannot be the default of a placeholder.
    if default is not None and [*find_placeholders(placeholder)] == [Placeholder(name, default)]:
        return placeholder
    return f"{{{{{name}}}}}"


def _read_keys(folder: SourceFolder, models: ModelResolver) -> Iterator[tuple[str, str]]:
    for name, key in _read_json(folder, "keys.json").items():
        if re.match(r"\W", name) or not isinstance(key, str) or not key.strip():
            continue
        if provider := models.find_provider(name):
            yield provider, key
        else:
            folder.notes.add(f"key {name}: there is no provider of this name")
