"""Which modules may import which, and how long files may be. Each test lists all violations at once."""

from __future__ import annotations

import ast
import gc
import re
import sys
import tomllib
import warnings
from collections.abc import Iterator
from contextlib import redirect_stdout
from functools import cache
from graphlib import CycleError, TopologicalSorter
from importlib.util import resolve_name
from io import StringIO
from itertools import chain
from pathlib import Path

import pytest

import ask

ROOT = Path(__file__).parents[1]
LAYERS = [
    {"__distribution__", "__version__", "records", "regular_files"},
    {"messages", "text"},
    {"errors"},
    {"process"},
    {"parsing"},
    {"attachments", "profiles"},
    {"atomic_files", "console"},
    {"text_diff"},
    {"config"},
    {"schemas"},
    {"plugin_api"},
    {"app", "events"},
    {"traces"},
    {"client"},
    {"tools", "history"},
    {"undo"},
    {"inputs"},
    {"templates"},
    {"login", "project"},
    {"acp", "mcp"},
    {"safety"},
    {"hooks"},
    {"agent"},
    {"map"},
    {"render"},
    {"compare", "export", "imports"},
    {"cli"},
    {"__main__"},
]
"""The modules, packages and constants of `ask`. Each imports only from lower layers, for types and in functions too."""
PACKAGES = {
    "acp": {"acp"},
    "click": {"cli", "__main__"},
    "jwt": {"login"},
    "referencing": {"schemas", "plugin_api"},
    "jsonschema_specifications": {"schemas", "plugin_api"},
    "requests": {"client", "tools", "traces"},
    "opentelemetry": {"traces"},
    "urllib3": {"client", "tools"},
    "certifi": {"client"},
    "idna": {"tools"},
    "bs4": {"tools"},
    "lxml": {"tools"},
    "ddgs": {"tools"},
    "genai_prices": {"client"},
    "keyring": {"config"},
    **{package: {"client"} for package in ("PIL", "mammoth", "pptx")},
    "openpyxl": {"client", "map"},
    **{package: {"map"} for package in ("dask", "distributed", "pyarrow")},
    "markdownify": {"tools", "client"},
    "pluggy": {"plugin_api"},
    "docstring_parser": {"tools"},
    "jsonschema": {"schemas"},
    "markdown_it": {"schemas", "render", "export"},
    "pygments": {"render"},
    "pathspec": {"inputs"},
    "tomli_w": {"config", "cli", "imports"},
    "tomlkit": {"config"},
    "yaml": {"project", "imports"},
    **{package: {"mcp"} for package in ("mcp", "mcp_types", "anyio", "httpx2", "pydantic", "cryptography")},
    "ask_completions": {"cli"},
    "prompt_toolkit": {"cli"},
    "ask_prompts": {"agent", "templates"},
    "ask_shell": {"cli"},
}
"""Third-party packages and the only modules of `ask` that may import them."""
TERMINAL_MODULES = {"curses", "getpass", "pty", "readline", "termios", "tty"}
USES_TERMINAL = {"safety", "render", "cli"}
OUTER_PARTS: dict[str, set[str]] = {
    "ask/testing": {
        "ask.errors",
        *(
            "ask.plugin_api.installed_plugins",
            "ask.plugin_api.loaded_provider",
            "ask.plugin_api.provider_loading",
            "ask.plugin_api.provider",
        ),
        *("ask.inputs.loaders", "ask.inputs.prompt_inputs", "ask.templates.loaded_template", "ask.process.time_limit"),
        *("ask.cli.commands", "ask.cli.plugin_commands", "click"),
        *("ask.parsing", "ask.config.redaction", "ask.testing", "ask.tools.arguments", "ask.tools.plugins.functions"),
        *("ask.tools.base", "ask.tools.plugins.plugin_process", "ask.tools.plugins.worker", "jsonschema", "pytest"),
    },
    "providers": {"ask.parsing", "ask.profiles"},
    "examples": {
        "ask.parsing",
        "ask.profiles",
        "ask.testing",
        "ask_extras_example",
        "ask_provider_example",
        "ask_provider_mistral_example",
        "ask_provider_program_example",
        "ask_tools_example",
        "click",
        "pytest",
    },
}
"""Imports allowed outside the core, besides the public `ask`, the standard library and relative modules.

The last entry that matches a file counts.
"""
FILE_LINES, FUNCTION_LINES = 700, 60
NAME_WITHOUT_UNIT = r"(?:TIMEOUT|INTERVAL|DELAY|PERIOD|PAUSE|_AGE|LENGTH|SIZE)$"
MAX_KEPT_PUBLIC_NAMES = 18
"""Functions without an underscore that only their own module uses, most of them in the public API."""
MAX_LOCAL_IMPORTS = 520
"""Imports inside functions, which exist for start-up time only."""


def python_files(*folders: str) -> list[Path]:
    found = sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))
    assert found, f"no file in {folders}"
    return found


@cache
def parse(path: Path) -> tuple[list[ast.AST], frozenset[ast.AST]]:
    """Return all nodes of a file, and those of them under `if TYPE_CHECKING`."""
    gc.disable()  # going through all these nodes again and again would take twice as long
    nodes = list(ast.walk(ast.parse(path.read_text())))
    gc.enable()
    guarded = [one for one in nodes if isinstance(one, ast.If) and getattr(one.test, "id", "") == "TYPE_CHECKING"]
    return nodes, frozenset(chain.from_iterable(ast.walk(part) for one in guarded for part in one.body))


def parse_statements(path: Path) -> list[ast.stmt]:
    """Return the statements of a module, without those in functions and classes."""
    module = parse(path)[0][0]
    assert isinstance(module, ast.Module)
    return module.body


def imports(path: Path, *, for_types: bool = True) -> Iterator[tuple[str, str]]:
    """Return each module that a file imports with the imported name, which is "" for the module itself."""
    nodes, type_checking = parse(path)
    for node in nodes:
        if node in type_checking and not for_types:
            continue
        if isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (("." * node.level + (node.module or ""), alias.name) for alias in node.names)


def module_name(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def absolute_imports(path: Path) -> Iterator[tuple[str, str]]:
    """Return the imports of a file at run time, with relative ones resolved."""
    package = ".".join(path.relative_to(ROOT).parent.parts)
    for module, name in imports(path, for_types=False):
        yield resolve_name(module, package) if module.startswith(".") else module, name


def core_files() -> Iterator[tuple[Path, str]]:
    """Return the files of `ask` except its public API and `ask.testing`, each with its entry in LAYERS."""
    for path in python_files("ask"):
        part = path.relative_to(ROOT / "ask").parts[0].removesuffix(".py")
        if part not in ("__init__", "testing"):
            yield path, part


def check(violations: Iterator[tuple[Path, str]]) -> None:
    found = [f"{path.relative_to(ROOT)}: {violation}" for path, violation in violations]
    assert not found, "\n".join(found)


def test_modules_import_only_from_lower_layers() -> None:
    def violations() -> Iterator[tuple[Path, str]]:
        for path, part in core_files():
            layer = next((number for number, parts in enumerate(LAYERS) if part in parts), None)
            if layer is None:
                yield path, "is new: add it to LAYERS"
                continue
            allowed = set().union(*LAYERS[:layer], {part} if path.parent != ROOT / "ask" else set())
            for module, name in imports(path):
                target = name if module == "ask" else module.removeprefix("ask.").split(".")[0]
                if module.startswith("."):
                    yield path, f"relative import of {module}"
                elif (module, name) == ("ask", ""):
                    yield path, "imports the public API, which is for plugins"
                elif module.split(".")[0] == "ask" and target not in allowed:
                    yield path, f"{part} must not import {target}"

    check(violations())


def test_no_import_cycles_exist_even_inside_functions() -> None:
    paths = {module_name(path): path for path in python_files("ask", "providers")}
    graph = {
        module: {
            f"{target}.{name}" if f"{target}.{name}" in paths else target for target, name in absolute_imports(path)
        }
        & set(paths)
        for module, path in paths.items()
    }
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" imports ".join(reversed(error.args[1])))


def test_few_imports_are_inside_functions() -> None:
    nodes = chain.from_iterable(parse(path)[0] for path in python_files("ask", "providers"))
    functions = [node for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    local = {
        node for function in functions for node in ast.walk(function) if isinstance(node, ast.Import | ast.ImportFrom)
    }
    assert len(local) <= MAX_LOCAL_IMPORTS


def test_functions_that_a_module_keeps_to_itself_start_with_an_underscore() -> None:
    """A function counts as offered to others if another file names it: as code, in a string or in CONTRIBUTING.md."""
    files = [
        path for folder in ("ask", "providers", "tests", "benchmarks", "examples") for path in python_files(folder)
    ]
    words = {path: set(re.findall(r"\w+", path.read_text())) for path in files}
    guide = set(re.findall(r"\w+", (ROOT / "CONTRIBUTING.md").read_text()))
    kept: list[str] = []
    for path in python_files("ask"):
        for node in parse_statements(path):
            # Click commands have decorators.
            if not isinstance(node, ast.FunctionDef) or node.name.startswith("_") or node.decorator_list:
                continue
            if node.name not in guide and not any(node.name in words[other] for other in files if other != path):
                kept.append(f"{module_name(path)}.{node.name}")
    assert len(kept) <= MAX_KEPT_PUBLIC_NAMES, "\n".join(kept)


def test_third_party_packages_and_the_terminal_are_used_only_in_declared_modules() -> None:
    def violations() -> Iterator[tuple[Path, str]]:
        for path, part in core_files():
            for package in {module.split(".")[0] for module, _ in imports(path, for_types=False)}:
                if package in TERMINAL_MODULES:
                    allowed = part in USES_TERMINAL
                else:
                    allowed = (
                        package in sys.stdlib_module_names or package == "ask" or part in PACKAGES.get(package, ())
                    )
                if not allowed:
                    yield path, f"{part} must not import {package}"

    check(violations())


def test_providers_examples_and_ask_testing_use_only_the_public_api() -> None:
    def violations() -> Iterator[tuple[Path, str]]:
        for path in python_files("ask/testing", "providers", "examples"):
            entry = [one for one in OUTER_PARTS if path.is_relative_to(ROOT / one)][-1]
            allowed = sys.stdlib_module_names | OUTER_PARTS[entry]
            for module, name in imports(path):
                if module == "ask":
                    if name not in ask.__all__:
                        yield path, f"{name!r} is not public"
                elif not module.startswith(".") and not any(f"{module}.".startswith(f"{one}.") for one in allowed):
                    yield path, f"must not import {module}"

    check(violations())


def test_files_and_functions_are_short() -> None:
    def violations() -> Iterator[tuple[Path, str]]:
        for path in python_files("ask", "providers", "examples"):
            length = path.read_text().count("\n")
            if length > FILE_LINES:
                yield path, f"{length} lines"
            for node in parse(path)[0]:
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                    lines = (
                        (node.end_lineno or node.lineno) - node.lineno + 1
                    )  # the first decorator is above the definition
                    if lines > FUNCTION_LINES:
                        yield path, f"{node.name} has {lines} lines"

    check(violations())


def test_constants_that_are_numbers_carry_their_unit() -> None:
    def violations() -> Iterator[tuple[Path, str]]:
        for path in python_files("ask", "providers"):
            for node in parse_statements(path):
                if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant | ast.BinOp | ast.Tuple):
                    values = ast.walk(node.value)
                    if any(
                        isinstance(value, ast.Constant) and isinstance(value.value, int | float) for value in values
                    ):
                        names = [name.id for name in ast.walk(node.targets[0]) if isinstance(name, ast.Name)]
                        yield from ((path, name) for name in names if re.search(NAME_WITHOUT_UNIT, name))

    check(violations())


def test_docstrings_name_errors_in_a_section() -> None:
    def violations() -> Iterator[tuple[Path, str]]:
        for path in python_files("ask", "providers"):
            for node in parse(path)[0]:
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                    text, _, section = (ast.get_docstring(node) or "").partition("Raises:\n")
                    if re.search(r"(?m)^Raises\b|[.;,] (?:or )?raises? an? \w+Error|\bis an? \w*Error\b", text):
                        yield path, f"{node.name}: an error outside the section Raises"
                    entries = [line for line in section.split("\n\n")[0].splitlines() if re.match(r" {4}\S", line)]
                    if not all(re.match(r" {4}[\w.]+(?:, [\w.]+)*: (?![A-Z][a-z])", entry) for entry in entries):
                        yield path, f"{node.name}: an entry that is not like 'FileError: it cannot be read.'"

    check(violations())


def test_every_package_is_installed() -> None:
    listed = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]
    folders = {str(file.parent.relative_to(ROOT)).replace("/", ".") for file in (ROOT / "ask").rglob("__init__.py")}
    assert folders == {name for name in listed if name.partition(".")[0] == "ask"}


def has_possessive_quantifier(text: str) -> bool:
    """Check whether a text is a regular expression with a possessive quantifier."""
    if not re.search(r"[*+?}]\+", text):
        return False
    with redirect_stdout(StringIO()) as instructions, warnings.catch_warnings(action="ignore"):
        try:
            re.compile(text, re.DEBUG)
        except (re.error, OverflowError):
            return False
    return "POSSESSIVE" in instructions.getvalue()


def test_no_pattern_has_a_possessive_quantifier() -> None:
    """Python before 3.11.5 does not match them correctly (https://github.com/python/cpython/issues/106052)."""

    def violations() -> Iterator[tuple[Path, str]]:
        for path in python_files("ask", "providers", "prompts", "shell", "examples", "benchmarks"):
            for node in parse(path)[0]:
                parts = node.values if isinstance(node, ast.JoinedStr) else [node]
                if all(isinstance(part, ast.Constant | ast.FormattedValue) for part in parts):
                    text = "".join(str(part.value) if isinstance(part, ast.Constant) else "(?:x)" for part in parts)
                    if has_possessive_quantifier(text):
                        yield path, text

    check(violations())


@pytest.mark.parametrize("text", ["a*+", "[ab]++", "(?:a|b)?+", "a{2,3}+", "+++", r"[*+]\+", "a+"])
def test_possessive_quantifiers_are_recognized(text: str) -> None:
    assert has_possessive_quantifier(text) == (text not in ("+++", r"[*+]\+", "a+"))
