"""The words that Tab asks for and the completion scripts cannot know: `ask --complete KIND [WORD [PROVIDER]]`.

Somebody waits for a key meanwhile, so little is loaded and no network is used: a models list that is old is fetched
by a process of its own, for the next time. What is known without Python stands in the scripts themselves.
"""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from ask.atomic_files import PRIVATE_FILE_MODE, create_private_folder
from ask.errors import AskError
from ask.settings import AppDirs, read_toml
from ask.text import format_one_line, repair_surrogates

SAFE_WORD = re.compile(r"[A-Za-z0-9_.~/:@+,=%-]+")
"""What a shell takes as it is: others' lists must not put a command substitution on the line."""
MAX_CONVERSATIONS = 200
MAX_TITLE_LENGTH = 100
MODELS_MAX_AGE, MODELS_RETRY_INTERVAL = 86_400.0, 600.0
"""Seconds for which a models list is good, and after which one that did not come is asked for again."""
LOCK_TIMEOUT = 0.02
"""Seconds to wait for a process that keeps the history to itself."""

CompletionItem = tuple[str, str]
"""A word, and what it stands for."""


def write_completions(arguments: Sequence[str], environment: Mapping[str, str] = os.environ) -> int:
    """Write a line for each word: the word, a tab, what it stands for. Returns the exit code.

    Where something cannot be read, there is nothing to offer, and nothing is said.
    """
    kind, word, provider, *_ = (*arguments, "", "", "")
    places = AppDirs.from_environment(environment)
    words = COMPLETERS[kind](places, environment, word, provider) if kind in COMPLETERS else iter(())
    lines = [
        f"{value}\t{format_one_line(about, MAX_TITLE_LENGTH)}\n" for value, about in words if SAFE_WORD.fullmatch(value)
    ]
    sys.stdout.buffer.write(repair_surrogates("".join(lines)).encode())
    return 0


def complete_providers(app_dirs: AppDirs, *_: object) -> Iterator[CompletionItem]:
    """The providers: installed, and described in config.toml."""
    installed = read_provider_rows(app_dirs.cache / "plugins.json")
    yield from ((name, distribution) for name, _, distribution in sorted(installed))
    known = {name for name, _, _ in installed}
    for name, described in get_table(load_config_values(app_dirs), "providers").items():
        if name not in known and isinstance(described, dict) and "base_url" in described:
            yield name, "config.toml"


def read_provider_rows(cache_file: Path) -> list[list[str]]:
    """Name, target and distribution of each installed provider, as the last run found them."""
    try:
        return [[str(part) for part in row] for row in json.loads(cache_file.read_bytes())["rows"] if len(row) == 3]
    except (OSError, ValueError, KeyError, TypeError):
        from ask.plugin_api.loader import find_provider_entries

        return [list(claim) for claims in find_provider_entries(cache_file).values() for claim in claims]


def complete_models(
    app_dirs: AppDirs, environment: Mapping[str, str], incomplete: str, provider: str
) -> Iterator[CompletionItem]:
    """What -m takes: with a provider its models, else aliases, provider: and, after that, provider:model.

    Beside them, without a provider, stand the models of the one that environment or config.toml names.
    """
    if provider:
        yield from ((model, "") for model in list_model_ids(app_dirs, provider))
        return
    names = dict(complete_providers(app_dirs))
    prefix, colon, _ = incomplete.partition(":")
    if colon and prefix in names:
        yield from ((f"{prefix}:{model}", "") for model in list_model_ids(app_dirs, prefix))
        return
    config = load_config_values(app_dirs)
    yield from ((alias, str(model)) for alias, model in get_table(config, "aliases").items())
    yield from ((f"{name}:", distribution) for name, distribution in names.items())
    usual = environment.get("ASK_PROVIDER") or config.get("provider")
    if usual in names:
        yield from ((model, "") for model in list_model_ids(app_dirs, str(usual)))


def list_model_ids(app_dirs: AppDirs, provider: str) -> list[str]:
    """The ids of a provider's models as they were listed last; an old list is fetched anew behind the user's back."""
    from ask.client.models_cache import find_newest_file, read_models

    file = find_newest_file(app_dirs.cache, provider)
    kept = read_models(file)
    if kept.age > MODELS_MAX_AGE:
        refresh_models_in_background(file.with_suffix(".asked"), provider)
    return [model.id for model in kept.models]


def refresh_models_in_background(stamp_file: Path, provider: str) -> None:
    """Have the models list fetched by another process, unless that was tried just now; never wait for it."""
    with suppress(OSError):
        create_private_folder(stamp_file.parent)
        if stamp_file.exists() and 0 <= time.time() - stamp_file.stat().st_mtime < MODELS_RETRY_INTERVAL:
            return
        stamp_file.touch(PRIVATE_FILE_MODE)
        from subprocess import DEVNULL, Popen

        # -P, since Python would look for modules in this folder, which may be anyone's.
        command = [sys.executable, "-P", "-m", "ask", "models", "-p", provider]
        Popen(command, stdin=DEVNULL, stdout=DEVNULL, stderr=DEVNULL, start_new_session=True)


def complete_conversations(app_dirs: AppDirs, *_: object) -> Iterator[CompletionItem]:
    """The newest conversations with their titles; the history is only read, and never waited for."""
    from ask.history.store import Store

    query = "SELECT id, title FROM conversations ORDER BY updated DESC, number DESC LIMIT ?"
    with suppress(AskError), Store(app_dirs.history_file, create=False, lock_timeout=LOCK_TIMEOUT) as store:
        yield from ((str(number), str(title)) for number, title in store.fetch_rows(query, (MAX_CONVERSATIONS,)))


def complete_templates(app_dirs: AppDirs, *_: object) -> Iterator[CompletionItem]:
    """The named prompts: the user's own, and those that come with the program."""
    from ask.templates.files import list_template_files

    with suppress(AskError):
        for name, file in list_template_files(app_dirs.config / "prompts").items():
            yield name, "yours" if file.is_relative_to(app_dirs.config) else ""


def load_config_values(app_dirs: AppDirs) -> Mapping[str, Any]:
    """What config.toml says; nothing where it makes no sense, of which a run will tell."""
    try:
        return read_toml(app_dirs.config / "config.toml")
    except AskError:
        return {}


def get_table(config: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """A table of config.toml; an empty one where it is none."""
    value = config.get(name)
    return value if isinstance(value, dict) else {}


COMPLETERS: Mapping[str, Callable[[AppDirs, Mapping[str, str], str, str], Iterator[CompletionItem]]] = {
    "providers": complete_providers,
    "models": complete_models,
    "conversations": complete_conversations,
    "templates": complete_templates,
}
