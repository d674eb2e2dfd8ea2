"""A session of an editor: a saved conversation in a folder, and how its next prompt is run."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from acp import schema

from ask.config.options import RunOptions

MODES: Mapping[str, tuple[str, dict[str, Any]]] = {
    "confirm": ("Ask before each tool call that writes or runs something (--confirm)", {"confirm": True}),
    "safe": ("Run tools in a sandbox without asking (--safe)", {"safe": True}),
    "read-only": ("Offer only tools that change nothing", {"read_only_tools": True}),
}
"""The modes with their descriptions and options; the first is the default."""
DEFAULT_MODEL = "default"
"""The value that stands for the model of the options, the conversation or the configuration."""


class Session:
    """A session.

    Attributes:
        id: the ID of its conversation.
        directory: its working directory.
        mcp_servers: the tables of the editor's MCP servers.
        mode: a key of `MODES`.
        model: the model that the user has selected; `DEFAULT_MODEL` for none.
        prompt: the prompt that is being answered; None between prompts.
        is_canceled: whether the user has canceled it.
    """

    def __init__(self, session_id: str, directory: str, mcp_servers: Sequence[Mapping[str, Any]]) -> None:
        self.id = session_id
        self.directory = directory
        self.mcp_servers = mcp_servers
        self.mode = next(iter(MODES))
        self.model = DEFAULT_MODEL
        self.prompt: asyncio.Task[schema.PromptResponse] | None = None
        self.is_canceled = False

    def build_options(self, options: RunOptions, *, is_saved: bool, template: str | None) -> RunOptions:
        """Return the options of the next prompt."""
        conversation = {"resume": self.id} if is_saved else {"new_conversation": self.id}
        changes: dict[str, Any] = MODES[self.mode][1] | conversation
        if options.safe_files:  # stricter than the mode
            changes.pop("safe", None)
        options = options._replace(**changes, mcp_servers=tuple(self.mcp_servers), template=template)
        return options if self.model == DEFAULT_MODEL else options._replace(provider=None, model=self.model)

    def describe_modes(self) -> schema.SessionModeState:
        modes = [schema.SessionMode(id=name, name=name, description=text) for name, (text, _) in MODES.items()]
        return schema.SessionModeState(current_mode_id=self.mode, available_modes=modes)

    def describe_options(self, models: Sequence[str]) -> list[Any]:
        """Return the settings of the session that the user can select in the editor."""
        models = list(dict.fromkeys((DEFAULT_MODEL, *models, self.model)))
        return [
            _create_select("mode", "Mode", self.mode, {name: text for name, (text, _) in MODES.items()}),
            _create_select("model", "Model", self.model, dict.fromkeys(models)),
        ]


def to_server_table(server: Any) -> dict[str, Any]:
    """Convert an MCP server of the editor to a table as in config.toml, with its name.

    The editor has expanded all variables, so a dollar sign is only that.
    """
    if isinstance(server, schema.McpServerStdio):
        return {
            "name": server.name,
            "command": _escape_braced(server.command),
            "args": list(map(_escape_braced, server.args)),
            "env": {variable.name: variable.value.replace("$", "$$") for variable in server.env},
        }
    headers = {header.name: header.value.replace("$", "$$") for header in server.headers}
    return {"name": server.name, "type": server.type, "url": _escape_braced(server.url), "headers": headers}


def _escape_braced(text: str) -> str:
    """Escape the variables that are expanded in every key of a server."""
    return text.replace("${", "$${")


def _create_select(
    option_id: Literal["mode", "model"], name: str, value: str, choices: Mapping[str, str | None]
) -> schema.SessionConfigOptionSelect:
    options = [
        schema.SessionConfigSelectOption(value=choice, name=choice, description=choices[choice]) for choice in choices
    ]
    return schema.SessionConfigOptionSelect(
        id=option_id, name=name, category=option_id, type="select", current_value=value, options=options
    )
