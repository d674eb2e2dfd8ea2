"""What the user asked for on a command line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ask.records import NamedTuple

ROW_ARGUMENT = "--run-row"
"""The only argument of the process that runs a row of `ask map --tools`; its options are on standard input as JSON."""
EVENT_SESSION_ARGUMENT = "--run-event-session"
"""The only argument of the process that answers a call to `ask mcp serve`, or a prompt of `ask acp`.

The first line on standard input has its options as JSON; the input of `--input-events` follows.
"""


class RunOptions(NamedTuple):
    """The prompt and the options of one run, as they were given. None means that the settings decide.

    Times are in seconds, costs in US dollars.

    Attributes:
        words: the words of the prompt.
        provider: the provider's name.
        model: a model, provider:model, or an alias.
        fallback: the models to try next.
        base_url: the base URL of the provider.
        key: the API key.
        system: an extra system prompt, or @ and the name of its file.
        files: the files, folders and URLs to attach.
        options: model parameters as KEY=VALUE.
        effort: the reasoning effort, a model parameter.
        template: the name of a template, or the address of a prompt of an MCP server.
        variables: the values of the template's placeholders as NAME=VALUE.
        continue_last: continue the terminal's last conversation.
        resume: the ID of the conversation to continue.
        unanswered: also send the unanswered questions of the conversation.
        no_save: save neither the conversation nor backups.
        no_tools: offer no tools.
        disabled_tools: the names of tools that are not offered.
        context: send the project's instructions and skills without asking.
        no_context: do not send them.
        function_tools: Python functions to offer as tools, as FILE:FUNCTION.
        server_tools: the names of the service's own tools to offer.
        max_rounds: the maximum number of rounds of tool calls.
        max_cost: stop calling tools after this many dollars.
        max_cost_per_day: stop once all runs of a day have cost this many dollars.
        command_timeout: kill a command after this time.
        max_command_timeout: the longest time that a model may give a command.
        confirm: ask before each tool call with side effects.
        yes: approve everything that `confirm` would ask about.
        safe: use safe mode with a sandbox.
        safe_files: use safe mode without commands.
        allow_dirs: further folders that tools may write in safe mode.
        allow_git: make a git repository outside readable in safe mode.
        allow_hosts: the hosts that may be fetched without asking in safe mode.
        allow_command_hosts: the hosts that commands may reach in safe mode.
        allow_tools: tools of plugins and MCP servers that safe mode offers.
        cmd: answer with one shell command.
        code: answer with code only.
        extract: print only the last code block of the answer.
        schema: answer with JSON that matches this schema: its text, its file, or its short form.
        decide: have a decisions API choose the values of the schema's fields, with probabilities.
        as_json: print one JSON object at the end.
        as_events: print events as JSON lines.
        no_stream: print the answer once it is complete.
        plain: no color, layout or animation.
        quiet: print only the final error to standard error.
        usage: print the tokens and cost of the run.
        verbose: show tool results, reasoning and usage.
        record: append requests and answers to this file.
        no_stdin: do not read standard input.
        timeout: stop if no text arrives for this time.
        is_row: this is a row of `ask map`, which has fewer options and no terminal.
        new_conversation: the ID of the conversation to begin.
        read_only_tools: offer only tools that change nothing.
        mcp_servers: tables of further MCP servers, each with its name as the key `name`.
        other_base_urls: further base URLs of a row's provider, to use if the server at `base_url` cannot be reached.
        waits_for_collector: the end of a row waits for the collector of traces, which has answered other rows.
    """

    words: tuple[str, ...] = ()
    provider: str | None = None
    model: str | None = None
    fallback: tuple[str, ...] = ()
    base_url: str | None = None
    key: str | None = None
    system: str | None = None
    files: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    effort: str | None = None
    template: str | None = None
    variables: tuple[str, ...] = ()
    continue_last: bool = False
    resume: str | None = None
    unanswered: bool = False
    no_save: bool = False
    no_tools: bool = False
    disabled_tools: tuple[str, ...] = ()
    context: bool = False
    no_context: bool = False
    function_tools: tuple[str, ...] = ()
    server_tools: tuple[str, ...] = ()
    max_rounds: int | None = None
    max_cost: float | None = None
    max_cost_per_day: float | None = None
    command_timeout: float | None = None
    max_command_timeout: float | None = None
    confirm: bool = False
    yes: bool = False
    safe: bool = False
    safe_files: bool = False
    allow_dirs: tuple[str, ...] = ()
    allow_git: bool = False
    allow_hosts: tuple[str, ...] = ()
    allow_command_hosts: tuple[str, ...] = ()
    allow_tools: tuple[str, ...] = ()
    cmd: bool = False
    code: bool = False
    extract: bool = False
    schema: str | None = None
    decide: bool = False
    as_json: bool = False
    as_events: bool = False
    no_stream: bool = False
    plain: bool = False
    quiet: bool = False
    usage: bool = False
    verbose: bool = False
    record: str | None = None
    no_stdin: bool = False
    timeout: float | None = None
    is_row: bool = False
    new_conversation: str | None = None
    read_only_tools: bool = False
    mcp_servers: tuple[Mapping[str, Any], ...] = ()
    other_base_urls: tuple[str, ...] = ()
    waits_for_collector: bool = True

    def to_json(self) -> str:
        """Return the options as JSON, for another process."""
        import json

        return json.dumps(self._asdict())

    @staticmethod
    def from_json(text: str | bytes) -> RunOptions:
        """Return the options that `to_json` wrote."""
        import json

        values: dict[str, Any] = json.loads(text)
        lists = {name: tuple(value) for name, value in values.items() if isinstance(value, list)}
        return RunOptions(**{**values, **lists})
