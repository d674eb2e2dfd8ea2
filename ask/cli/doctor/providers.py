"""Checks of the providers: whether their plugins load, have a key, and answer."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from ask.agent.model_selection import Target, base_url_of, needs_key, open_exchange, reached
from ask.agent.workspace import Workspace
from ask.api_keys import stem
from ask.cli.doctor.finding import OK, PROBLEM, Finding
from ask.client.provider_client import Exchange
from ask.errors import AskError, ConfigError
from ask.plugin_api.loader import LoadedProvider
from ask.render.amounts import counted
from ask.settings import Settings

STALL, PATIENCE = 3.0, 3.5
"""Seconds without a sign of life from one provider, and for all of them together."""


class Subject(NamedTuple):
    """A provider that loads.

    Attributes:
        name: what it is chosen by.
        loaded: the plugin.
        origin: the distribution that it is from.
        target: how to reach it; None where it needs a key and has none.
        key: where its key is from; "" for none.
        used: whether the user has set anything up for it, so that it should work.
    """

    name: str
    loaded: LoadedProvider
    origin: str
    target: Target | None
    key: str
    used: bool


def check_providers(workspace: Workspace, *, offline: bool) -> Iterator[Finding]:
    """A finding for each provider; all that may be asked are asked at the same time."""
    findings: dict[str, Finding] = {}
    subjects: dict[str, Subject] = {}
    for name in workspace.names:
        origin = ", ".join(claim.distribution for claim in workspace.claims.get(name, ())) or "config.toml"
        try:
            subjects[name] = subject(workspace, name, origin)
        except ConfigError as error:
            fix = "ask its author, or uninstall it" if origin != "config.toml" else "correct it with ask config edit"
            findings[name] = Finding(PROBLEM, name, str(error), fix)
    aliases = {name for name, one in subjects.items() if name != one.loaded.info.name in subjects}
    asked = {name: one.target for name, one in subjects.items() if one.target and name not in aliases}
    replies = {} if offline else ask_all(asked)
    for name in workspace.names:
        if name in aliases:
            yield Finding(OK, name, f"another name of {subjects[name].loaded.info.name}")
        else:
            yield findings.get(name) or finding(subjects[name], replies.get(name), offline=offline)


def subject(workspace: Workspace, name: str, origin: str) -> Subject:
    """What is known of a provider without asking it.

    Raises:
        ConfigError: it does not load.
    """
    loaded, environment = workspace.load(name), workspace.environment
    info = loaded.info
    key, place = workspace.keys.find(info.name, workspace.key_variables(info.name, info.key_env))
    chosen = (environment.get("ASK_PROVIDER"), workspace.config.get("provider"))
    addresses = (f"{stem(info.name)}_BASE_URL", *info.base_url_env)
    used = bool(key or workspace.config.provider(info.name) or any(environment.get(address) for address in addresses))
    base_url = base_url_of(workspace, info)
    target = None if needs_key(workspace, info, base_url) and not key else reached(loaded, "", base_url, key)
    return Subject(name, loaded, origin, target, place, used or name in chosen)


def ask_all(targets: Mapping[str, Target]) -> dict[str, int | AskError]:
    """The number of models that each provider lists, or why it does not; those that are late are left out."""
    replies: dict[str, int | AskError] = {}
    threads = []
    for name, target in targets.items():
        try:
            exchange = open_exchange(target, lambda _: None, Settings(timeout=STALL, tries=1))
        except AskError as error:
            replies[name] = error
            continue
        # Not an executor, at whose end one would wait for connections that never come about.
        threads.append(threading.Thread(target=count_models, args=(name, exchange, replies), daemon=True))
    for thread in threads:
        thread.start()
    end = time.monotonic() + PATIENCE
    for thread in threads:
        thread.join(max(0.0, end - time.monotonic()))
    return dict(replies)


def count_models(name: str, exchange: Exchange, replies: dict[str, int | AskError]) -> None:
    """Note how many models a provider lists, or why it does not."""
    try:
        replies[name] = len(exchange.models())
    except AskError as error:
        replies[name] = error
    except Exception as fault:  # noqa: BLE001 - a list may hold anything
        replies[name] = AskError(f"{type(fault).__name__}: {fault}", "-v with a question shows where it arose")


def finding(one: Subject, reply: int | AskError | None, *, offline: bool) -> Finding:
    """What there is to say of a provider that loads."""
    info = one.loaded.info
    known = f"{info.title} ({one.origin})"
    if one.target is None:
        variable = (*info.key_env, f"{stem(info.name)}_API_KEY")[0]
        state = PROBLEM if one.used else OK
        return Finding(state, one.name, f"{known}, no key", f"set {variable} or run ask keys set {info.name}")
    known += f", key from {one.key}" if one.key else ", needs no key"
    if offline:
        return Finding(OK, one.name, f"{known}, not asked")
    if isinstance(reply, int):
        listed = f"lists {counted(reply, 'model')}" if reply else "answers"
        return Finding(OK, one.name, f"{known}, {listed}")
    told = reply.brief if reply else f"no whole answer came within {PATIENCE:g} s"
    advice = reply.advice if reply else "check the network and the base URL"
    if one.used:
        return Finding(PROBLEM, one.name, f"{known}, but {told}", advice)
    return Finding(OK, one.name, f"{known}, not running here ({told})", advice)
