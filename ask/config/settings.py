"""The settings: one definition for each, from which options, help and the checks of config.toml are derived."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Any, Literal

from ask.records import MAX_NUMBER, POSITIVE_INTEGER, POSITIVE_NUMBER, Constraint, NamedTuple

SECONDS_PER_UNIT = {"s": 1, "m": 60, "min": 60, "h": 3_600, "d": 86_400}
SECONDS_PER_UNIT |= {"w": 7 * 86_400, "mo": 30 * 86_400, "y": 365 * 86_400}


def convert_to_seconds(text: str) -> float:
    """Convert a number of seconds, or a time such as "90s" or "1h30m".

    Raises:
        ValueError: the text is neither.
    """
    if not re.fullmatch(r"(?:[0-9]+(?:\.[0-9]+)?(?:min|mo|[smhdwy]))+", text):
        return float(text)
    parts = re.findall("([0-9.]+)([a-z]+)", text)
    return sum(float(number) * SECONDS_PER_UNIT[unit] for number, unit in parts)


PositiveInt = Annotated[int, POSITIVE_INTEGER]
PositiveFloat = Annotated[float, POSITIVE_NUMBER]
PositiveSeconds = Annotated[
    float,
    POSITIVE_NUMBER._replace(
        description=f"a positive number of seconds, at most {MAX_NUMBER}, or a time such as 5m",
        convert=convert_to_seconds,
    ),
]


class Setting(NamedTuple):
    """A key of config.toml, and what overrides it.

    Attributes:
        type: of its value, a type hint.
        description: for lists of settings.
        field: the field of `Settings` that it sets; "" for none.
        option: the field of `RunOptions` that sets it for one run, if it is not `field`. One that begins with "no_" is
            the opposite.
        variable: the environment variable; "" for none.
    """

    type: Any
    description: str
    field: str = ""
    option: str = ""
    variable: str = ""


def get_kind(hint: Any) -> Any:
    """Return what the type of a setting narrows down: str, int, float, bool, list, or Literal for certain strings."""
    return getattr(hint, "__origin__", hint)


COMMAND_SECONDS, MAX_COMMAND_SECONDS = 30.0, 600.0
"""How many seconds a command may take, and how many a model may give it, by default."""
NonNegativeFloat = Annotated[
    float, Constraint(f"a number from 0 to {MAX_NUMBER}", lambda number: 0 <= number <= MAX_NUMBER)
]
NonNegativeSeconds = Annotated[
    float,
    Constraint(
        f"a number of seconds from 0 to {MAX_NUMBER}, or a time such as 5m",
        lambda seconds: 0 <= seconds <= MAX_NUMBER,
        convert_to_seconds,
    ),
]
EngineName = Literal["brave", "tavily", "duckduckgo"]
SANDBOX_LEVEL, FILES_LEVEL = "sandbox", "files"
"""The levels of safe mode: a kernel sandbox, or no commands and path checks in the file tools."""
SAFE_OPTIONS = {SANDBOX_LEVEL: "--safe", FILES_LEVEL: "--safe-files"}
"""The option for each level."""
SafeLevel = Literal["sandbox", "files"]
PipedTools = Literal["all", "read-only", "none"]
"""The tools that are offered if there are data on standard input."""
Notifications = Literal["auto", "osc9", "osc777", "bell", "none"]
"""How the terminal is notified: as it is known to support, with an escape sequence, with the bell, or not at all."""
FooterMode = Literal["auto", "always", "never"]
CLAUDE_SKILLS_FOLDER = ".claude/skills"
"""The folder in a project with skills for Claude Code."""
SHARED_SKILLS_FOLDERS = (f"~/{CLAUDE_SKILLS_FOLDER}", "~/.codex/skills", "~/.agents/skills", CLAUDE_SKILLS_FOLDER)
"""The folders of other programs that the user is asked about: in the home directory, and in projects."""
SkillsFolder = Annotated[
    str,
    Constraint(
        f"an absolute path, a path that begins with ~/, or {CLAUDE_SKILLS_FOLDER}",
        lambda name: name.startswith(("/", "~/")) or name == CLAUDE_SKILLS_FOLDER,
    ),
]
Api = Literal["responses", "chat", "messages", "gemini"]
"""The APIs of services without a plugin: OpenAI's two, Anthropic's and Gemini's. Plugins have OpenAI's or their own."""

SETTINGS = {
    "provider": Setting(str, "default provider", variable="ASK_PROVIDER"),
    "model": Setting(str, "default model", variable="ASK_MODEL"),
    "fallback": Setting(list[str], "models to try in turn if the model cannot answer", "fallback"),
    "system": Setting(str, "extra system prompt", "system"),
    "max_rounds": Setting(PositiveInt, "maximum rounds of tool calls", "max_rounds"),
    "max_cost": Setting(PositiveFloat, "stop calling tools after this many US dollars", "max_cost"),
    "max_cost_per_day": Setting(
        PositiveFloat, "stop once all runs of a day have cost this many US dollars", "max_cost_per_day"
    ),
    "timeout": Setting(PositiveSeconds, "stop if no text arrives for this many seconds (300; 900 for xai)", "timeout"),
    "stream": Setting(bool, "print the answer while it arrives", "stream", "no_stream"),
    "stdin_limit": Setting(PositiveInt, "maximum size of stdin in bytes", "stdin_limit"),
    "footer": Setting(FooterMode, "name the conversation below answers: auto, always or never", "footer"),
    "context_limit": Setting(PositiveInt, "maximum tokens of a conversation to send", "context_limit"),
    "notifications": Setting(
        Notifications, "signal after 30 s, or for a question: auto, osc9, osc777, bell or none", "notifications"
    ),
    "server_tools": Setting(list[str], "the provider's own tools to offer, such as web_search", "server_tools"),
    "tools.enabled": Setting(bool, "offer tools to the model", "tools", "no_tools", "ASK_TOOLS"),
    "tools.disabled": Setting(list[str], "do not offer these tools", "disabled_tools"),
    "tools.piped": Setting(PipedTools, "tools to offer with data on stdin: all, read-only or none", "piped_tools"),
    "tools.command_timeout": Setting(PositiveSeconds, "kill a command after this many seconds", "command_timeout"),
    "tools.max_command_timeout": Setting(
        PositiveSeconds, "longest time that a model may give a command, in seconds", "max_command_timeout"
    ),
    "tools.confirm": Setting(bool, "ask before each tool call with side effects", "confirm"),
    "tools.allow": Setting(list[str], "commands and tools that --confirm does not ask about", "allow"),
    "tools.deny": Setting(list[str], "commands and tools to refuse", "deny"),
    "history.enabled": Setting(bool, "save conversations and file backups", "save", "no_save"),
    "search.engine": Setting(EngineName, "search engine: brave, tavily or duckduckgo", "search_engine"),
    "mcp.files": Setting(list[str], "JSON files with further MCP servers", "mcp_files"),
    "safe.enabled": Setting(bool, "use safe mode in every run", "safe", variable="ASK_SAFE"),
    "safe.level": Setting(SafeLevel, "safe mode: sandbox, or files (no commands)", "safe_level"),
    "safe.allow_dirs": Setting(list[str], "safe mode: further folders that tools may write", "allow_dirs"),
    "safe.allow_git": Setting(bool, "safe mode: make a git repository outside readable", "allow_git"),
    "safe.allow_hosts": Setting(list[str], "safe mode: hosts that may be fetched without asking", "allow_hosts"),
    "safe.allow_command_hosts": Setting(
        list[str], "safe mode: hosts that commands may reach over HTTPS", "allow_command_hosts"
    ),
    "safe.allow_tools": Setting(list[str], "safe mode: tools of plugins and MCP servers to allow", "allow_tools"),
    "safe.environment": Setting(
        list[str], "safe mode: environment variables that commands may see", "safe_environment"
    ),
    "context.files": Setting(list[str], "file names of project instructions", "context_files"),
    "skills.folders": Setting(
        list[SkillsFolder], "folders of other programs whose skills are offered", "skill_folders"
    ),
    "media_dir": Setting(str, "folder for the images that models generate", "media_dir"),
    "attachments.keep_location": Setting(bool, "send the position in photos", "keep_location"),
    "traces": Setting(bool, "send traces with OpenTelemetry", "traces", variable="ASK_OTEL"),
    "trace_content": Setting(bool, "traces contain messages, arguments and results", "trace_content"),
    "network.tries": Setting(PositiveInt, "maximum tries for a request", "tries"),
    "network.backoff": Setting(NonNegativeSeconds, "seconds before the first retry", "backoff"),
}
"""The settings by key, besides the tables `aliases`, `options`, `providers` and `mcp.servers`."""


OPTION_RANGES: dict[str, tuple[float, float]] = {
    "temperature": (0, 2),
    "top_p": (0, 1),
    "min_p": (0, 1),
    "frequency_penalty": (-2, 2),
    "presence_penalty": (-2, 2),
    "max_tokens": (1, float("inf")),
    "max_completion_tokens": (1, float("inf")),
    "top_k": (0, float("inf")),
}
"""Model options whose range is the same for every provider that supports them."""
UNSET_OPTION = ""
"""The value of an option that a setting or a template sets, and the command line unsets, as in `-o temperature=`."""


class Settings(NamedTuple):
    """The settings of a run.

    Command line options override the environment, which overrides the configuration. Times are in seconds, sizes in
    bytes, costs in US dollars, the context limit in tokens. Without a timeout, the provider's own default applies.
    """

    fallback: tuple[str, ...] = ()
    system: str = ""
    options: Mapping[str, Any] = MappingProxyType({})
    given_options: frozenset[str] = frozenset()
    """The names of the options that the command line sets: unlike others, they are not left out if a model refuses."""
    tools: bool = True
    disabled_tools: frozenset[str] = frozenset()
    server_tools: tuple[str, ...] = ()
    given_server_tools: frozenset[str] = frozenset()
    """Those of `server_tools` that the command line names."""
    piped_tools: str = "all"
    read_only_tools: bool = False
    max_rounds: int = 10
    max_cost: float | None = None
    max_cost_per_day: float | None = None
    command_timeout: float = COMMAND_SECONDS
    max_command_timeout: float = MAX_COMMAND_SECONDS
    confirm: bool = False
    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    assume_yes: bool = False
    is_row: bool = False
    waits_for_collector: bool = True
    stream: bool = True
    timeout: float | None = None
    tries: int = 4
    backoff: float = 0.5
    stdin_limit: int = 10_000_000
    notifications: str = "auto"
    footer: FooterMode = "auto"
    save: bool = True
    context_limit: int | None = None
    search_engine: str = ""
    mcp_files: tuple[str, ...] = ()
    safe: bool = False
    safe_level: str = SANDBOX_LEVEL
    allow_dirs: tuple[str, ...] = ()
    allow_git: bool = False
    allow_hosts: tuple[str, ...] = ()
    allow_command_hosts: tuple[str, ...] = ()
    allow_tools: tuple[str, ...] = ()
    safe_environment: tuple[str, ...] = ()
    verbose: bool = False
    context_files: tuple[str, ...] = ("AGENTS.md",)
    skill_folders: tuple[str, ...] | None = None
    """None if the user has not decided yet."""
    keep_location: bool = False
    media_dir: str = ""
    traces: bool = False
    trace_content: bool = False
    record: str = ""
    replay: str = ""


def get_default_value(key: str) -> Any:
    """Return the default of a setting; None if it has none."""
    return Settings._field_defaults.get(SETTINGS[key].field)
