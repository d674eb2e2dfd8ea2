"""`ask hooks`: list the hooks of config.toml, and try them."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import Any

import click

from ask.agent.toolset import Toolset
from ask.app import AppContext
from ask.cli.click_helpers import JSON_OPTION, TEXT, CommandGroup, print_text
from ask.config.directories import get_working_directory
from ask.config.hooks import TOOL_EVENTS, parse_hooks
from ask.errors import SafetyError, UsageError
from ask.hooks.claude_code import CLAUDE_EVENTS
from ask.hooks.hook_runner import HookRunner, prepare_hooks
from ask.messages import ToolSpec
from ask.render.table import write_table
from ask.text import format_suggestion
from ask.tools.arguments import parse_arguments
from ask.tools.base import Tool, ToolError, ToolResult


@click.group("hooks", cls=CommandGroup)
def command() -> None:
    """List and try the commands that run at events of a run. Without a command, list them."""


@command.command("list", short_help="List the hooks of config.toml.")
@JSON_OPTION
def list_command(*, as_json: bool) -> None:
    """List the hooks of config.toml, in the order in which they run."""
    app = AppContext()
    rows = [
        {
            "event": hook.event,
            "matcher": list(hook.matchers) if as_json else ", ".join(hook.matchers),
            "timeout": hook.timeout if as_json else f"{hook.timeout:g} s",
            "sandbox": hook.sandbox,
            "command": app.collect_secrets().redact(hook.command),
        }
        for hook in parse_hooks(app.app_dirs.config_file, app.config.values.get("hooks", []))
    ]
    empty = f"no hooks; add [[hooks]] to {app.app_dirs.config_file}"
    write_table(rows, as_json=as_json, empty=empty, optional=("sandbox", "timeout", "matcher"))


@command.command("test", short_help="Run the hooks for an event, and print what they decide.")
@click.argument("event", metavar="EVENT", type=TEXT)
@click.argument("tool", metavar="[TOOL]", type=TEXT, default="")
@click.argument("arguments", metavar="[ARGUMENTS]", type=TEXT, default="")
def test_command(*, event: str, tool: str, arguments: str) -> None:
    """Run the hooks for an event, outside the sandbox, and print what they decide.

    EVENT is run_start, before_tool, after_tool, run_end or notification. For events of tools, TOOL is a tool's name,
    and ARGUMENTS are its arguments as JSON: ask hooks test before_tool bash '{"command": "git push"}'

    The exit code is 8 if a hook refuses the run or the call.
    """
    app = AppContext()
    with app.redact_errors(verbose=False):
        if event not in CLAUDE_EVENTS:
            hint = format_suggestion(event, CLAUDE_EVENTS, f"the events are {', '.join(CLAUDE_EVENTS)}")
            raise UsageError(f"{event!r} is not an event", hint)
        if (event in TOOL_EVENTS) != bool(tool):
            needs = "needs a tool" if event in TOOL_EVENTS else "has no tool"
            raise UsageError(f"{event} {needs}", "see ask hooks test --help")
        prepared = prepare_hooks(app)
        description = {"session_id": "", "provider": "", "model": "", "safe_mode": "", "permission_mode": "default"}
        hooks = HookRunner(
            prepared, get_working_directory(), app.collect_secrets(), description, app.console.print_notice
        )
        if event in TOOL_EVENTS:
            print_text(_test_tool_event(event, _find_tool(tool, app), arguments, hooks))
            return
        tests: dict[str, Callable[[], None]] = {
            "run_start": partial(hooks.start_run, "a test"),
            "run_end": partial(hooks.end_run, 0, "", "a test"),
            "notification": partial(hooks.report_notification, "a test"),
        }
        tests[event]()
        print_text(f"{event}: no objection")


def _find_tool(name: str, app: AppContext) -> Tool:
    """Return the tool of a name; one that is not offered here, such as that of an MCP server, accepts any arguments."""
    tools = Toolset(app, ()).select_tools(app.read_settings(), None)
    origin = "mcp:test" if "__" in name else "test"
    any_tool = Tool(ToolSpec(name, "", {"type": "object"}), lambda *_: ToolResult(""), origin=origin)
    return next((tool for tool in tools if tool.spec.name == name), any_tool)


def _test_tool_event(event: str, tool: Tool, arguments_json: str, hooks: HookRunner) -> str:
    """Run the hooks for a call, and describe what they decide.

    Raises:
        UsageError: the arguments do not fit the tool.
        SafetyError: a hook refuses the call.
    """
    try:
        arguments: dict[str, Any] = parse_arguments(tool.spec, arguments_json)
    except ToolError as error:
        raise UsageError(str(error), "see ask tools, and quote the JSON for the shell") from None
    if event == "after_tool":
        comment = hooks.report_result("test", tool, arguments, ToolResult("a test"))
        return f"after_tool: the model is told: {comment}" if comment else "after_tool: no objection"
    checked = hooks.check_call("test", tool, arguments)
    if checked.denial:
        raise SafetyError(f"the hook {checked.denied_by} refuses the call ({checked.denial})")
    if checked.arguments != arguments:
        return f"before_tool: the arguments become {json.dumps(checked.arguments, ensure_ascii=False)}"
    return f"before_tool: {checked.question} asks the user" if checked.question else "before_tool: no objection"
