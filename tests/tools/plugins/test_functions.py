"""Functions as tools: their specification, their arguments and their results."""

import asyncio
import os
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest

from ask import ToolContext, ToolError, ToolResult, tool
from ask.tools.plugins.functions import create_tool, to_tool_result
from ask.tools.plugins.type_hints import ToolDefinitionError

GOOGLE = """Look something up.

    It may take a while.

    Args:
        word: what to look for,
            in any case.
        count (int): how many at most.

    Returns:
        what was found
    """
NUMPY = """Look something up.

    It may take a while.

    Parameters
    ----------
    word : str
        what to look for,
        in any case.
    count : int, optional
        how many at most.

    Returns
    -------
    str
        what was found
    """
SPHINX = """Look something up.

    It may take a while.

    :param word: what to look for,
        in any case.
    :param int count: how many at most.
    :returns: what was found
    """


@pytest.fixture
def context(tmp_path: Path) -> ToolContext:
    return ToolContext(tmp_path, dict(os.environ), 5, tmp_path, lambda _: None)


@pytest.mark.parametrize("docstring", [GOOGLE, NUMPY, SPHINX], ids=["Google", "NumPy", "Sphinx"])
def test_a_docstring_describes_the_tool_and_each_parameter(docstring: str) -> None:
    def look_up(word: str, count: int = 3) -> str:
        return word * count

    look_up.__doc__ = docstring
    spec = create_tool(look_up).spec
    assert spec.name == "look_up"
    assert spec.description == "Look something up.\n\nIt may take a while."
    assert spec.parameters == {
        "type": "object",
        "properties": {
            "word": {"type": "string", "description": "what to look for,\nin any case."},
            "count": {"type": "integer", "description": "how many at most.", "default": 3},
        },
        "required": ["word"],
        "additionalProperties": False,
    }


def test_parameter_description_in_a_hint_overrides_the_docstring() -> None:
    def add(a: Annotated[int, "the first"], b: int) -> int:
        """Add.

        Args:
            a: overridden
            b: the second
        """
        return a + b

    properties = create_tool(add).spec.parameters["properties"]
    assert [part["description"] for part in properties.values()] == ["the first", "the second"]


def test_function_without_docstring_or_parameters_is_a_tool() -> None:
    def ping():  # type: ignore[no-untyped-def]
        return "pong"

    assert create_tool(ping).spec[:3] == (
        "ping",
        "",
        {"type": "object", "properties": {}, "additionalProperties": False},
    )


def test_decorator_keeps_the_function_and_overrides_its_description() -> None:
    @tool(name="sum-up", description="Sum.", has_side_effects=False)
    def add(a: int, b: int) -> int:
        """Add."""
        return a + b

    @tool
    def plain(a: int) -> int:
        """Plain."""
        return a

    assert add(1, 2) == 3
    assert (create_tool(add).spec.name, create_tool(add).spec.description, create_tool(add).has_side_effects) == (
        "sum-up",
        "Sum.",
        False,
    )
    assert (create_tool(plain).spec.description, create_tool(plain).has_side_effects) == ("Plain.", True)


@pytest.mark.parametrize("misuse", ["name", 5, int])
def test_decorator_accepts_only_functions(misuse: Any) -> None:
    with pytest.raises(TypeError, match="@tool decorates functions"):
        tool(misuse)


def hintless(a, b: int): ...  # type: ignore[no-untyped-def]
def bytes_inside(options: dict[str, list[bytes]]) -> None: ...
def many(*names: str) -> None: ...
def named(**names: str) -> None: ...
def unknown(a: "Nowhere") -> None: ...  # type: ignore[name-defined]  # noqa: F821
def none_by_default(a=None): ...  # type: ignore[no-untyped-def]


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (hintless, "hintless: the parameter a: no type hint; add one, such as a: str"),
        (none_by_default, "none_by_default: the parameter a: no type hint; add one, such as a: str"),
        (bytes_inside, "bytes_inside: the parameter options: bytes has no JSON Schema"),
        (many, "many: the parameter names: *names accepts any number of values; make it a list"),
        (named, "named: the parameter names: **names accepts any number of values; make it a dict"),
        (unknown, "unknown: its type hints cannot be evaluated (NameError: name 'Nowhere' is not defined)"),
        (int, "'int' is not a function"),
        (5, "'5' is not a function"),
    ],
)
def test_unsupported_function_is_refused_with_a_reason(function: Any, expected: str) -> None:
    with pytest.raises(ToolDefinitionError) as caught:
        create_tool(function)
    assert str(caught.value).replace("5 is", "'5' is") == expected


def test_type_comes_from_the_default_without_a_hint() -> None:
    def wait(seconds=1.5, /, loud=False): ...  # type: ignore[no-untyped-def]

    assert create_tool(wait).spec.parameters["properties"] == {
        "seconds": {"type": "number", "default": 1.5},
        "loud": {"type": "boolean", "default": False},
    }


def test_none_default_is_not_in_the_schema(context: ToolContext) -> None:
    def show(limit: int | None = None, most: int | None = 3) -> str:
        return f"{limit} {most}"

    made = create_tool(show)
    assert made.spec.parameters["properties"]["limit"] == {"type": "integer"}
    assert made.spec.parameters["properties"]["most"] == {"type": ["integer", "null"], "default": 3}
    assert made.run({}, context).text == "None 3"
    assert made.run({"limit": 1, "most": None}, context).text == "1 None"


class Colour(Enum):
    RED = "red"


@dataclass
class Box:
    colour: Colour
    size: float = 1


def test_function_gets_arguments_of_its_hinted_types(context: ToolContext) -> None:
    def pack(
        box: Box, names: set[str], path: Path, /, kind: Literal["a", "b"] = "a", *, colour: Colour = Colour.RED
    ) -> str:
        return repr((box, names, path.name, kind, colour))

    arguments = {"box": {"colour": "red", "size": 2}, "names": ["x"], "path": "a/b"}
    expected = repr((Box(Colour.RED, 2.0), {"x"}, "b", "a", Colour.RED))
    assert create_tool(pack).run(arguments, context).text == expected
    assert create_tool(pack).spec.parameters["properties"]["colour"]["default"] == "red"


@pytest.mark.parametrize("hint", [ToolContext, ToolContext | None, Annotated[ToolContext, "the run"]])
def test_context_is_passed_but_not_in_the_schema(hint: Any, context: ToolContext) -> None:
    def place(this, name: str) -> str:  # type: ignore[no-untyped-def]
        return f"{this.directory}/{name}"

    place.__annotations__["this"] = hint
    made = create_tool(place)
    assert list(made.spec.parameters["properties"]) == ["name"]
    assert made.run({"name": "x"}, context).text == f"{context.directory}/x"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("text", "text"),
        (None, ""),
        (3, "3"),
        (True, "true"),
        ({"größe": [1, None]}, '{"größe": [1, null]}'),
        ((1, 2), "[1, 2]"),
        (Box(Colour.RED), '{"colour": "red", "size": 1}'),
        ({"a": Path("x")}, '{"a": "x"}'),
        ([{1}], "[[1]]"),
        ({(1, 2): 3}, "{(1, 2): 3}"),
    ],
)
def test_a_result_is_text_or_json(value: object, text: str, context: ToolContext) -> None:
    def give() -> Any:
        return value

    assert create_tool(give).run({}, context) == ToolResult(text)


def test_tool_result_is_unchanged_and_errors_propagate(context: ToolContext) -> None:
    result = ToolResult("no", failed=True, exit_status=3)
    assert create_tool(returning(result)).run({}, context) is result

    def fail() -> None:
        raise ToolError("not today")

    with pytest.raises(ToolError, match="not today"):
        create_tool(fail).run({}, context)


def test_self_referencing_result_is_converted_to_text(context: ToolContext) -> None:
    loop: list[object] = []
    loop.append(loop)
    assert create_tool(returning(loop)).run({}, context).text == "[[...]]"


def test_coroutines_share_one_event_loop(context: ToolContext) -> None:
    loops = []

    async def nap(seconds: float) -> str:
        await asyncio.sleep(seconds)
        loops.append(asyncio.get_running_loop())
        return "slept"

    def later() -> Any:
        return nap(0)

    assert [create_tool(nap).run({"seconds": 0}, context).text, create_tool(later).run({}, context).text] == [
        "slept",
        "slept",
    ]
    assert loops[0] is loops[1]


def returning(value: object) -> Callable[[], object]:
    def give() -> object:
        return value

    return give


def test_an_async_run_of_a_tool_is_awaited() -> None:
    async def run(arguments: object, context: object) -> ToolResult:
        return ToolResult("done")

    assert to_tool_result(run({}, None)) == ToolResult("done")
