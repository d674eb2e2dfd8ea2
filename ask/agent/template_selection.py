"""`-t` and `--var`: the named prompt that is asked with, and what its placeholders stand for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from ask.errors import AskError, ConfigError, UsageError
from ask.inputs.text import check_model_option
from ask.suggestions import suggest
from ask.templates.files import find_template
from ask.templates.placeholders import INPUT_NAME, fill_placeholders, find_placeholders
from ask.templates.template import Template
from ask.text import decode_argument


class SelectedTemplate(NamedTuple):
    """A named prompt with what --var gives for it."""

    template: Template
    values: Mapping[str, str]

    @property
    def system_prompt(self) -> str:
        """What it adds to the system prompt."""
        return fill_placeholders(self.template.system, self.values).strip()

    @property
    def has_prompt(self) -> bool:
        """Whether it has a text of its own to be asked."""
        return bool(self.template.prompt.strip())

    def render_prompt(self, user_input: str) -> str:
        """Its text with what the user gave: where {{input}} stands, else at the end.

        Args:
            user_input: the words, files and piped text; "" for none.

        Raises:
            UsageError: nothing is given, and it needs something.
        """
        text = self.template.prompt.strip()
        wanted = [place for place in find_placeholders(text) if place.name == INPUT_NAME]
        if not user_input and any(place.default is None for place in wanted):
            raise UsageError(f"the prompt {self.template.name} has nothing to work on", "pipe it in or say it in words")
        filled = fill_placeholders(text, {**self.values, INPUT_NAME: user_input} if user_input else self.values)
        return filled if wanted or not user_input else f"{filled}\n\n{user_input}"

    def select_tools(self, names: Sequence[str]) -> frozenset[str]:
        """Which of the tools of these names it allows to be offered.

        Raises:
            ConfigError: it names one that does not exist.
        """
        allowed, file = self.template.tools, self.template.file
        if isinstance(allowed, bool):
            return frozenset(names if allowed else ())
        for name in allowed:
            if name not in names:
                near = suggest(name, names)
                advice = f"did you mean {near}?" if near else "ask tools lists them"
                raise ConfigError(f"{file}: there is no tool {name!r}", advice)
        return frozenset(allowed)


def select_template(template_name: str | None, variables: Iterable[str], user_directory: Path) -> SelectedTemplate:
    """The named prompt of that name, checked as far as can be before anything is read.

    Args:
        template_name: what -t says; None where it is not given.
        variables: what --var says, as NAME=VALUE.
        user_directory: the folder of the user's own.

    Raises:
        UsageError: there is none, or it lacks a value, or has no use for one.
        ConfigError: it is broken.
    """
    if template_name is None:
        raise UsageError("--var has no meaning without -t", "name a prompt: ask prompts list")
    template = find_template(decode_argument(template_name), user_directory)
    values = parse_variables(map(decode_argument, variables), template)
    for text in (template.system, template.prompt):
        for place in find_placeholders(text):
            if place.default is None and place.name not in values and place.name != INPUT_NAME:
                name = place.name
                raise UsageError(f"the prompt {template.name} needs a value for {name}", f"add --var {name}=VALUE")
    check_template_options(template)
    return SelectedTemplate(template, values)


def parse_variables(pairs: Iterable[str], template: Template) -> dict[str, str]:
    """What --var says, by name.

    Raises:
        UsageError: no NAME=VALUE, or a name that does not stand in the prompt.
    """
    values: dict[str, str] = {}
    known = template.variables
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not name or not equals:
            raise UsageError(f"--var takes NAME=VALUE, not {pair!r}", "for example --var to=German")
        if name not in known:
            near = suggest(name, known)
            advice = f"did you mean {near}?" if near else f"it has {', '.join(known)}" if known else "it has none"
            raise UsageError(f"the prompt {template.name} has no placeholder {name!r}", advice)
        values[name] = value
    return values


def check_template_options(template: Template) -> None:
    """Refuse a model parameter that -o would not take either.

    Raises:
        ConfigError: there is one.
    """
    try:
        for key, value in template.options.items():
            check_model_option(key, value)
    except AskError as fault:
        raise ConfigError(f"{template.file}: in [options], {fault.message}", fault.advice) from None
