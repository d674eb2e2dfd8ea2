"""Find and read the files of templates: those of the user, and those that come with ask.

A prompt of the user replaces a built-in one with the same name.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import ask_prompts
from ask.errors import AskError, ConfigError, UsageError
from ask.suggestions import format_suggestion
from ask.templates.template import FENCE, NAME_PATTERN, NAME_RULE, Template, parse_template

BUILTIN_FOLDER = Path(str(ask_prompts.__file__)).parent
SUFFIX = ".md"
MAX_FILE_SIZE = 1_000_000
"""In bytes."""


def find_template(reference: str, user_folder: Path) -> Template:
    """Read the prompt that NAME or NAME:TASK refers to.

    With a task, `prompt` is the text of that task.
    """
    name, colon, task = reference.partition(":")
    template = read_template(name, find_template_file(name, user_folder))
    if not colon:
        return template
    if task not in template.tasks:
        hint = format_suggestion(
            task, template.tasks, f"its tasks: {', '.join(template.tasks) or 'none'}", prefix=f"{name}:"
        )
        raise UsageError(f"the template {name} has no task {task!r}", hint)
    return template._replace(prompt=template.tasks[task])


def find_template_file(name: str, user_folder: Path) -> Path:
    """Find the file of a prompt; an unknown name is a UsageError."""
    check_template_name(name)
    files = list_template_files(user_folder)
    if name not in files:
        raise UsageError(
            f"unknown template {name!r}", format_suggestion(name, files, "ask templates list shows all templates")
        )
    return files[name]


def list_template_files(user_folder: Path, warn: Callable[[str], object] = str) -> dict[str, Path]:
    """Return the files of all prompts by name, sorted.

    `warn` is called with a message for each file whose name could not be given to -t.
    """
    files = {file.stem: file for file in BUILTIN_FOLDER.glob(f"*{SUFFIX}") if is_builtin_template(file)}
    try:
        user_files = [file for file in sorted(user_folder.iterdir()) if file.suffix == SUFFIX]
    except FileNotFoundError:
        user_files = []
    except OSError as error:
        raise ConfigError(f"cannot read {user_folder} ({error.strerror})") from error
    for file in user_files:
        if NAME_PATTERN.fullmatch(file.stem):
            files[file.stem] = file
        else:
            warn(f"skipping {file}: {NAME_RULE}")
    return dict(sorted(files.items()))


def is_builtin_template(file: Path) -> bool:
    """Check that a file of ask is a template, not a part of the system prompt."""
    with file.open(encoding="utf-8") as stream:
        return stream.readline().rstrip() == FENCE


def read_template(name: str, file: Path) -> Template:
    """Read and parse the file of a prompt; an invalid file is a ConfigError."""
    return parse_template(name, file, read_template_text(file))


def get_user_template_path(name: str, user_folder: Path) -> Path:
    """Return the path of the user's prompt with this name, which may not exist yet."""
    return user_folder / f"{name}{SUFFIX}"


def read_new_template_text(name: str) -> str:
    """Return the initial text of a new prompt, which explains the format."""
    return read_template_text(BUILTIN_FOLDER / "new_prompt.txt").replace("NAME", name)


def validate_template_file(file: Path) -> tuple[()]:
    """Validate the file of a prompt for `edit_file`, which expects a list of warnings."""
    read_template(file.stem, file)
    return ()


def read_template_text(file: Path) -> str:
    """Read a UTF-8 file; one that is unreadable, too large, or not UTF-8 is an error."""
    try:
        with file.open("rb") as stream:
            data = stream.read(MAX_FILE_SIZE + 1)
    except OSError as error:
        raise ConfigError(f"cannot read {file} ({error.strerror})") from error
    if len(data) > MAX_FILE_SIZE:
        raise ConfigError(f"{file} is larger than {MAX_FILE_SIZE} bytes", "shorten it")
    try:
        return data.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{file}, line {line}: not UTF-8", "save it as UTF-8") from error


def check_template_name(name: str) -> None:
    """Refuse a name that could refer to a file outside the prompt folder."""
    if not NAME_PATTERN.fullmatch(name):
        raise UsageError(f"{name!r} is not a valid template name", NAME_RULE)


def read_all_templates(user_folder: Path, warn: Callable[[str], None]) -> list[Template]:
    """Read all prompts; `warn` is called with a message for each file that cannot be used."""
    templates: list[Template] = []
    for name, file in list_template_files(user_folder, warn).items():
        try:
            templates.append(read_template(name, file))
        except AskError as error:
            warn(str(error))
    return templates
