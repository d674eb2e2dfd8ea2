"""Completions that the shell scripts cannot know: `ask --complete KIND [WORD [CONTEXT...]]`.

The user is waiting after pressing Tab, so little is imported and the network is not used: an old models list is
refreshed by a background process, for the next time. Static completions are in the scripts themselves.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args
from unicodedata import category

from ask.config.config_file import Config, read_config
from ask.config.directories import AppDirs
from ask.config.settings import SETTINGS, Api, get_default_value, get_kind
from ask.errors import AskError
from ask.profiles import EFFORTS
from ask.regular_files import read_regular_file
from ask.text import format_one_line, repair_surrogates

if TYPE_CHECKING:
    from ask.config.mcp_servers import ServerConfig
    from ask.mcp.completion_cache import AddressKind

SAFE_ASCII = re.compile(r"[A-Za-z0-9_.~/:@+,=%-]*")
MAX_TITLED_ITEMS = 200
"""Maximum number of conversations, jobs or approvals to offer."""
MAX_TITLE_CHARACTERS = 100
LOCK_TIMEOUT_SECONDS = 0.02
"""Seconds to wait for another process that has locked the history."""

BUILTIN_LOADERS = {"gh:": "OWNER/REPO", "git:": "diff, or a revision", "github:": "OWNER/REPO"}
"""The prefixes of the loaders that need no package."""
CompletionItem = tuple[str, str]
"""A word and its description."""


def write_completions(arguments: Sequence[str]) -> int:
    """Write one line per completion: the word, a tab, its description. Return the exit code.

    Errors print nothing: what cannot be read offers no completions.
    """
    kind, word = (*arguments[:2], "", "")[:2]
    lines = [
        f"{value}\t{format_one_line(description, MAX_TITLE_CHARACTERS)}\n"
        for value, description in complete(kind, word, arguments[2:])
        if is_safe_word(value)
    ]
    sys.stdout.buffer.write(repair_surrogates("".join(lines)).encode())
    return 0


def is_safe_word(word: str) -> bool:
    """Check whether a word needs no quoting in a shell: it has letters, digits and marks of any script.

    Models lists come from servers: a word must not put a command substitution on the command line.
    """
    special = SAFE_ASCII.sub("", word)
    if special.isascii():
        return bool(word) and not special
    return all(not char.isascii() and category(char)[0] in "LMN" for char in special)


def complete(kind: str, word: str, words: Sequence[str]) -> Iterator[CompletionItem]:
    """Yield the completions of this kind.

    `words` begins with the value of -p, for values with the configuration key, or is empty; for the arguments of a
    package's command, it is the command's name and the words that follow.

    Those for -f are only the resources of MCP servers and loaders: the shell itself completes files.
    """
    app_dirs, context = AppDirs.from_environment(os.environ), "".join(words[:1])
    if kind in TITLED_KINDS:
        yield from _select_titled(TITLED_KINDS[kind](app_dirs), word)
    elif kind in NAMED_KINDS:
        yield from NAMED_KINDS[kind](app_dirs)
    elif kind == "models":
        yield from complete_models(app_dirs, os.environ, word, context)
    elif kind == "fallbacks":
        # a name without a provider is a model of -p
        environment = {**os.environ, "ASK_PROVIDER": context} if context else os.environ
        yield from complete_models(app_dirs, environment, word, "")
    elif kind == "prompts":
        yield from _complete_templates(app_dirs, word)
        yield from complete_mcp_addresses(app_dirs, "prompts", word)
        yield from complete_loaders(app_dirs, word)
    elif kind == "resources":
        yield from complete_mcp_addresses(app_dirs, "resources", word)
        yield from complete_loaders(app_dirs, word)
    elif kind == "values":
        yield from _complete_values(app_dirs, word, context)
    elif kind == "arguments":
        yield from import_module("ask.cli.plugin_commands").complete_arguments(word, words)


def _complete_providers(app_dirs: AppDirs) -> Iterator[CompletionItem]:
    """Yield the installed providers, then those configured in config.toml, then the services of the table."""
    installed = _read_installed(app_dirs, "providers")
    yield from sorted(installed.items())
    for name, table in _load_config(app_dirs).providers.items():
        if name not in installed and "base_url" in table:
            installed[name] = "config.toml"
            yield name, "config.toml"
    services = import_module("ask_providers.services").SERVICES  # without the modules that load plugins
    yield from ((name, row["title"]) for name, row in services.items() if name not in installed)


def _read_installed(app_dirs: AppDirs, kind: Literal["providers", "loaders", "commands"]) -> dict[str, str]:
    """Return the names that plugins offer of a kind, and their distributions, from the last run's index."""
    file = app_dirs.cache / "plugins.json"
    try:
        rows = json.loads(read_regular_file(file))[kind]
        return {str(name): str(distribution) for name, _, distribution in rows}
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        from ask.plugin_api.installed_plugins import find_plugins

        entries = getattr(find_plugins(file), kind).values()
        return {entry.name: entry.distribution for entry, *_ in entries}


def complete_loaders(app_dirs: AppDirs, word: str) -> Iterator[CompletionItem]:
    """Yield the prefixes of loaders, for -f and -t. What follows a prefix only its loader knows."""
    if ":" in word:
        return
    yield from BUILTIN_LOADERS.items()
    for name, distribution in sorted(_read_installed(app_dirs, "loaders").items()):
        if f"{name}:" not in BUILTIN_LOADERS:
            yield f"{name}:", distribution


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
    prefix, colon, _ = incomplete.partition(":")
    if colon and any(name == prefix for name, _ in _complete_providers(app_dirs)):
        yield from ((f"{prefix}:{model}", "") for model in list_model_ids(app_dirs, prefix))
        return
    config, providers = _load_config(app_dirs), dict(_complete_providers(app_dirs))
    yield from config.aliases.items()
    yield from ((f"{name}:", distribution) for name, distribution in providers.items())
    default_provider = environment.get("ASK_PROVIDER") or config.get("provider")
    if not default_provider:
        from ask.agent.provider_selection import find_default_provider

        default_provider = find_default_provider(environment)
    if default_provider in providers:
        yield from ((model, "") for model in list_model_ids(app_dirs, str(default_provider)))


def list_model_ids(app_dirs: AppDirs, provider: str) -> list[str]:
    """List the model ids in a provider's cache. An old list is refreshed in the background."""
    from ask.client.models_cache import REMOTE_LIST_SECONDS, find_newest_file, read_models, refresh_in_background

    file = find_newest_file(app_dirs.cache, provider)
    cached = read_models(file)
    if cached.age > REMOTE_LIST_SECONDS:
        refresh_in_background(file, provider)
    return [model.id for model in cached.models]


def _select_titled(items: Iterable[CompletionItem], word: str) -> Iterator[CompletionItem]:
    """Yield the items whose id begins with a word; if there are none, those whose title contains it."""
    found = list(items)
    by_id = [item for item in found if item[0].startswith(word)]
    by_title = (item for item in found if word.casefold() in item[1].casefold())
    yield from islice(by_id or by_title, MAX_TITLED_ITEMS)


def _list_conversations(app_dirs: AppDirs) -> Iterator[CompletionItem]:
    """Yield the conversations with their titles, newest first. A locked history is not waited for."""
    from ask.history.store import Store

    query = "SELECT id, title FROM conversations ORDER BY updated DESC, number DESC"
    with suppress(AskError), Store(app_dirs.history_file, create=False, lock_timeout=LOCK_TIMEOUT_SECONDS) as store:
        yield from ((str(number), str(title)) for number, title in store.fetch_rows(query))


def _list_jobs(app_dirs: AppDirs) -> Iterator[CompletionItem]:
    """Yield the jobs of `ask map` with their prompts, newest first."""
    import sqlite3

    location = f"{app_dirs.ledger_file.as_uri()}?mode=ro"
    with suppress(sqlite3.Error), closing(sqlite3.connect(location, LOCK_TIMEOUT_SECONDS, uri=True)) as connection:
        for job, prompt in connection.execute("SELECT id, prompt FROM jobs ORDER BY updated DESC"):
            yield str(job), str(prompt)


def _list_approvals(app_dirs: AppDirs) -> Iterator[CompletionItem]:
    from ask.safety.approval_store import ApprovalStore

    with suppress(AskError):
        for approval in ApprovalStore(app_dirs.approvals_file).read():
            yield approval.id, f"{approval.scope.value} {approval.value}"


def _complete_templates(app_dirs: AppDirs, word: str = "") -> Iterator[CompletionItem]:
    """Yield the templates: the user's own and those that come with the program; for NAME:, the tasks of one."""
    from ask.templates.template import list_template_files, read_template

    name, colon, _ = word.partition(":")
    with suppress(AskError):
        files = list_template_files(app_dirs.templates)
        if colon and name in files:
            for task, prompt in read_template(files[name]).tasks.items():
                yield f"{name}:{task}", prompt
        elif not colon:
            for name, file in files.items():
                yield name, "yours" if file.is_relative_to(app_dirs.config) else ""


def _complete_servers(app_dirs: AppDirs) -> Iterator[CompletionItem]:
    for server in _list_servers(app_dirs):
        yield server.name, "" if server.enabled else "disabled"


def _list_servers(app_dirs: AppDirs) -> Iterator[ServerConfig]:
    from ask.mcp.server_config import find_servers

    with suppress(AskError):
        yield from find_servers(_load_config(app_dirs), app_dirs.config).servers.values()


def _complete_skills(app_dirs: AppDirs) -> Iterator[CompletionItem]:
    """Yield the skills of the project and the user's own."""
    from ask.project.skills import find_project_skills, find_user_skills

    with suppress(AskError, OSError):
        shared_folders = _load_config(app_dirs).get("skills.folders", ())
        project_skills = find_project_skills(Path.cwd(), shared_folders)
        for skill in (*project_skills, *find_user_skills(app_dirs.skills, shared_folders)):
            yield skill.name, skill.problem or skill.description


def _complete_values(app_dirs: AppDirs, word: str, key: str) -> Iterator[CompletionItem]:
    """Yield values for a key of config.toml; for a list, with the values before the last comma."""
    is_list = key in SETTINGS and get_kind(SETTINGS[key].type) is list
    before = word[: word.rfind(",") + 1] if is_list else ""
    for value, description in _list_values(app_dirs, word.removeprefix(before), key):
        yield before + value, description


def _list_values(app_dirs: AppDirs, word: str, key: str) -> Iterable[CompletionItem]:
    """Return values for a key, or for an item of its list."""
    table, _, name = key.rpartition(".")
    if key == "provider":
        return _complete_providers(app_dirs)
    if key in ("model", "fallback") or table == "aliases":
        return complete_models(app_dirs, os.environ, word, "")
    if table.startswith("providers.") and name == "model":
        return complete_models(app_dirs, os.environ, word, table.removeprefix("providers."))
    values: Iterable[str] = ()
    if key in ("tools.disabled", "tools.allow", "tools.deny"):
        from ask.tools.definitions import BUILTIN_TOOLS, SEARCH_WEB

        values = [*(tool.spec.name for tool in BUILTIN_TOOLS), SEARCH_WEB.name]
    elif name == "reasoning_effort":
        values = EFFORTS
    elif table.startswith("providers.") and name == "api":
        values = get_args(Api)
    elif key in SETTINGS and get_kind(SETTINGS[key].type) in (int, float):
        default = get_default_value(key)
        return [] if default is None else [(f"{default:.10g}", "default")]
    elif key in SETTINGS:
        hint = SETTINGS[key].type
        values = ("true", "false") if hint is bool else get_args(hint) if get_kind(hint) is Literal else ()
    return [(value, "") for value in values]


def complete_mcp_addresses(app_dirs: AppDirs, kind: AddressKind, incomplete: str) -> Iterator[CompletionItem]:
    """Yield the addresses of MCP servers, or of what a server listed last once its name is complete.

    No server is started. The URI of a template ends before its first placeholder.
    """
    from ask.inputs.file_option import MCP_PREFIX
    from ask.mcp.completion_cache import read_addresses

    for server in _list_servers(app_dirs):
        addresses = read_addresses(app_dirs.cache, server.name, kind)
        prefix = f"{MCP_PREFIX}{server.name}/"
        if not server.enabled or addresses == []:
            continue
        if incomplete.startswith(prefix):
            yield from ((prefix + name.partition("{")[0], description) for name, description in addresses or ())
        else:
            yield prefix, "MCP server"


TITLED_KINDS = {"conversations": _list_conversations, "jobs": _list_jobs, "approvals": _list_approvals}
"""Kinds whose ids are also found by the titles that describe them."""
NAMED_KINDS = {
    "commands": lambda app_dirs: sorted(_read_installed(app_dirs, "commands").items()),
    "providers": _complete_providers,
    "templates": _complete_templates,
    "servers": _complete_servers,
    "skills": _complete_skills,
}
"""Kinds whose completions do not depend on the word."""


def _load_config(app_dirs: AppDirs) -> Config:
    """Return the configuration. If it is invalid, it is empty: the next run reports the error."""
    with suppress(AskError):
        return read_config(app_dirs.config_file)
    return Config()
