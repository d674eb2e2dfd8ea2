"""One run of `ask`: reads what the user hands over, wires the parts together, and lets the agent work."""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from ask.agent import Agent, Job, Outcome
from ask.calls import CallRunner
from ask.cli.inputs import as_text, compose_prompt, read_file, read_options, read_stdin
from ask.cli.target import Target, choose, cost_counter, first_model, open_exchange
from ask.cli.workspace import Workspace, reporting
from ask.config import Settings, resolve
from ask.errors import FileError, UsageError
from ask.events import CallOutput, Event, Notice
from ask.keys import Secrets
from ask.messages import Message
from ask.prompts import system_prompt
from ask.render.events import JsonRenderer
from ask.render.plain import PlainRenderer
from ask.render.streams import Console, Output
from ask.safety.approval import ask_on_terminal
from ask.safety.audit import AuditLog
from ask.safety.policy import Policy
from ask.tools import Tool, ToolContext, builtin_tools

Renderer = PlainRenderer | JsonRenderer

FIRST_RUN = """\
ask: the model can run commands and change files here, as you could. --confirm asks before it does,
ask: --no-tools keeps it from it, and [tools] in {config} says so for good. (This is said once.)"""


class Question(NamedTuple):
    """Everything that a command line asks for, read and checked."""

    prompt: str
    tools: Sequence[Tool]
    settings: Settings
    target: Target
    secrets: Secrets


def ask(flags: Mapping[str, Any], words: Sequence[str], taken_as_text: Sequence[str]) -> int:
    """Ask what the command line says; return 0.

    Args:
        flags: the options by name.
        words: the prompt's words.
        taken_as_text: words that look like options.

    Raises:
        AskError: what ended the run, after everything that was said is shown.
    """
    workspace = Workspace()
    console = Console(workspace.environment, quiet=flags["quiet"], plain=flags["plain"])
    with reporting(console, verbose=flags["verbose"]):
        if taken_as_text and console.terminal:
            console.line(f"ask: taken as part of the question, not as options: {' '.join(taken_as_text)}")
        question = read_question(flags, words, workspace, console)
        about = {
            "conversation": os.urandom(6).hex(),
            "provider": question.target.name,
            "model": question.target.model,
        }
        renderer: Renderer
        if flags["as_json"] or flags["as_events"]:
            renderer = JsonRenderer(Output(), console, about, lines=flags["as_events"])
        else:
            renderer = PlainRenderer(Output(), console, verbose=flags["verbose"])
        outcome = converse(question, about["conversation"], workspace, renderer.show)
        renderer.finish(outcome)
        if outcome.failure is not None:
            raise outcome.failure
    return 0


def read_question(flags: Mapping[str, Any], words: Sequence[str], workspace: Workspace, console: Console) -> Question:
    """Read all that the run needs, so that nothing is sent before everything makes sense."""
    settings = read_settings(flags, workspace)
    for warning in workspace.config.warnings:
        console.line(f"ask: {warning}")
    tools = choose_tools(settings)
    target = choose(workspace, flags["provider"], flags["model"], flags["base_url"], flags["key"])
    secrets = workspace.secrets(target.key)
    console.redact = secrets.redact
    if not target.model:
        target = target._replace(model=first_model(target, lambda text: console.line(f"ask: {text}"), settings))
    prompt = read_prompt(flags, words, settings, console)
    if tools and console.terminal and not flags["quiet"]:
        tell_once(workspace, console)
    return Question(prompt, tools, settings, target, secrets)


def read_settings(flags: Mapping[str, Any], workspace: Workspace) -> Settings:
    """The settings, with options read that name something else."""
    system = flags["system"] or ""
    read = {
        "option": read_options(map(as_text, flags["options"])),
        "system": read_file(system[1:]) if system.startswith("@") else as_text(system),
    }
    return resolve({**flags, **read}, workspace.environment, workspace.config)


def choose_tools(settings: Settings) -> list[Tool]:
    """The tools to offer.

    Raises:
        UsageError: one is to be left out that does not exist, which would leave the one that was meant.
    """
    tools = builtin_tools()
    names = [tool.spec.name for tool in tools]
    for name in settings.disabled_tools:
        if name not in names:
            nearest = difflib.get_close_matches(name, names, 1)
            raise UsageError(f"there is no tool {name!r} to disable", f"did you mean {(nearest or names)[0]}?")
    return [tool for tool in tools if settings.tools and tool.spec.name not in settings.disabled_tools]


def read_prompt(flags: Mapping[str, Any], words: Sequence[str], settings: Settings, console: Console) -> str:
    """The user's message, from words, files and standard input."""
    files = [(as_text(path), read_file(path)) for path in flags["files"]]
    piped = "" if flags["no_stdin"] else read_stdin(settings.stdin_limit, lambda text: console.line(f"ask: {text}"))
    return compose_prompt(as_text(" ".join(words)), files, piped)


def tell_once(workspace: Workspace, console: Console) -> None:
    """Say, the first time that it is so, that the model can run things."""
    told = workspace.places.data / "told"
    try:
        told.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        told.touch(exist_ok=False)
    except OSError:
        return
    console.line(FIRST_RUN.format(config=workspace.places.config / "config.toml"))


def converse(question: Question, conversation: str, workspace: Workspace, show: Callable[[Event], None]) -> Outcome:
    """Wire the parts together and let the agent work.

    Args:
        question: what to ask.
        conversation: its id.
        workspace: where logs and long results go.
        show: takes the events.
    """
    settings, target, secrets = question.settings, question.target, question.secrets
    directory = working_directory()
    exchange = open_exchange(target, lambda text: show(Notice(text)), settings)
    calls = CallRunner(
        question.tools,
        ToolContext(
            directory=directory,
            environment=secrets.clean_environment(),
            command_timeout=settings.command_timeout,
            spill_directory=workspace.places.data / "results",
            on_output=lambda text: show(CallOutput(secrets.redact(text))),
        ),
        Policy(confirm=settings.confirm, yes=settings.yes),
        approve=ask_on_terminal,
        log=AuditLog(workspace.places.data / "audit.jsonl", conversation, secrets.redact),
        redact=secrets.redact,
        show=show,
    )
    system = partial(
        system_prompt,
        own=settings.system,
        today=date.today(),
        directory=directory,
        environment=workspace.environment,
    )
    specs = [tool.spec for tool in question.tools]
    job = Job(target.model, system, specs, settings.options, settings.stream, settings.max_rounds)
    if settings.max_cost is not None:
        job = job._replace(max_cost=settings.max_cost, cost=cost_counter(target, exchange))
    return Agent(exchange, calls, show).run([Message("user", question.prompt)], job)


def working_directory() -> Path:
    """Where the run takes place.

    Raises:
        FileError: the folder is gone.
    """
    try:
        return Path.cwd()
    except OSError as fault:
        raise FileError(f"the working directory cannot be used ({fault.strerror})", "cd to another one") from fault
