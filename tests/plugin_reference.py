"""Generates the reference of the plugin API from its docstrings and signatures.

`make generated` writes docs/plugin-reference.md.
"""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import Enum
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import ask
import ask.parsing
import ask.testing
from ask import Provider, messages
from ask.messages import Role
from ask.plugin_api import compatibility
from ask.records import _Record  # type: ignore[attr-defined]

PAGE = Path(__file__).parents[1] / "docs" / "plugin-reference.md"
INTRODUCTION = """\
# Plugin API reference

The public names of `ask`, `ask.parsing` and `ask.testing`. `make generated` writes this page from their docstrings, \
which `help(ask.Provider)` and the like show, too. The guides are [Writing a provider](providers.md), \
[Your own tools](tools.md) and [Loaders and commands](loaders.md).

"""
SECTION_HEADING = re.compile(r"^(Args|Attributes|Raises|Returns|Yields):$", re.MULTILINE)
ENTRY = re.compile(r"^(\w[\w., ]*): ", re.MULTILINE)
ALIASES = {"Role": str(Role).replace("typing.", "").replace("'", '"')}
"""Names in annotations that are not public, and what they stand for."""
SPECIAL_DEFAULTS = {"mappingproxy({})": "{}", "frozenset()": "()"}


class Docstring(NamedTuple):
    """A docstring without its sections, and the entries of each section by name."""

    text: str
    sections: Mapping[str, Mapping[str, str]]


def parse_docstring(docstring: str) -> Docstring:
    text, *rest = SECTION_HEADING.split(inspect.cleandoc(docstring))
    sections = {}
    for heading, body in zip(rest[::2], rest[1::2], strict=True):
        block = textwrap.dedent(body.strip("\n"))
        first, *entries = ENTRY.split(block)
        assert not first.strip(), f"not an entry: {first!r}"
        sections[heading] = {name: join_lines(entry) for name, entry in zip(entries[::2], entries[1::2], strict=True)}
    return Docstring(join_paragraphs(text), sections)


def join_lines(text: str) -> str:
    return " ".join(text.split())


def join_paragraphs(text: str) -> str:
    """Put each paragraph and each item of a list on one line; keep indented code."""
    blocks = []
    for block in re.split(r"\n\n|\n(?=- )", text.strip()):
        is_code = block.startswith("    ")
        blocks.append(f"```python\n{textwrap.dedent(block)}\n```" if is_code else join_lines(block))
    text = "\n\n".join(blocks).replace("\n```\n\n```python\n", "\n\n")
    return re.sub(r"^(- .*)\n\n(?=- )", r"\1\n", text, flags=re.MULTILINE)


# Signatures and values


def format_annotation(annotation: Any) -> str:
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    text = re.sub(r"Annotated\[(\w+), \w+\]", r"\1", text)
    text = re.sub(r"ClassVar\[(.*)\]$", r"\1", text)
    return re.sub(r"\w+", lambda match: ALIASES.get(match[0], match[0]), text)


def format_default(default: Any) -> str:
    if isinstance(default, Enum):
        return f"{type(default).__name__}.{default.name}"
    if isinstance(default, str):
        return f'"{default}"'
    if isinstance(default, _Record):
        name = type(default).__name__
        set_values = [
            value for field, value in default._asdict().items() if value != default._field_defaults.get(field)
        ]
        return f"{name}({', '.join(map(format_default, set_values))})"
    return SPECIAL_DEFAULTS.get(repr(default), repr(default))


def format_parameter(parameter: inspect.Parameter) -> str:
    stars: dict[object, str] = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}
    text = stars.get(parameter.kind, "") + parameter.name
    if parameter.annotation is not inspect.Parameter.empty:
        text += f": {format_annotation(parameter.annotation)}"
    has_default = parameter.default is not inspect.Parameter.empty
    return f"{text} = {format_default(parameter.default)}" if has_default else text


def format_signature(function: Callable[..., Any]) -> str:
    """Return the parameters and the result, with their types."""
    signature = inspect.signature(function)
    parameters = [each for name, each in signature.parameters.items() if name not in ("self", "cls")]
    parts = [format_parameter(each) for each in parameters]
    kinds = [each.kind for each in parameters]
    if inspect.Parameter.KEYWORD_ONLY in kinds and inspect.Parameter.VAR_POSITIONAL not in kinds:
        parts.insert(kinds.index(inspect.Parameter.KEYWORD_ONLY), "*")
    result = signature.return_annotation
    arrow = "" if result in (inspect.Signature.empty, "None", None) else f" -> {format_annotation(result)}"
    return f"({', '.join(parts)}){arrow}"


def code(text: str) -> str:
    """Format code in a cell of a table, in which a | must be escaped."""
    return "`" + text.replace("|", r"\|") + "`" if text else ""


def cell(text: str) -> str:
    return re.sub(r"(?<!\\)\|", r"\|", text)


def build_table(heading: str, rows: Sequence[Sequence[str]]) -> str:
    columns = heading.count(" | ") + 1
    lines = [f"| {heading} |", "|---" * columns + "|", *(f"| {' | '.join(row)} |" for row in rows)]
    return "\n".join(lines)


# Parts of the page


def describe_object(name: str, value: Any, level: str = "###") -> Iterator[str]:
    """Yield the heading of a public name and what its docstring says, with the members of a class."""
    if isinstance(value, type) and issubclass(value, _Record) and value is not ask.RetryAction:
        yield from describe_record(name, value, level)
    elif isinstance(value, type):
        yield from describe_class(name, value, level)
    elif inspect.isfunction(value):
        yield f"{level} {name}"
        yield f"```python\n{name}{format_signature(value)}\n```"
        yield from describe_docstring(parse_docstring(value.__doc__ or ""))


def describe_docstring(docstring: Docstring) -> Iterator[str]:
    """Yield the text, and a list of the entries of each section."""
    yield docstring.text
    for heading, entries in docstring.sections.items():
        yield "\n".join([f"{heading.replace('Args', 'Arguments')}:\n", *map(format_entry, entries.items())])


def format_entry(entry: tuple[str, str]) -> str:
    names, text = entry
    return f"- {', '.join(map(code, names.split(', ')))}: {text}"


def describe_record(name: str, record: Any, level: str) -> Iterator[str]:
    yield f"{level} {name}"
    docstring = parse_docstring(record.__doc__)
    yield docstring.text
    described = docstring.sections.get("Attributes", {})
    assert list(described) == list(record._fields), f"{name}: the docstring describes {list(described)}"
    annotations = inspect.get_annotations(record)
    yield build_table(
        "field | type | default | meaning",
        [
            (
                code(field),
                code(format_annotation(annotations[field])),
                code(format_default(record._field_defaults[field])) if field in record._field_defaults else "",
                cell(described[field]),
            )
            for field in record._fields
        ],
    )
    yield from describe_members(name, record, level)


def describe_class(name: str, value: type, level: str) -> Iterator[str]:
    yield f"{level} {name}"
    constructor = vars(value).get("__init__")
    if inspect.isfunction(constructor) and value is not ask.StreamReader:  # a protocol has one of typing's
        yield f"```python\n{name}{format_signature(constructor)}\n```"
    base = value.__bases__[0]
    if issubclass(base, Exception | Provider):
        yield f"A subclass of `{base.__name__}`."
    yield from describe_docstring(parse_docstring(value.__doc__ or ""))
    attributes = [
        (code(attribute), code(format_annotation(annotation)), cell(join_lines(text)))
        for attribute, (annotation, text) in read_attribute_docstrings(value).items()
    ]
    if attributes:
        yield build_table("attribute | type | meaning", attributes)
    yield from describe_members(name, value, level)


def read_attribute_docstrings(value: type) -> dict[str, tuple[str, str]]:
    """Return the type and the docstring of each attribute that is followed by one in the source."""
    if issubclass(value, Enum) or value.__module__.startswith("ask.testing"):
        return {}
    (class_node,) = ast.parse(textwrap.dedent(inspect.getsource(value))).body
    assert isinstance(class_node, ast.ClassDef)
    found = {}
    for node, following in pairwise(class_node.body):
        match node, following:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                found[name] = (ast.unparse(node.annotation).replace("'", '"'), join_paragraphs(inspect.cleandoc(text)))
            case ast.Assign(targets=[ast.Name(id=name)]), ast.Expr(value=ast.Constant(value=str(text))):
                found[name] = (type(getattr(value, name)).__name__, join_paragraphs(inspect.cleandoc(text)))
    return found


def describe_members(name: str, value: type, level: str) -> Iterator[str]:
    """Yield the public methods and properties that a class defines with a docstring of their own."""
    if value.__module__.startswith("ask.testing"):
        members = {"prepare": value.prepare} if hasattr(value, "prepare") else {}
    else:
        members = {key: member for key, member in vars(value).items() if not key.startswith("_")}
    fields = getattr(value, "_fields", ()) if issubclass(value, _Record) else ()
    for key, member in members.items():
        function = member.__func__ if isinstance(member, staticmethod | classmethod) else member
        if (
            key in fields
            or not (inspect.isfunction(function) or isinstance(function, property))
            or not function.__doc__
        ):
            continue
        if isinstance(function, property):
            result = inspect.signature(function.fget).return_annotation if function.fget else ""
            yield f"{level}# {name}.{key}"
            yield f"A property of type `{format_annotation(result)}`."
        else:
            yield f"{level}# {key if key.startswith('provider_') else f'{name}.{key}'}"
            yield f"```python\n{key}{format_signature(function)}\n```"
        yield from describe_docstring(parse_docstring(function.__doc__))


def read_groups() -> Iterator[tuple[str, list[str]]]:
    """Yield the headings in the docstring of `ask`, each with the names below it."""
    for heading, names in re.findall(r"^(\S.*):\n\n((?:    \w+  +\S.*\n)+)", ask.__doc__ or "", re.MULTILINE):
        yield heading, re.findall(r"^    (\w+)", names, re.MULTILINE)


def describe_package() -> Iterator[str]:
    for heading, names in read_groups():
        yield f"## {heading}"
        for name in names:
            if name == "API_VERSION":
                yield f"### API_VERSION\n\n`{ask.API_VERSION}`. {read_constants(compatibility)[name]}"
            elif name == "Delta":
                yield f"### Delta\n\n{read_constants(messages)[name]}"
            else:
                yield from describe_object(name, getattr(ask, name))


def read_constants(module: ModuleType) -> dict[str, str]:
    """Return the docstrings of a module's constants."""
    body = ast.parse(inspect.getsource(module)).body
    found = {}
    for node, following in pairwise(body):
        target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
        if (
            isinstance(target, ast.Name)
            and isinstance(following, ast.Expr)
            and isinstance(following.value, ast.Constant)
        ):
            found[target.id] = join_lines(str(following.value.value))
    return found


def describe_module(module: ModuleType) -> Iterator[str]:
    yield f"## {module.__name__}"
    yield from describe_docstring(parse_docstring(module.__doc__ or ""))
    constants = read_constants(module)
    for name in module.__all__:
        value = getattr(module, name)
        if isinstance(value, type) or inspect.isfunction(value):
            yield from describe_object(name, value)
        else:
            source = module if name in constants else inspect.getmodule(ask.testing.ExpectedAnswer)
            assert source
            yield f"### {name}"
            yield read_constants(source)[name]
            if name == "EXPECTED":
                yield describe_samples()


def describe_samples() -> str:
    def format_call(call: tuple[str, Mapping[str, Any]]) -> str:
        return f"`{call[0]}({', '.join(f'{name}={value!r}' for name, value in call[1].items())})`"

    rows = []
    for kind, expected in ask.testing.EXPECTED.items():
        parts = [f"the reasoning {expected.reasoning!r}"] if expected.reasoning else []
        parts += ["any text"] if expected.text is None else [f"the text {expected.text!r}"] if expected.text else []
        parts += [f"calls of {', '.join(map(format_call, expected.calls))}"] if expected.calls else []
        end = f'an error that contains "{expected.error}"' if expected.error else f"`{expected.finish_reason}`"
        rows.append((code(kind), ", ".join(parts).replace("'", '"'), "no end marker" if expected.is_cut else end))
    return build_table("kind | content | end", rows)


def generate() -> dict[Path, str]:
    """Return the page."""
    parts = [*describe_package(), *describe_module(ask.parsing), *describe_module(ask.testing)]
    return {PAGE: INTRODUCTION + "\n\n".join(part for part in parts if part) + "\n"}
