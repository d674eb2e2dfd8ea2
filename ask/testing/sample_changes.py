"""Changes to sample answers: other texts, arguments and names in place of those that `EXPECTED` defines."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ask import RawEvent
from ask.parsing import parse_json
from ask.testing.conversation import iterate_fields, iterate_leaves

Replacements = Mapping[str, Any]
"""New values by the string in a sample that each replaces."""


def replace_values(value: Any, replacements: Replacements) -> Any:
    """Return a JSON value in which the strings that are keys of `replacements` are replaced."""
    if isinstance(value, Mapping):
        return {key: replace_values(part, replacements) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [replace_values(part, replacements) for part in value]
    return replacements.get(value, value) if isinstance(value, str) else value


def replace_objects(value: Any, old: Mapping[str, Any], new: Any) -> Any:
    """Return a JSON value in which each object that equals `old` is replaced."""
    if value == old:
        return new
    if isinstance(value, Mapping):
        return {key: replace_objects(part, old, new) for key, part in value.items()}
    return [replace_objects(part, old, new) for part in value] if isinstance(value, list | tuple) else value


def change_events(events: Sequence[RawEvent], replacements: Replacements) -> list[RawEvent]:
    """Return the events of a stream with strings in their data replaced."""
    changed = []
    for event in events:
        data = parse_json(event.data)
        new_data = replace_values(data, replacements)
        changed.append(event if new_data == data else event._replace(data=json.dumps(new_data)))
    return changed


def find_pieces(events: Sequence[RawEvent], text: str) -> list[str]:
    """Return the strings in which a stream contains a text, in order; [] if it contains it in another way."""
    position = 0
    pieces = []
    for event in events:
        for leaf in iterate_leaves(parse_json(event.data)):
            if isinstance(leaf, str) and leaf and position < len(text) and text.startswith(leaf, position):
                pieces.append(leaf)
                position += len(leaf)
    return pieces if position == len(text) else []


def find_arguments_text(value: Any, arguments: Mapping[str, Any]) -> str:
    """Return the string in a JSON value that is a call's arguments as JSON text; "" if there is none."""
    leaves = (leaf for leaf in iterate_leaves(value) if isinstance(leaf, str))
    return next((leaf for leaf in leaves if parse_json(leaf) == arguments), "")


def find_argument_pieces(events: Sequence[RawEvent], arguments: Mapping[str, Any]) -> list[str]:
    """Return the strings in which a stream contains a call's arguments as JSON text; [] if it has them otherwise."""
    pieces: dict[str, list[str]] = {}
    for event in events:
        for name, leaf in iterate_fields(parse_json(event.data)):
            if isinstance(leaf, str) and leaf:
                pieces.setdefault(name, []).append(leaf)
    return next((parts for parts in pieces.values() if parse_json("".join(parts)) == arguments), [])


def iterate_paths(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield all scalar values inside a JSON value, each with the names and positions that lead to it."""
    if isinstance(value, Mapping):
        for name, part in value.items():
            yield from iterate_paths(part, (*path, str(name)))
    elif isinstance(value, list | tuple):
        for i, part in enumerate(value):
            yield from iterate_paths(part, (*path, str(i)))
    else:
        yield path, value


def format_path(path: Sequence[str]) -> str:
    """Return a path as a name such as "messages.2.content"."""
    return ".".join(path)


def replace_paths(value: Any, paths: set[tuple[str, ...]], new: Any, path: tuple[str, ...] = ()) -> Any:
    """Return a JSON value in which the scalar values at some paths are replaced."""
    if isinstance(value, Mapping):
        return {name: replace_paths(part, paths, new, (*path, str(name))) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [replace_paths(part, paths, new, (*path, str(i))) for i, part in enumerate(value)]
    return new if path in paths else value
