"""`-t PREFIX:REST`: templates from loaders, which are not the user's own.

Their text is the prompt, and tells the model what to do. Beyond that, they cannot choose where it is sent or what that
costs, and they can only leave out tools.
"""

from __future__ import annotations

from pathlib import Path

from ask.app import AppContext
from ask.config.settings import Settings
from ask.inputs.loaders import create_readers, load_template, split_source
from ask.inputs.prompt_inputs import InputReaders
from ask.messages import EMPTY_MAPPING
from ask.plugin_api.types import PromptTemplate
from ask.templates.template import Template, list_template_files, parse_template
from ask.text import decode_argument, format_one_line, join_names

MAX_NAMED_KEYS = 4
OWN_KEYS = {"provider": "", "model": "", "options": EMPTY_MAPPING}
"""The keys that only a template of the user's own can set, and their defaults."""


def is_loaded_template(name: str, app: AppContext) -> bool:
    """Check whether a loader has the prefix of a name. A template of the user, or a built-in one, comes first."""
    parts = split_source(name, app)
    return parts is not None and parts[0] not in list_template_files(app.app_dirs.templates)


def read_loaded_template(source: str, settings: Settings, app: AppContext) -> Template:
    """Return the template of PREFIX:REST, without the keys that only a template of the user's own can set.

    Raises:
        AskError: the loader cannot be loaded or has failed, or the template is invalid.
    """
    readers = create_readers(settings, app)
    return create_loaded_template(source, load_template(source, readers, app), readers)


def create_loaded_template(source: str, content: PromptTemplate | str, readers: InputReaders) -> Template:
    """Return a template that a loader has returned, or from the text of its file. Ignored keys are reported.

    Raises:
        ConfigError: it is invalid.
    """
    title = format_one_line(decode_argument(source))
    if isinstance(content, PromptTemplate):
        prompt, system, description = content
        return Template(title, Path(title), description, system, prompt.strip())
    template = parse_template(Path(title), content.removeprefix("\ufeff").replace("\r\n", "\n"))._replace(name=title)
    if ignored := [key for key, default in OWN_KEYS.items() if getattr(template, key) != default]:
        names = join_names(ignored, MAX_NAMED_KEYS)
        readers.notify(f"ignoring {names} of {title}, which only a template of your own can set")
    return template._replace(provider="", model="", options=EMPTY_MAPPING)
