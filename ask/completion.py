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

from ask.atomic_files import PRIVATE_FILE, create_private_folder
from ask.errors import AskError
from ask.settings import Places, read_toml
from ask.text import mend, one_line

SAFE = re.compile(r"[A-Za-z0-9_.~/:@+,=%-]+")
"""What a shell takes as it is: others' lists must not put a command substitution on the line."""
MOST_CONVERSATIONS = 200
LONGEST_TITLE = 100
DAY, RETRY = 86_400.0, 600.0
"""Seconds for which a models list is good, and after which one that did not come is asked for again."""
PATIENCE = 0.02
"""Seconds to wait for a process that keeps the history to itself."""

Word = tuple[str, str]
"""A word, and what it stands for."""


def write_words(arguments: Sequence[str], environment: Mapping[str, str] = os.environ) -> int:
    """Write a line for each word: the word, a tab, what it stands for. Returns the exit code.

    Where something cannot be read, there is nothing to offer, and nothing is said.
    """
    kind, word, provider, *_ = (*arguments, "", "", "")
    places = Places.find(environment)
    words = KINDS[kind](places, environment, word, provider) if kind in KINDS else iter(())
    lines = [f"{value}\t{one_line(about, LONGEST_TITLE)}\n" for value, about in words if SAFE.fullmatch(value)]
    sys.stdout.buffer.write(mend("".join(lines)).encode())
    return 0


def providers(places: Places, *_: object) -> Iterator[Word]:
    """The providers: installed, and described in config.toml."""
    installed = rows_of(places.cache / "plugins.json")
    yield from ((name, distribution) for name, _, distribution in sorted(installed))
    known = {name for name, _, _ in installed}
    for name, described in table(configuration(places), "providers").items():
        if name not in known and isinstance(described, dict) and "base_url" in described:
            yield name, "config.toml"


def rows_of(cache: Path) -> list[list[str]]:
    """Name, target and distribution of each installed provider, as the last run found them."""
    try:
        return [[str(part) for part in row] for row in json.loads(cache.read_bytes())["rows"] if len(row) == 3]
    except (OSError, ValueError, KeyError, TypeError):
        from ask.plugin_api.loader import find_claims

        return [list(claim) for claims in find_claims(cache).values() for claim in claims]


def models(places: Places, environment: Mapping[str, str], word: str, provider: str) -> Iterator[Word]:
    """What -m takes: with a provider its models, else aliases, provider: and, after that, provider:model.

    Beside them, without a provider, stand the models of the one that environment or config.toml names.
    """
    if provider:
        yield from ((model, "") for model in listed(places, provider))
        return
    names = dict(providers(places))
    prefix, colon, _ = word.partition(":")
    if colon and prefix in names:
        yield from ((f"{prefix}:{model}", "") for model in listed(places, prefix))
        return
    config = configuration(places)
    yield from ((alias, str(model)) for alias, model in table(config, "aliases").items())
    yield from ((f"{name}:", distribution) for name, distribution in names.items())
    usual = environment.get("ASK_PROVIDER") or config.get("provider")
    if usual in names:
        yield from ((model, "") for model in listed(places, str(usual)))


def listed(places: Places, provider: str) -> list[str]:
    """The ids of a provider's models as they were listed last; an old list is fetched anew behind the user's back."""
    from ask.client.models_cache import newest_file, read_models

    file = newest_file(places.cache, provider)
    kept = read_models(file)
    if kept.age > DAY:
        fetch_later(file.with_suffix(".asked"), provider)
    return [model.id for model in kept.models]


def fetch_later(stamp: Path, provider: str) -> None:
    """Have the models list fetched by another process, unless that was tried just now; never wait for it."""
    with suppress(OSError):
        create_private_folder(stamp.parent)
        if stamp.exists() and 0 <= time.time() - stamp.stat().st_mtime < RETRY:
            return
        stamp.touch(PRIVATE_FILE)
        from subprocess import DEVNULL, Popen

        # -P, since Python would look for modules in this folder, which may be anyone's.
        command = [sys.executable, "-P", "-m", "ask", "models", "-p", provider]
        Popen(command, stdin=DEVNULL, stdout=DEVNULL, stderr=DEVNULL, start_new_session=True)


def conversations(places: Places, *_: object) -> Iterator[Word]:
    """The newest conversations with their titles; the history is only read, and never waited for."""
    from ask.history.store import Store

    query = "SELECT id, title FROM conversations ORDER BY updated DESC, number DESC LIMIT ?"
    with suppress(AskError), Store(places.history, create=False, patience=PATIENCE) as store:
        yield from ((str(number), str(title)) for number, title in store.rows(query, (MOST_CONVERSATIONS,)))


def templates(places: Places, *_: object) -> Iterator[Word]:
    """The named prompts: the user's own, and those that come with the program."""
    from ask.templates.files import find_all

    with suppress(AskError):
        for name, file in find_all(places.config / "prompts").items():
            yield name, "yours" if file.is_relative_to(places.config) else ""


def configuration(places: Places) -> Mapping[str, Any]:
    """What config.toml says; nothing where it makes no sense, of which a run will tell."""
    try:
        return read_toml(places.config / "config.toml")
    except AskError:
        return {}


def table(config: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """A table of config.toml; an empty one where it is none."""
    value = config.get(name)
    return value if isinstance(value, dict) else {}


KINDS: Mapping[str, Callable[[Places, Mapping[str, str], str, str], Iterator[Word]]] = {
    "providers": providers,
    "models": models,
    "conversations": conversations,
    "templates": templates,
}
