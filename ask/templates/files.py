"""Where named prompts are: the user's own in the config folder, then those that come with ask."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import ask_prompts
from ask.errors import AskError, ConfigError, UsageError
from ask.templates.template import FENCE, NAME_PATTERN, NAME_RULE, Template, parse_template

BUILTIN_FOLDER = Path(str(ask_prompts.__file__)).parent
SUFFIX = ".md"
MAX_FILE_SIZE = 1_000_000
"""Bytes that a file may have."""


def find_template(reference: str, user_folder: Path) -> Template:
    """The named prompt NAME; or NAME:TASK, the same with the text of that task.

    Args:
        reference: its name.
        user_folder: the folder of the user's own.

    Raises:
        UsageError: there is none, or no such task.
        ConfigError: it is broken.
    """
    name, colon, task = reference.partition(":")
    template = read_template(name, find_template_file(name, user_folder))
    if not colon:
        return template
    if task not in template.tasks:
        from ask.suggestions import suggest

        near = suggest(task, template.tasks)
        has = f"it has {', '.join(template.tasks)}" if template.tasks else "it has none"
        raise UsageError(f"the prompt {name} has no task {task!r}", f"did you mean {name}:{near}?" if near else has)
    return template._replace(prompt=template.tasks[task])


def find_template_file(name: str, user_folder: Path) -> Path:
    """The file of the named prompt of that name.

    Raises:
        UsageError: there is none.
        ConfigError: the folder cannot be read.
    """
    check_template_name(name)
    files = list_template_files(user_folder)
    if name not in files:
        from ask.suggestions import suggest

        near = suggest(name, files)
        hint = f"did you mean {near}? " if near else ""
        raise UsageError(f"there is no prompt {name!r}", f"{hint}ask prompts list shows what there is")
    return files[name]


def list_template_files(user_folder: Path, on_invalid_name: Callable[[Path], object] = bool) -> dict[str, Path]:
    """The files of all named prompts by name, sorted; `misnamed` takes those that -t could not name.

    Raises:
        ConfigError: the folder cannot be read.
    """
    files = {file.stem: file for file in BUILTIN_FOLDER.glob(f"*{SUFFIX}") if is_builtin_template(file)}
    try:
        mine = [file for file in sorted(user_folder.iterdir()) if file.suffix == SUFFIX]
    except FileNotFoundError:
        mine = []
    except OSError as fault:
        raise ConfigError(f"cannot read {user_folder} ({fault.strerror})") from fault
    for file in mine:
        if NAME_PATTERN.fullmatch(file.stem):
            files[file.stem] = file
        else:
            on_invalid_name(file)
    return dict(sorted(files.items()))


def is_builtin_template(file: Path) -> bool:
    """Whether a file that comes with ask is a named prompt: others are parts of the system prompt."""
    with file.open(encoding="utf-8") as opened:
        return opened.readline().rstrip() == FENCE


def read_template(name: str, file: Path) -> Template:
    """The named prompt in a file.

    Raises:
        ConfigError: it is broken.
    """
    return parse_template(name, file, read_template_text(file))


def get_user_template_path(name: str, user_folder: Path) -> Path:
    """Where the user's own prompt of that name is, or would be."""
    return user_folder / f"{name}{SUFFIX}"


def validate_template_file(file: Path) -> tuple[()]:
    """Nothing is to be said of a valid file, whatever its name.

    Raises:
        ConfigError: it is broken.
    """
    read_template(file.stem, file)
    return ()


def read_template_text(file: Path) -> str:
    """The text of a file.

    Raises:
        ConfigError: it cannot be read, or is no text.
    """
    try:
        with file.open("rb") as opened:
            data = opened.read(MAX_FILE_SIZE + 1)
    except OSError as fault:
        raise ConfigError(f"cannot read {file} ({fault.strerror})") from fault
    if len(data) > MAX_FILE_SIZE:
        raise ConfigError(f"{file} is longer than {MAX_FILE_SIZE} bytes", "shorten it")
    try:
        return data.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as fault:
        line = data.count(b"\n", 0, fault.start) + 1
        raise ConfigError(f"{file}, line {line}: this is not UTF-8", "save it as UTF-8") from fault


def check_template_name(name: str) -> None:
    """Refuse what could name a file elsewhere.

    Raises:
        UsageError: it is no name.
    """
    if not NAME_PATTERN.fullmatch(name):
        raise UsageError(f"{name!r} is no name of a prompt", NAME_RULE)


def read_all_templates(user_folder: Path, warn: Callable[[str], None]) -> list[Template]:
    """All named prompts; `warn` takes a line for each file that cannot be used.

    Raises:
        ConfigError: the folder cannot be read.
    """

    def warn_of_invalid_name(file: Path) -> None:
        warn(f"{file} is left out: {NAME_RULE}")

    templates: list[Template] = []
    for name, file in list_template_files(user_folder, warn_of_invalid_name).items():
        try:
            templates.append(read_template(name, file))
        except AskError as fault:
            warn(str(fault))
    return templates
