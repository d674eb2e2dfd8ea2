"""The arguments of `ask map`, and which of its options go together."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any

from ask.cli.map_shards import check_shard_flags
from ask.errors import UsageError
from ask.map.input_rows import check_inputs, find_equivalent_input
from ask.map.output_target import OUTPUT_SUFFIXES
from ask.map.sqlite_table import SqliteTable
from ask.text import decode_argument

TOOL_OPTIONS = {
    name: f"--{name.replace('_', '-')}" for name in ("safe", "safe_files", "context", "workdir_template", "max_rounds")
}
"""The options that have an effect only with `--tools`, by parameter name."""


def names_output(flags: Mapping[str, Any]) -> bool:
    """Check whether a command line scores the output of a job, because it has no prompt."""
    arguments = flags["arguments"]
    if not flags["score"] or not arguments or flags["template"] is not None:
        return False
    return os.path.isfile(arguments[0]) or SqliteTable.parse(arguments[0]) is not None


def parse_arguments(flags: Mapping[str, Any]) -> tuple[str, list[str]]:
    """Return the prompt, "" if it is that of a template, and the paths of the inputs.

    Raises:
        UsageError: there is no prompt or no input.
        FileError: an input cannot be read.
    """
    has_template = flags["template"] is not None
    if not has_template and not flags["arguments"]:
        raise UsageError("no prompt given", 'try: ask map "Language of this text: {{text}}" tickets.jsonl')
    prompt, *arguments = ("", *flags["arguments"]) if has_template else flags["arguments"]
    if not has_template and os.path.isfile(prompt):  # Path.is_file() raises an exception for a long prompt
        hint = f'put the prompt before it, such as: ask map "Language of this text: {{{{text}}}}" {prompt}'
        raise UsageError(f"{prompt} was taken as the prompt", hint)
    if re.fullmatch(r"@\S+", prompt):
        raise UsageError(f"{prompt} would be sent as it is, not as the file's content", f'write "$(cat {prompt[1:]})"')
    paths = [find_equivalent_input(path) for path in arguments]
    check_inputs(paths)
    return decode_argument(prompt), paths


def check_flags(flags: Mapping[str, Any]) -> None:
    """Check that the options go together.

    Raises:
        UsageError: they do not.
    """
    for option in flags["options"]:
        if option.endswith(OUTPUT_SUFFIXES) and "=" not in option:
            raise UsageError("-o sets a model parameter", f"to write the output to a file, use -O {option}")
    if flags["engine"] is not None and flags["key"]:
        raise UsageError("--key does not work with --engine", "set the key in the environment of the workers")
    check_shard_flags(flags)
    without_tools = [name for name in TOOL_OPTIONS if flags[name] and not flags["with_tools"]]
    if without_tools:
        raise UsageError(f"{TOOL_OPTIONS[without_tools[0]]} needs --tools", "add --tools")
    if flags["decide"] and flags["with_tools"]:
        raise UsageError("--decide and --tools cannot be combined", "leave out one of them")
