"""Adding the data of another program to the user's own, which is never replaced."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import tomli_w

from ask.app import AppContext
from ask.atomic_files import lock_file
from ask.client.endpoint import find_key_origin, load_provider
from ask.config.config_editor import replace_file_content, update_config_file
from ask.config.key_repair import is_valid_key, repair_key
from ask.config.model_options import check_model_option
from ask.errors import AskError
from ask.history.importer import AddedConversations, SourceConversation, add_conversations
from ask.history.store import Store
from ask.imports.source_data import ImportNotes, SourceData, SourceTemplate
from ask.records import NamedTuple
from ask.templates.template import BUILTIN_FOLDER, FENCE, SUFFIX, parse_template


class AddedData(NamedTuple):
    """What was imported besides conversations; the field names are those of the JSON output."""

    templates: Sequence[str]
    aliases: Mapping[str, str]
    default_model: str
    keys: Sequence[str]
    kept: Sequence[str]
    """What the user already has, with another value."""


class DataImport:
    """Adds the data of a program.

    Args:
        confirm: asks the user whether to import the keys of the providers that it is called with.
    """

    def __init__(
        self, app: AppContext, program: str, notes: ImportNotes, confirm: Callable[[Sequence[str]], bool]
    ) -> None:
        self._app = app
        self._program = program
        self._notes = notes
        self._confirm = confirm
        self._kept: list[str] = []
        self.added_conversations = AddedConversations()

    def add_data(self, data: SourceData) -> AddedData:
        """Add everything except conversations."""
        keys = self._add_keys(data.keys)
        templates = [name for template in data.templates if (name := self._add_template(template))]
        added_aliases = {name: model for name, model in data.aliases.items() if self._add_alias(name, model)}
        default_model = self._add_default_model(data.default_model)
        return AddedData(templates, added_aliases, default_model, keys, self._kept)

    def add_conversations(self, conversations: Iterable[SourceConversation]) -> None:
        """Add the conversations; after an interruption, `added_conversations` has the numbers so far."""
        with Store(self._app.app_dirs.history_file) as store:
            for counts in add_conversations(store, self._program, conversations):
                self.added_conversations = counts
                self._app.console.show_status(f"{counts.new + counts.continued:,} conversations imported")
            self._notes.problems += store.notes

    def _add_keys(self, keys: Mapping[str, str]) -> list[str]:
        """Save the keys of providers that have none, if the user agrees."""
        usable = {}
        for provider, text in keys.items():
            key, _ = repair_key(text.strip())
            try:
                variables = load_provider(self._app, provider).info.key_env
            except AskError as error:
                self._notes.problems.append(f"the key for {provider}: {error}")
                continue
            if origin := find_key_origin(self._app, provider, variables):
                saved_key = self._app.key_store.read_saved_keys().get(provider)
                if key not in (saved_key, self._app.environment.get(origin)):
                    self._kept.append(f"key for {provider}: already set ({origin})")
            elif not key or not is_valid_key(key):
                self._notes.problems.append(f"the key for {provider} contains an invalid character")
            else:
                usable[provider] = key
        if not usable or not self._confirm([*usable]):
            return []
        for provider, key in usable.items():
            self._app.key_store.save(provider, key)
        return [*usable]

    def _add_template(self, template: SourceTemplate) -> str:
        """Write a template unless there is one of its name; return the name, or ""."""
        name = re.sub(r"[^\w-]+", "-", template.name).strip("-") or "template"
        file = self._app.app_dirs.templates / f"{name}{SUFFIX}"
        try:
            text = _format_template(template, self._program, self._notes)
            parse_template(file, text)
            with lock_file(file):
                if file.exists():
                    if file.read_bytes() != text.encode():
                        self._kept.append(f"template {name}: {file} exists")
                    return ""
                replace_file_content(file, text.encode())
        except (AskError, OSError, TypeError, ValueError) as error:
            self._notes.problems.append(f"template {template.name}: {error}")
            return ""
        if name != template.name:
            self._notes.add(f"template {template.name}: its name here is {name}")
        if (BUILTIN_FOLDER / file.name).exists():
            self._notes.add(f"template {name}: replaces the built-in one; ask templates delete {name} restores that")
        return name

    def _add_alias(self, name: str, model: str) -> bool:
        """Add an alias unless there is one of its name; return whether it was added."""
        existing = self._app.config.aliases.get(name)
        if existing is not None and existing != model:
            self._kept.append(f"alias {name}: already stands for {existing}")
        return existing is None and self._change_config(("aliases", name), model)

    def _add_default_model(self, model: str) -> str:
        """Set the default model if none is set."""
        if not model:
            return ""
        provider, own_model = (str(self._app.config.get(key) or "") for key in ("provider", "model"))
        own = ":".join(filter(None, (provider, own_model)))
        if not own:
            return model if self._change_config(("model",), model) else ""
        if own.removesuffix(":") != model.removesuffix(":"):
            self._kept.append(f"default model: already set to {own}, not {model}")
        return ""

    def _change_config(self, parts: tuple[str, ...], value: str) -> bool:
        """Set a value in config.toml; return whether that was possible."""
        path = self._app.app_dirs.config_file
        try:
            if not update_config_file(path, parts, value):
                self._notes.add(f"comments in {path} were lost")
        except (AskError, ValueError) as error:
            self._notes.problems.append(f"cannot set {'.'.join(parts)}: {error}")
            return False
        return True


def _format_template(template: SourceTemplate, program: str, notes: ImportNotes) -> str:
    """Return the text of a template's file. Its model can use no tools: those of other programs are not available."""
    options = {}
    for name, value in template.options.items():
        try:
            check_model_option(name, value)
            options[name] = value
        except (AskError, TypeError) as error:
            notes.add(f"template {template.name}: no option {name} ({error})")
    front_matter: dict[str, Any] = {"description": f"Imported from {program}"}
    front_matter |= {name: text for name in ("system", "model") if (text := getattr(template, name))}
    front_matter |= {"tools": False, **({"options": options} if options else {})}
    return f"{FENCE}\n{tomli_w.dumps(front_matter, multiline_strings=True)}{FENCE}\n{template.prompt.strip()}\n"
