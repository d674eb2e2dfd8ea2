"""`-t` and `--var`: the selected template and the values of its placeholders."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from ask.errors import AskError, ConfigError, UsageError
from ask.inputs.prompt_inputs import PromptInputs
from ask.messages import Message
from ask.records import NamedTuple
from ask.settings import check_model_option
from ask.suggestions import format_suggestion
from ask.templates.placeholders import INPUT_NAME, fill_placeholders, find_placeholders
from ask.templates.template import Template, find_template
from ask.text import decode_argument


class SelectedTemplate(NamedTuple):
    """A template with the values given by --var."""

    template: Template
    values: Mapping[str, str]
    inputs: PromptInputs | None = None
    """The resources, images and audio of a prompt of an MCP server; None for none."""
    opening_messages: tuple[Message, ...] = ()
    """The messages of a prompt of an MCP server that precede the user's."""

    @property
    def system_prompt(self) -> str:
        """The prompt's addition to the system prompt."""
        return fill_placeholders(self.template.system, self.values).strip()

    @property
    def has_prompt(self) -> bool:
        """Whether the template has user text, and not only a system prompt."""
        return bool(self.template.prompt.strip())

    def render_prompt(self, user_input: str) -> str:
        """Fill the placeholders; insert the user's input at {{input}}, or append it.

        `user_input` is the text, files and piped text; "" for none.

        Raises:
            UsageError: the prompt requires input and there is none.
        """
        text = self.template.prompt.strip()
        input_placeholders = [placeholder for placeholder in find_placeholders(text) if placeholder.name == INPUT_NAME]
        if not user_input and any(placeholder.default is None for placeholder in input_placeholders):
            raise UsageError(f"the template {self.template.name} needs input", "pipe text in, or add it as an argument")
        rendered = fill_placeholders(text, {**self.values, INPUT_NAME: user_input} if user_input else self.values)
        return rendered if input_placeholders or not user_input else f"{rendered}\n\n{user_input}"

    def select_tools(self, names: Sequence[str]) -> frozenset[str]:
        """Return which of the named tools the prompt allows.

        Raises:
            ConfigError: it names a tool that does not exist.
        """
        allowed, file = self.template.tools, self.template.file
        if isinstance(allowed, bool):
            return frozenset(names if allowed else ())
        for name in allowed:
            if name not in names:
                advice = format_suggestion(name, names, "ask tools lists them")
                raise ConfigError(f"{file}: unknown tool {name!r}", advice)
        return frozenset(allowed)


def select_template(
    template_name: str | None, variables: Iterable[str], user_directory: Path, *, has_columns: bool = False
) -> SelectedTemplate:
    """Find a template and check it, before any input is read.

    Args:
        template_name: the value of -t; None if it is not given.
        variables: the values of --var, as NAME=VALUE.
        user_directory: the folder of the user's own prompts.
        has_columns: whether the columns of rows fill in the placeholders of its text that have no value.

    Raises:
        UsageError: there is no such prompt, a value is missing, or it has no placeholder for one.
        ConfigError: the prompt is invalid.
    """
    if template_name is None:
        raise UsageError("--var needs a template", "add -t NAME (ask templates list shows them)")
    template = find_template(decode_argument(template_name), user_directory)
    values = parse_variables(map(decode_argument, variables), template.name, template.variables)
    for text in (template.system, "" if has_columns else template.prompt):
        for placeholder in find_placeholders(text):
            if placeholder.default is None and placeholder.name not in values and placeholder.name != INPUT_NAME:
                name = placeholder.name
                raise UsageError(f"the template {template.name} needs a value for {name}", f"add --var {name}=VALUE")
    try:
        for key, value in template.options.items():
            check_model_option(key, value)
    except AskError as error:
        raise ConfigError(f"{template.file}: in [options], {error.message}", error.hint) from None
    return SelectedTemplate(template, values)


def parse_variables(pairs: Iterable[str], template_name: str, names: Sequence[str]) -> dict[str, str]:
    """Parse the values of --var into a dictionary; `names` are the template's placeholders.

    Raises:
        UsageError: it is not NAME=VALUE, or the prompt has no such placeholder.
    """
    values: dict[str, str] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not name or not equals:
            raise UsageError(f"--var must be NAME=VALUE, not {pair!r}", "for example --var to=German")
        if name not in names:
            all_names = f"its placeholders: {', '.join(names)}" if names else "it has no placeholders"
            advice = format_suggestion(name, names, otherwise=all_names)
            raise UsageError(f"the template {template_name} has no placeholder {name!r}", advice)
        values[name] = value
    return values
