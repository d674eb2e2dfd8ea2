"""The public API: the names of `from ask import ...`. A change here is a change of the plugin contract."""

from __future__ import annotations

import ast
import inspect
import re
import sys
from importlib import import_module
from pathlib import Path

import pytest

import ask
from tests.program import run

PUBLIC = [
    "API_VERSION",
    "AskError",
    "Attachment",
    "Batch",
    "BatchApi",
    "BatchPage",
    "BatchRequest",
    "BatchResult",
    "ChatCompletions",
    "ChatRequest",
    "Citation",
    "DecisionAnswer",
    "DecisionApi",
    "DecisionQuestion",
    "DecisionRequest",
    "DecisionResponse",
    "Delta",
    "FinishReason",
    "HttpRequest",
    "Message",
    "ModelInfo",
    "ModelProfile",
    "ModelResponse",
    "PromptTemplate",
    "Provider",
    "ProviderError",
    "ProviderInfo",
    "ProviderState",
    "RawEvent",
    "ReasoningDelta",
    "Responses",
    "ResultsRequest",
    "RetryAction",
    "ServerToolCall",
    "ServerToolDelta",
    "StreamReader",
    "TextDelta",
    "Tool",
    "ToolCall",
    "ToolCallDelta",
    "ToolContext",
    "ToolError",
    "ToolResult",
    "ToolSpec",
    "Usage",
    "tool",
]


def test_the_docstring_describes_every_name_in_one_line() -> None:
    described = re.findall(r"^    (\w+)  +\S.*$", inspect.getdoc(ask) or "", re.MULTILINE)
    assert sorted(described) == sorted(ask.__all__)


def imports_for_types() -> dict[str, str]:
    """Return the names that type checkers see in `ask`, each with its module."""
    tree = ast.parse(Path(str(ask.__file__)).read_text())
    nodes = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module != "__future__"]
    return {alias.name: str(node.module) for node in nodes for alias in node.names if str(node.module)[:4] == "ask."}


def test_exactly_these_names_are_public() -> None:
    assert ask.__all__ == PUBLIC
    assert len(PUBLIC) <= 46


def test_an_interactive_session_completes_the_names_without_loading_them() -> None:
    code = "import ask, rlcompleter, sys; complete = rlcompleter.Completer({'ask': ask}).complete; names = []\n"
    code += "while name := complete('ask.', len(names)): names.append(name.rstrip('('))\n"
    code += "print(*names); print(sum(name.startswith('ask.') for name in sys.modules))"
    names, loaded = run([sys.executable, "-c", code]).text.splitlines()
    assert {f"ask.{name}" for name in PUBLIC} <= {*names.split()}
    assert loaded == "0"


def test_help_is_short_and_lists_only_public_modules() -> None:
    shown = run([sys.executable, "-c", "import ask; help(ask)"]).text
    assert shown.count("\n") <= 600
    assert "    tool  " in shown
    listed = shown.partition("PACKAGE CONTENTS\n")[2].partition("\n\n")[0]
    assert [line.split()[0] for line in listed.splitlines()] == ["parsing", "testing"]
    assert "CLASSES" not in shown


def test_names_are_sorted_constants_then_classes_then_functions() -> None:
    assert ask.__all__ == sorted(ask.__all__, key=lambda name: (not name.isupper(), name))


@pytest.mark.parametrize("name", PUBLIC)
def test_every_name_is_importable_and_the_one_type_checkers_see(name: str) -> None:
    assert getattr(ask, name) is getattr(import_module(imports_for_types()[name]), name)


def test_type_checkers_and_programs_see_the_same_names() -> None:
    assert sorted(imports_for_types()) == sorted(ask.__all__)


def test_importing_ask_loads_no_other_module() -> None:
    code = "import sys, ask; print([m for m in sys.modules if m.startswith('ask.') or m in ('click', 'pluggy')])"
    assert run([sys.executable, "-c", code]).text == "[]\n"


def test_a_name_loads_only_what_it_needs() -> None:
    code = "import sys; from ask import Usage; print([m for m in sys.modules if m.startswith('ask.')])"
    assert run([sys.executable, "-c", code]).text == "['ask.records', 'ask.messages']\n"


@pytest.mark.parametrize("name", ["Mesage", "run", "_Message", "__path_of_nothing__"])
def test_a_misspelled_name_is_an_attribute_error_with_that_name(name: str) -> None:
    with pytest.raises(AttributeError, match=f"module 'ask' has no attribute '{name}'"):
        getattr(ask, name)


def test_a_misspelled_import_is_an_import_error() -> None:
    result = run([sys.executable, "-c", "from ask import Mesage"])
    assert result.code == 1
    assert "ImportError: cannot import name 'Mesage' from 'ask'" in result.stderr


def test_the_api_version_is_2() -> None:
    assert ask.API_VERSION == 2


@pytest.mark.parametrize("name", PUBLIC)
def test_every_public_class_and_function_has_a_docstring(name: str) -> None:
    thing = getattr(ask, name)
    if not (inspect.isclass(thing) or inspect.isfunction(thing)):
        return
    assert read_docstring(thing), f"{name} has no docstring"
    for part, method in vars(thing).items() if inspect.isclass(thing) else ():
        if inspect.isfunction(method) and not part.startswith(("_", "provider_")):  # `Provider` documents the hooks
            docstring = inspect.getdoc(method) or inspect.getdoc(getattr(ask.StreamReader, part, method))
            assert docstring, f"{name}.{part} has no docstring"


def read_docstring(thing: object) -> str:
    """Return the docstring, unless it was generated from the fields."""
    text = getattr(thing, "__doc__", None) or ""
    return "" if text.startswith(f"{getattr(thing, '__name__', '')}(") else text
