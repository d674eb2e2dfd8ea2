"""Completions that the shell scripts cannot know: `ask --complete KIND [WORD [PROVIDER]]`.

The user is waiting after pressing Tab, so little is imported and the network is not used: an old models list is
refreshed by a background process, for the next time. Static completions are in the scripts themselves.
"""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from ask.atomic_files import PRIVATE_FILE_MODE, create_private_folder
from ask.config.config_file import Config, read_config
from ask.config.directories import AppDirs
from ask.errors import AskError
from ask.text import format_one_line, repair_surrogates

if TYPE_CHECKING:
    from ask.mcp.address_cache import AddressKind

SAFE_WORD = re.compile(r"[A-Za-z0-9_.~/:@+,=%-]+")
"""Words that need no quoting in a shell.

Models lists come from servers: a word must not put a command substitution on the command line.
"""
MAX_CONVERSATIONS = 200
MAX_TITLE_LENGTH = 100
MODELS_MAX_AGE, MODELS_RETRY_INTERVAL = 86_400.0, 600.0
"""Seconds after which a models list is refreshed, and between two attempts to do so."""
LOCK_TIMEOUT = 0.02
"""Seconds to wait for another process that has locked the history."""

CompletionItem = tuple[str, str]
"""A word and its description."""


def write_completions(arguments: Sequence[str]) -> int:
    """Write one line per completion: the word, a tab, its description. Returns the exit code.

    Errors print nothing: what cannot be read offers no completions.
    """
    kind, word, provider, *_ = (*arguments, "", "", "")
    lines = [
        f"{value}\t{format_one_line(description, MAX_TITLE_LENGTH)}\n"
        for value, description in complete(kind, word, provider)
        if SAFE_WORD.fullmatch(value)
    ]
    sys.stdout.buffer.write(repair_surrogates("".join(lines)).encode())
    return 0


def complete(kind: str, word: str, provider: str) -> Iterator[CompletionItem]:
    """Yield the completions of this kind; `provider` is the value of -p, or "".

    Those for -f are only the resources of MCP servers: the shell itself completes files.
    """
    app_dirs = AppDirs.from_environment(os.environ)
    match kind:
        case "providers":
            yield from _complete_providers(app_dirs)
        case "models":
            yield from complete_models(app_dirs, os.environ, word, provider)
        case "fallbacks":
            yield from complete_models(app_dirs, os.environ, word, "")
            if provider:
                yield from complete_models(app_dirs, os.environ, word, provider)
        case "conversations":
            yield from _complete_conversations(app_dirs)
        case "templates":
            yield from _complete_templates(app_dirs)
        case "prompts":
            yield from _complete_templates(app_dirs)
            yield from complete_mcp_addresses(app_dirs, "prompts", word)
        case "resources":
            yield from complete_mcp_addresses(app_dirs, "resources", word)


def _complete_providers(app_dirs: AppDirs) -> Iterator[CompletionItem]:
    """Yield the installed providers, then those configured in config.toml."""
    try:
        rows = json.loads((app_dirs.cache / "plugins.json").read_bytes())["providers"]  # the last run's index
        installed = {str(name): str(distribution) for name, _, distribution in rows}
    except (OSError, ValueError, KeyError, TypeError):
        from ask.plugin_api.loader import find_plugins

        entries = find_plugins(app_dirs.cache / "plugins.json").providers.values()
        installed = {entry.name: entry.distribution for entry, *_ in entries}
    yield from sorted(installed.items())
    for name, table in _load_config(app_dirs).providers.items():
        if name not in installed and "base_url" in table:
            yield name, "config.toml"


def complete_models(
    app_dirs: AppDirs, environment: Mapping[str, str], incomplete: str, provider: str
) -> Iterator[CompletionItem]:
    """Yield values for -m.

    With a `provider`, these are its models. Otherwise they are the aliases, `provider:` for each provider and the
    models of the default provider, or after `provider:` that provider's models.
    """
    if provider:
        yield from ((model, "") for model in list_model_ids(app_dirs, provider))
        return
    providers = dict(_complete_providers(app_dirs))
    prefix, colon, _ = incomplete.partition(":")
    if colon and prefix in providers:
        yield from ((f"{prefix}:{model}", "") for model in list_model_ids(app_dirs, prefix))
        return
    config = _load_config(app_dirs)
    yield from config.aliases.items()
    yield from ((f"{name}:", distribution) for name, distribution in providers.items())
    default_provider = environment.get("ASK_PROVIDER") or config.get("provider")
    if default_provider in providers:
        yield from ((model, "") for model in list_model_ids(app_dirs, str(default_provider)))


def list_model_ids(app_dirs: AppDirs, provider: str) -> list[str]:
    """List the model ids in a provider's cache. An old list is refreshed in the background."""
    from ask.client.models_cache import find_newest_file, read_models

    file = find_newest_file(app_dirs.cache, provider)
    cached = read_models(file)
    if cached.age > MODELS_MAX_AGE:
        _refresh_models_in_background(file.with_suffix(".asked"), provider)
    return [model.id for model in cached.models]


def _refresh_models_in_background(stamp_file: Path, provider: str) -> None:
    """Start a process that fetches the models list, unless that was tried recently."""
    with suppress(OSError):
        create_private_folder(stamp_file.parent)
        if stamp_file.exists() and 0 <= time.time() - stamp_file.stat().st_mtime < MODELS_RETRY_INTERVAL:
            return
        stamp_file.touch(PRIVATE_FILE_MODE)
        from subprocess import DEVNULL, Popen

        # Without -P, Python would import modules from the working directory, which may not be trusted.
        command = [sys.executable, "-P", "-m", "ask", "models", "-p", provider]
        Popen(command, stdin=DEVNULL, stdout=DEVNULL, stderr=DEVNULL, start_new_session=True)


def _complete_conversations(app_dirs: AppDirs) -> Iterator[CompletionItem]:
    """Yield the newest conversations with their titles. A locked history is not waited for."""
    from ask.history.store import Store

    query = "SELECT id, title FROM conversations ORDER BY updated DESC, number DESC LIMIT ?"
    with suppress(AskError), Store(app_dirs.history_file, create=False, lock_timeout=LOCK_TIMEOUT) as store:
        yield from ((str(number), str(title)) for number, title in store.fetch_rows(query, (MAX_CONVERSATIONS,)))


def _complete_templates(app_dirs: AppDirs) -> Iterator[CompletionItem]:
    """Yield the templates: the user's own and those that come with the program."""
    from ask.templates.template import list_template_files

    with suppress(AskError):
        for name, file in list_template_files(app_dirs.templates).items():
            yield name, "yours" if file.is_relative_to(app_dirs.config) else ""


def complete_mcp_addresses(app_dirs: AppDirs, kind: AddressKind, incomplete: str) -> Iterator[CompletionItem]:
    """Yield the addresses of MCP servers, or of what a server listed last once its name is complete.

    No server is started. The URI of a template ends before its first placeholder.
    """
    from ask.inputs.sources import MCP_PREFIX
    from ask.mcp.address_cache import read_addresses
    from ask.mcp.server_config import find_servers

    with suppress(AskError):
        for server in find_servers(_load_config(app_dirs), app_dirs.config).servers.values():
            addresses = read_addresses(app_dirs.cache, server.name, kind)
            prefix = f"{MCP_PREFIX}{server.name}/"
            if not server.enabled or addresses == []:
                continue
            if incomplete.startswith(prefix):
                yield from ((prefix + name.partition("{")[0], description) for name, description in addresses or ())
            else:
                yield prefix, "MCP server"


def _load_config(app_dirs: AppDirs) -> Config:
    """Return the configuration. If it is invalid, it is empty: the next run reports the error."""
    with suppress(AskError):
        return read_config(app_dirs.config_file)
    return Config()
