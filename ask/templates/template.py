"""`-t` and `--var`: templates, which are files of the user or come with ask, and the values of their placeholders.

A file has TOML front matter between two lines of +++, followed by the text of the prompt, or only the text. A template
of the user replaces a built-in one with the same name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import ask_prompts
from ask.config.config_file import check_options
from ask.config.model_options import check_model_option
from ask.config.type_checks import ValuePath, WrongTypeError, parse_value
from ask.errors import AskError, ConfigError, UsageError
from ask.messages import EMPTY_MAPPING, Message
from ask.records import Constraint, NamedTuple
from ask.regular_files import open_regular_file
from ask.templates.placeholders import INPUT_NAME, fill_placeholders, find_placeholders
from ask.text import decode_argument, describe_parse_error, format_size, format_suggestion, format_unknown_key

if TYPE_CHECKING:
    from ask.inputs.prompt_inputs import PromptInputs

BUILTIN_FOLDER = Path(str(ask_prompts.__file__)).parent
NEW_TEMPLATE_FILE = BUILTIN_FOLDER / "new_prompt.txt"
"""The initial text of a new template, which explains the format. NAME is replaced by its name."""
SUFFIX = ".md"
MAX_FILE_BYTES = 1_000_000
FENCE, YAML_FENCE = "+++", "---"
NAME_PATTERN = re.compile(r"\w[\w-]*")
NAME_RULE = "names consist of letters, digits, - and _"
LINE_NUMBER_PATTERN = re.compile(r" \(at line (\d+), column \d+\)$")


class FrontMatter(NamedTuple):
    """The keys of the front matter, with their types."""

    description: str = ""
    system: str = ""
    provider: str = ""
    model: str = ""
    tools: Annotated[bool | tuple[str, ...], Constraint("true, false or a list of names")] = True
    options: Mapping[str, Any] = EMPTY_MAPPING
    tasks: Mapping[str, str] = EMPTY_MAPPING


class Template(NamedTuple):
    """A template, as selected with -t NAME or -t NAME:TASK."""

    name: str
    file: Path
    description: str = ""
    """A short description for lists."""
    system: str = ""
    """An addition to the system prompt."""
    prompt: str = ""
    """The text to send; if empty, the user's prompt is sent."""
    provider: str = ""
    """Empty for the default provider."""
    model: str = ""
    """Empty for the default model."""
    tools: bool | tuple[str, ...] = True
    """Whether the model may use tools, or the names of those that it may use."""
    options: Mapping[str, Any] = EMPTY_MAPPING
    """Model parameters."""
    tasks: Mapping[str, str] = EMPTY_MAPPING
    """Alternative texts by task name, each replacing `prompt`."""
    values: Mapping[str, str] = EMPTY_MAPPING
    """The values given by --var."""
    inputs: PromptInputs | None = None
    """The resources, images and audio of a prompt of an MCP server; None for none."""
    opening_messages: tuple[Message, ...] = ()
    """The messages of a prompt of an MCP server that precede the user's."""

    @property
    def constant_names(self) -> frozenset[str]:
        """The names of the placeholders whose default each row gets, because the system prompt has them."""
        return frozenset(placeholder.name for placeholder in find_placeholders(self.system)) - self.values.keys()

    @property
    def variables(self) -> list[str]:
        """The unique names of the placeholders that --var fills in."""
        texts = (self.system, self.prompt, *self.tasks.values())
        names = dict.fromkeys(placeholder.name for text in texts for placeholder in find_placeholders(text))
        return [name for name in names if name != INPUT_NAME]

    @property
    def system_prompt(self) -> str:
        """The addition to the system prompt, with the values filled in."""
        return fill_placeholders(self.system, self.values).strip()

    def render_prompt(self, user_input: str) -> str:
        """Fill the placeholders; insert the user's input at {{input}}, or append it.

        `user_input` is the text, files and piped text; "" for none.

        Raises:
            UsageError: the template requires input and there is none.
        """
        placeholders = [placeholder for placeholder in find_placeholders(self.prompt) if placeholder.name == INPUT_NAME]
        if not user_input and any(placeholder.default is None for placeholder in placeholders):
            raise UsageError(f"the template {self.name} needs input", "pipe text in, or add it as an argument")
        rendered = fill_placeholders(
            self.prompt, {**self.values, INPUT_NAME: user_input} if user_input else self.values
        )
        return rendered if placeholders or not user_input else f"{rendered}\n\n{user_input}"

    def select_tools(self, names: Sequence[str]) -> frozenset[str]:
        """Return which of the named tools the template allows.

        Raises:
            ConfigError: it names a tool that does not exist.
        """
        if isinstance(self.tools, bool):
            return frozenset(names if self.tools else ())
        for name in self.tools:
            if name not in names:
                hint = format_suggestion(name, names, "ask tools lists them")
                raise ConfigError(f"{self.file}: unknown tool {name!r}", hint)
        return frozenset(self.tools)


def select_template(
    template_name: str | None, variables: Iterable[str], user_folder: Path, *, has_columns: bool
) -> Template:
    """Find a template and check it, before any input is read.

    Args:
        template_name: the value of -t; None if it is not given.
        variables: the values of --var, as NAME=VALUE.
        user_folder: the folder of the user's own prompts.
        has_columns: whether the columns of rows fill in the placeholders of its text that have no value.

    Raises:
        UsageError: there is no such prompt, a value is missing, or it has no placeholder for one.
        ConfigError: the template is invalid.
    """
    if template_name is None:
        raise UsageError("--var needs a template", "add -t NAME (ask templates list shows them)")
    return fill_template(find_template(decode_argument(template_name), user_folder), variables, has_columns=has_columns)


def fill_template(template: Template, variables: Iterable[str], *, has_columns: bool) -> Template:
    """Return a template with the values of --var, as NAME=VALUE. Raises the errors of `select_template`."""
    values = parse_variables(map(decode_argument, variables), template.name, template.variables)
    for text in (template.system, "" if has_columns else template.prompt):
        for name, default in find_placeholders(text):
            if default is None and name not in values and name != INPUT_NAME:
                raise UsageError(f"the template {template.name} needs a value for {name}", f"add --var {name}=VALUE")
    try:
        for key, value in template.options.items():
            check_model_option(key, value)
    except AskError as error:
        raise ConfigError(f"{template.file}: in [options], {error.message}", error.hint) from None
    return template._replace(values=values)


def parse_variables(pairs: Iterable[str], template_name: str, names: Sequence[str]) -> dict[str, str]:
    """Parse the values of --var into a dictionary; `names` are the template's placeholders.

    Raises:
        UsageError: it is not NAME=VALUE, or the template has no such placeholder.
    """
    values: dict[str, str] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not name or not equals:
            raise UsageError(f"--var must be NAME=VALUE, not {pair!r}", "for example --var to=German")
        if name not in names:
            all_names = f"its placeholders: {', '.join(names)}" if names else "it has no placeholders"
            hint = format_suggestion(name, names, otherwise=all_names)
            raise UsageError(f"the template {template_name} has no placeholder {name!r}", hint)
        values[name] = value
    return values


def find_template(reference: str, user_folder: Path) -> Template:
    """Read the template that NAME or NAME:TASK refers to.

    With a task, `prompt` is the text of that task.
    """
    name, colon, task = reference.partition(":")
    template = read_template(find_template_file(name, user_folder))
    if not colon:
        return template
    if task not in template.tasks:
        hint = format_suggestion(
            task, template.tasks, f"its tasks: {', '.join(template.tasks) or 'none'}", prefix=f"{name}:"
        )
        raise UsageError(f"the template {name} has no task {task!r}", hint)
    return template._replace(prompt=template.tasks[task].strip())


def find_template_file(name: str, user_folder: Path) -> Path:
    """Find the file of a template.

    Raises:
        UsageError: the name is unknown.
    """
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
    files = {file.stem: file for file in BUILTIN_FOLDER.glob(f"*{SUFFIX}")}
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


def read_template(file: Path) -> Template:
    """Read and parse the file of a template.

    Raises:
        ConfigError: the file is invalid.
    """
    return parse_template(file, read_template_text(file))


def read_template_text(file: Path) -> str:
    """Read a UTF-8 file; one that is unreadable, too large, or not UTF-8 is an error."""
    try:
        with open_regular_file(file) as stream:
            data = stream.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise ConfigError(f"cannot read {file} ({error.strerror})") from error
    if len(data) > MAX_FILE_BYTES:
        raise ConfigError(f"{file} is larger than {format_size(MAX_FILE_BYTES)}", "shorten it")
    try:
        return data.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{file}, line {line}: not UTF-8", "save it as UTF-8") from error


def check_template_name(name: str) -> None:
    """Refuse a name that could refer to a file outside the folder of templates."""
    if not NAME_PATTERN.fullmatch(name):
        raise UsageError(f"{name!r} is not a valid template name", NAME_RULE)


def read_all_templates(user_folder: Path, warn: Callable[[str], None]) -> list[Template]:
    """Read all prompts; `warn` is called with a message for each file that cannot be used."""
    templates: list[Template] = []
    for file in list_template_files(user_folder, warn).values():
        try:
            templates.append(read_template(file))
        except AskError as error:
            warn(str(error))
    return templates


def parse_template(file: Path, text: str) -> Template:
    """Parse the text of a template.

    Raises:
        ConfigError: it is invalid; the message names the line.
    """
    front_matter, body = _split_front_matter(file, text)
    values = _parse_front_matter(file, front_matter)
    template = Template(file.stem, file, prompt=body.strip(), **values._asdict())
    if any(placeholder.name == INPUT_NAME for placeholder in find_placeholders(template.system)):
        hint = "use it in the prompt instead: input must not become part of the system prompt"
        raise _make_template_error(file, _find_key_line(front_matter, "system"), "{{input}} is used in system", hint)
    return template


def _split_front_matter(file: Path, text: str) -> tuple[list[str], str]:
    """Split a text into the lines of its front matter and its body.

    The first line of the front matter is empty in place of the opening +++, so that line numbers stay correct.
    """
    lines = text.split("\n")
    first_line = lines[0].rstrip()
    if first_line == YAML_FENCE:
        raise _make_template_error(file, 1, "it starts with ---", "put TOML between two +++ lines")
    if first_line != FENCE:
        return [], text
    for number, line in enumerate(lines[1:], start=1):
        if line.rstrip() == FENCE:
            return ["", *lines[1:number]], "\n".join(lines[number + 1 :])
    raise _make_template_error(file, 1, "the second +++ line is missing", "add it after the TOML")


def _parse_front_matter(file: Path, lines: Sequence[str]) -> FrontMatter:
    """Parse and validate the TOML in these lines."""
    import tomllib

    def refuse_key(path: ValuePath, _: Any) -> NoReturn:
        key, known_keys = str(path[0]), FrontMatter._fields
        hint = f"known keys: {', '.join(known_keys)}"
        raise _make_template_error(file, _find_key_line(lines, key), format_unknown_key(key, known_keys), hint)

    try:
        values = tomllib.loads("\n".join(lines))
    except (ValueError, RecursionError) as error:
        location = LINE_NUMBER_PATTERN.search(str(error))
        reason = LINE_NUMBER_PATTERN.sub("", describe_parse_error(error)).removesuffix(" (at end of document)")
        line = int(location[1]) if location else len(lines)
        raise _make_template_error(file, line, f"invalid TOML ({reason})") from error
    try:
        front_matter = parse_value(values, FrontMatter, on_unknown_key=refuse_key)
    except WrongTypeError as error:
        raise _make_template_error(file, _find_key_line(lines, str(error.path[0])), str(error)) from None
    for task in front_matter.tasks:
        if not NAME_PATTERN.fullmatch(task):
            raise _make_template_error(
                file, _find_key_line(lines, task), f"{task!r} is not a valid task name", NAME_RULE
            )
    check_options(f"{file}, line {_find_key_line(lines, 'options')}", dict(front_matter.options))
    return front_matter


def _find_key_line(lines: Sequence[str], key: str) -> int:
    """Find the first line that seems to contain a key or its table; 1 if there is none."""
    pattern = re.compile(rf"""\s*\[?\s*(\w+\s*\.\s*)?["']?{re.escape(key)}["']?\s*[\]=.]""")
    return next((number for number, line in enumerate(lines, start=1) if pattern.match(line)), 1)


def _make_template_error(file: Path, line: int, reason: str, hint: str = "correct that line") -> ConfigError:
    return ConfigError(f"{file}, line {line}: {reason}", hint)
