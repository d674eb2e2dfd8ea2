"""The built-in tools that every run has, as models see them; what runs them is loaded when it is called."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

from ask.config.settings import COMMAND_SECONDS, MAX_COMMAND_SECONDS
from ask.messages import ToolSpec
from ask.tools.base import Tool, build_parameters_schema

if TYPE_CHECKING:
    from ask.tools.search_engine import SearchEngine

READ_SKILL_NAME = "read_skill"
"""The tool that `ask.project.skills` creates where there are skills."""
FILE_TOOL_NAMES = frozenset({"read_file", "write_file", "edit_file", "list_dir"})
"""The tools that respect `RunToolContext.confinement`."""


def _load_on_call(module: str, function: str) -> Callable[..., Any]:
    """Return a function that imports the module of `ask.tools` with its implementation, and calls that."""

    def call(*arguments: Any) -> Any:
        return getattr(import_module(f"ask.tools.{module}"), function)(*arguments)

    return call


def _get_host(url: str, *, must_be_public: bool = False) -> str:
    """Return the host of an http(s) URL.

    Raises:
        ToolError: the URL is invalid or ambiguous, or its host is evidently not public, but must be.
    """
    from ask.tools.network_policy import check_public_host, parse_url

    host = parse_url(url).host
    if must_be_public:
        check_public_host(host)
    return host


_FILES_PHRASE = ", or an image or a PDF"
"""What `read_file` and `fetch_url` attach for most models."""


def describe_for_model(spec: ToolSpec, is_supported: Callable[[str], bool]) -> ToolSpec:
    """Return the specification of a tool that names only those types of files that a model accepts."""
    if _FILES_PHRASE not in spec.description or spec.name not in ("read_file", "fetch_url"):
        return spec
    types = {"an image": "image/png", "a PDF": "application/pdf", "audio": "audio/wav"}
    accepted = [name for name, media_type in types.items() if is_supported(media_type)]
    listed = " or ".join(filter(None, (", ".join(accepted[:-1]), *accepted[-1:])))
    return spec._replace(description=spec.description.replace(_FILES_PHRASE, f", or {listed}" if listed else ""))


_STRING_SCHEMA = {"type": "string"}

READ_FILE = Tool(
    ToolSpec(
        "read_file",
        f"Read a text file or a range of its lines{_FILES_PHRASE}. Relative paths start at the working directory.",
        build_parameters_schema(
            {"filepath": _STRING_SCHEMA},
            {
                "offset": {"type": "integer", "description": "first line, from 1"},
                "limit": {"type": "integer", "description": "number of lines"},
            },
        ),
    ),
    _load_on_call("files", "read_file"),
    has_side_effects=False,
)

WRITE_FILE = Tool(
    ToolSpec(
        "write_file",
        "Create or overwrite a file. Missing folders are created.",
        build_parameters_schema({"filepath": _STRING_SCHEMA, "content": _STRING_SCHEMA}),
    ),
    _load_on_call("files", "write_file"),
)

EDIT_FILE = Tool(
    ToolSpec(
        "edit_file",
        "Replace one piece of text in a file.",
        build_parameters_schema(
            {
                "filepath": _STRING_SCHEMA,
                "old_text": {
                    "type": "string",
                    "description": "exact text, which must occur exactly once in the file",
                },
                "new_text": _STRING_SCHEMA,
            }
        ),
    ),
    _load_on_call("files", "edit_file"),
)

LIST_DIR = Tool(
    ToolSpec(
        "list_dir",
        "List a directory: type, size in bytes and name of each entry.",
        build_parameters_schema({"dirpath": _STRING_SCHEMA}),
    ),
    _load_on_call("files", "list_dir"),
    has_side_effects=False,
)


def create_bash_tool(timeout: float, max_timeout: float) -> Tool:
    """Create the tool that runs commands, whose description says how many seconds they may take."""
    limits = f"{timeout:g} by default, at most {max_timeout:g}; give long builds and tests more time"
    if timeout >= max_timeout:
        limits = f"at most {max_timeout:g}"
    return Tool(
        ToolSpec(
            "bash",
            "Run a command with bash. Returns exit code, stdout and stderr. stdin is empty. Redirect the output "
            "of background processes.",
            build_parameters_schema(
                {"command": {"type": "string"}},
                {"timeout": {"type": "number", "description": f"seconds until the command is killed: {limits}"}},
            ),
        ),
        _load_on_call("shell", "run_bash"),
    )


BASH = create_bash_tool(COMMAND_SECONDS, MAX_COMMAND_SECONDS)

FETCH_URL = Tool(
    ToolSpec(
        "fetch_url",
        f"Fetch a web page as readable text with links, JSON and plain text unchanged{_FILES_PHRASE}.",
        build_parameters_schema({"url": {"type": "string"}}),
    ),
    _load_on_call("fetch_url", "run_fetch_url"),
    has_side_effects=False,
    get_host=lambda arguments: _get_host(arguments["url"], must_be_public=True),
    needs_sandbox=False,
)

BUILTIN_TOOLS = (READ_FILE, WRITE_FILE, EDIT_FILE, LIST_DIR, BASH, FETCH_URL)
"""The built-in tools, in the order in which models see them."""

DEFAULT_RESULT_COUNT, MAX_RESULT_COUNT = 8, 20
"""Number of results if the model does not specify it, and the maximum."""

SEARCH_WEB = ToolSpec(
    "search_web",
    "Search the web: titles, URLs and snippets; read a page with fetch_url.",
    build_parameters_schema(
        {"query": {"type": "string"}},
        {"max_results": {"type": "integer", "description": f"1 to {MAX_RESULT_COUNT} ({DEFAULT_RESULT_COUNT})"}},
    ),
)


_SEARCH = _load_on_call("web_search", "search_web")


def create_search_tool(engine: SearchEngine) -> Tool:
    return Tool(
        SEARCH_WEB,
        partial(_SEARCH, engine),
        has_side_effects=False,
        get_host=lambda arguments: _get_host(engine.base_url),
        needs_sandbox=False,
    )
