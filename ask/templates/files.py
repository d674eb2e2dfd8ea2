"""Where named prompts are: the user's own in the config folder, then those that come with ask."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import ask_prompts
from ask.errors import AskError, ConfigError, UsageError
from ask.templates.template import FENCE, NAME, NAME_RULE, Template, parse

BUILTIN_FOLDER = Path(str(ask_prompts.__file__)).parent
SUFFIX = ".md"
LONGEST = 1_000_000
"""Bytes that a file may have."""


def find(wanted: str, own: Path) -> Template:
    """The named prompt NAME; or NAME:TASK, the same with the text of that task.

    Args:
        wanted: its name.
        own: the folder of the user's own.

    Raises:
        UsageError: there is none, or no such task.
        ConfigError: it is broken.
    """
    name, colon, task = wanted.partition(":")
    template = read(name, find_file(name, own))
    if not colon:
        return template
    if task not in template.tasks:
        from ask.suggestions import suggest

        near = suggest(task, template.tasks)
        has = f"it has {', '.join(template.tasks)}" if template.tasks else "it has none"
        raise UsageError(f"the prompt {name} has no task {task!r}", f"did you mean {name}:{near}?" if near else has)
    return template._replace(prompt=template.tasks[task])


def find_file(name: str, own: Path) -> Path:
    """The file of the named prompt of that name.

    Raises:
        UsageError: there is none.
        ConfigError: the folder cannot be read.
    """
    check_name(name)
    files = find_all(own)
    if name not in files:
        from ask.suggestions import suggest

        near = suggest(name, files)
        hint = f"did you mean {near}? " if near else ""
        raise UsageError(f"there is no prompt {name!r}", f"{hint}ask prompts list shows what there is")
    return files[name]


def find_all(own: Path, misnamed: Callable[[Path], object] = bool) -> dict[str, Path]:
    """The files of all named prompts by name, sorted; `misnamed` takes those that -t could not name.

    Raises:
        ConfigError: the folder cannot be read.
    """
    files = {file.stem: file for file in BUILTIN_FOLDER.glob(f"*{SUFFIX}") if is_builtin(file)}
    try:
        mine = [file for file in sorted(own.iterdir()) if file.suffix == SUFFIX]
    except FileNotFoundError:
        mine = []
    except OSError as fault:
        raise ConfigError(f"cannot read {own} ({fault.strerror})") from fault
    for file in mine:
        if NAME.fullmatch(file.stem):
            files[file.stem] = file
        else:
            misnamed(file)
    return dict(sorted(files.items()))


def is_builtin(file: Path) -> bool:
    """Whether a file that comes with ask is a named prompt: others are parts of the system prompt."""
    with file.open(encoding="utf-8") as opened:
        return opened.readline().rstrip() == FENCE


def read(name: str, file: Path) -> Template:
    """The named prompt in a file.

    Raises:
        ConfigError: it is broken.
    """
    return parse(name, file, text_of(file))


def own_file(name: str, own: Path) -> Path:
    """Where the user's own prompt of that name is, or would be."""
    return own / f"{name}{SUFFIX}"


def validity(file: Path) -> tuple[()]:
    """Nothing is to be said of a valid file, whatever its name.

    Raises:
        ConfigError: it is broken.
    """
    read(file.stem, file)
    return ()


def text_of(file: Path) -> str:
    """The text of a file.

    Raises:
        ConfigError: it cannot be read, or is no text.
    """
    try:
        with file.open("rb") as opened:
            data = opened.read(LONGEST + 1)
    except OSError as fault:
        raise ConfigError(f"cannot read {file} ({fault.strerror})") from fault
    if len(data) > LONGEST:
        raise ConfigError(f"{file} is longer than {LONGEST} bytes", "shorten it")
    try:
        return data.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as fault:
        line = data.count(b"\n", 0, fault.start) + 1
        raise ConfigError(f"{file}, line {line}: this is not UTF-8", "save it as UTF-8") from fault


def check_name(name: str) -> None:
    """Refuse what could name a file elsewhere.

    Raises:
        UsageError: it is no name.
    """
    if not NAME.fullmatch(name):
        raise UsageError(f"{name!r} is no name of a prompt", NAME_RULE)


def describe_all(own: Path, trouble: Callable[[str], None]) -> list[Template]:
    """All named prompts; `trouble` takes a line for each file that cannot be used.

    Raises:
        ConfigError: the folder cannot be read.
    """

    def misnamed(file: Path) -> None:
        trouble(f"{file} is left out: {NAME_RULE}")

    templates: list[Template] = []
    for name, file in find_all(own, misnamed).items():
        try:
            templates.append(read(name, file))
        except AskError as fault:
            trouble(str(fault))
    return templates
