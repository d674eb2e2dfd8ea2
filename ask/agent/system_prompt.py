"""The system prompt: the default prompt, then the user's own."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

import ask_prompts
from ask import __version__
from ask.agent.request import RunRequest
from ask.messages import ToolSpec
from ask.text import format_one_line
from ask.tools.definitions import READ_SKILL_NAME

if TYPE_CHECKING:
    from ask.project.project_context import ProjectContext
    from ask.safety.sandbox_config import SandboxConfig

PROMPTS_FOLDER = Path(str(ask_prompts.__file__)).parent
"""The folder of the prompts that come with `ask`."""

MAX_SUMMARY_CHARACTERS = 200
"""Characters of a tool's description in the prompt. The full one is sent with the tool's definition."""
NO_TOOLS_TEXT = "You have no tools in this conversation: answer from the information you are given."
TOOLS_TEXT = """\
You can act on this machine with these tools; use them when the answer depends on what is here, and look \
before you claim. Ask for several at once where they do not depend on each other.
{lines}"""
SKILLS_TEXT = """\
These skills are instructions for certain tasks. Read one with read_skill before you begin a task that it is for.
{lines}"""
PROJECT_TEXT = """\
The owner of this project gives these instructions. Where they conflict, the user's words come first, then the file \
closest to the working directory.

{blocks}"""
HIDDEN_REPOSITORY_TEXT = (
    "git does not work in {folder}, because its repository is not visible in the sandbox. Do not try to use it there."
)
PARTIAL_REPOSITORY_TEXT = (
    "Only {folder} is visible of the git repository {top}, so git reports all other files as deleted: add `-- .` to "
    "git status and git diff. The repository is read-only."
)
COMMAND_HOSTS_TEXT = (
    "Commands reach only these hosts, over HTTPS (or the port that is named), through the HTTP proxy that the "
    "environment variable https_proxy names: {hosts}."
)
PLACEHOLDERS_TEXT = (
    "The tools run in a sandbox that contains empty, read-only placeholders for some missing "
    "files. They do not belong to the user's files and are removed afterwards, so do not count "
    "or mention them: {names}."
)


def build_system_prompt(
    request: RunRequest, environment: Mapping[str, str], tools: Sequence[ToolSpec], today: date | None = None
) -> str:
    """Build the system prompt of a run: the default, the output format's, skills, the project's instructions, and the
    user's own text.

    It is the same for all requests, so that providers can cache it. For the same reason it contains the date but not
    the time. `environment` names the user's shell; each of the offered `tools` is listed on one line.
    """
    directory, today = request.directory, today or date.today()
    user_prompt = request.settings.system.strip()
    lines = "\n".join(map(_format_tool, tools))
    uname = os.uname()
    context = request.project_context
    skills_text, project_text = _format_project_context(request, context, tools) if lines and context else ("", "")
    sources = [
        *["the project's instructions below"] * bool(project_text),
        *["what read_skill returns"] * bool(skills_text),
    ]
    values = {
        "program": "ask",
        "version": __version__,
        "date": f"{today:%A}, {today.isoformat()}",
        "system": f"{uname.sysname} {uname.release} {uname.machine}",
        "shell": os.path.basename(environment.get("SHELL", "")) or "unknown",
        "command_shell": os.path.basename(find_shell(environment)),
        "directory": _to_utf8(directory),
        "schema": request.response_schema.text if request.response_schema else "",
        "other_sources": f", and after them {' and '.join(sources)}," if sources else "",
        "tools": TOOLS_TEXT.format(lines=lines) if lines else NO_TOOLS_TEXT,
    }
    if lines and request.safe_mode:
        placeholders = sorted(request.safe_mode.placeholders)
        inside = (path.relative_to(directory) if path.is_relative_to(directory) else path for path in placeholders)
        if names := ", ".join(format_one_line(_to_utf8(path)) for path in inside):
            values["tools"] += "\n\n" + PLACEHOLDERS_TEXT.format(names=names)
        if hosts := ", ".join(target.authority for target in request.safe_mode.command_hosts):
            values["tools"] += "\n\n" + COMMAND_HOSTS_TEXT.format(hosts=hosts)
        values["tools"] += "".join(f"\n\n{text}" for text in _explain_repositories(request.safe_mode.sandbox_config))
    output_format = "" if request.questions else request.output_format  # decisions have no text to format
    default = "\n\n".join(map(read_prompt, filter(None, ("system", output_format))))
    text = re.sub(r"\{\{(\w+)\}\}", lambda match: values[match[1]], default)
    return "\n\n".join(filter(None, (text, skills_text, project_text, user_prompt)))


def _format_project_context(request: RunRequest, context: ProjectContext, tools: Sequence[ToolSpec]) -> tuple[str, str]:
    """Return the texts about skills and about the project's instructions, "" for none."""
    is_offered = any(tool.name == READ_SKILL_NAME for tool in tools)
    skill_lines = "\n".join(f"- {skill.name}: {skill.description}" for skill in context.skills if is_offered)
    redact = request.secrets.redact
    return (
        SKILLS_TEXT.format(lines=redact(skill_lines)) if skill_lines else "",
        PROJECT_TEXT.format(blocks=redact(context.instructions)) if context.instructions else "",
    )


def _to_utf8(path: Path) -> str:
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def _format_tool(tool: ToolSpec) -> str:
    """Return a tool's name and the first sentence of its description, on one line."""
    paragraph = re.split(r"\n\s*\n", tool.description.strip(), maxsplit=1)[0]
    sentence = format_one_line(paragraph).split(". ")[0].rstrip(".") + "."
    return f"- {tool.name}: {format_one_line(sentence, MAX_SUMMARY_CHARACTERS)}"


def find_shell(environment: Mapping[str, str]) -> str:
    """Return the shell that runs the user's commands."""
    return environment.get("SHELL") or "/bin/sh"


def read_prompt(name: str) -> str:
    """Read a prompt that comes with `ask`."""
    return (PROMPTS_FOLDER / f"{name}.txt").read_text(encoding="utf-8").strip()


def _explain_repositories(config: SandboxConfig) -> Iterator[str]:
    """Explain to the model what git can do in folders whose repository is stored outside them."""
    for repository in config.outer_repositories:
        folder, top = (format_one_line(_to_utf8(path)) for path in (repository.folder, repository.top))
        if not set(repository.paths) & set(config.readable_repository_paths):
            yield HIDDEN_REPOSITORY_TEXT.format(folder=folder)
        elif top != folder:
            yield PARTIAL_REPOSITORY_TEXT.format(folder=folder, top=top)
