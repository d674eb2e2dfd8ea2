"""The documentation matches the program: lists are compared with the code, and examples are run."""

from __future__ import annotations

import ast
import inspect
import json
import re
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import click
import pytest

import ask
import ask.parsing
import ask.testing
from ask import Provider
from ask.cli.ask import command
from ask.cli.commands import COMMANDS
from ask.cli.history import command as history_command
from ask.cli.keys import command as keys_command
from ask.client.certificates import CA_VARIABLES
from ask.config.config_file import PROVIDER_KEYS, read_config
from ask.config.key_store import SIGN_IN_PROVIDERS, format_variable_prefix, list_key_variables
from ask.config.options import RunOptions
from ask.config.precedence import resolve_settings
from ask.config.settings import SETTINGS, Settings
from ask.errors import AskError
from ask.plugin_api.provider import REQUIRED_HOOKS, list_hook_names
from ask.plugin_api.types import DEFAULT_STALL_SECONDS
from ask.tools.definitions import BUILTIN_TOOLS, SEARCH_WEB
from ask.tools.search_engine import KEYED_ENGINES
from tests import responses_wire, wire
from tests.doc_pages import (
    Example,
    find_code_blocks,
    find_code_spans,
    matches_documented_output,
    parse_console_steps,
    read_section,
    read_table,
)
from tests.model_server import ModelServer
from tests.program import PROGRAMS, Ask, Home, run, run_on_terminal
from tests.provider_table import list_providers
from tests.third_party_plugins import install, install_provider

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
PAGES = {path.stem: path.read_text() for path in (ROOT / "docs").glob("*.md")}
PROVIDERS = PAGES["providers"]
REFERENCE = PAGES["plugin-reference"]
COMPATIBLE_SERVICE = read_section(PROVIDERS, "## A compatible service")
THREE_LINES, SUBCLASS, MISTRAL, RESPONSES, PROFILES = find_code_blocks(COMPATIBLE_SERVICE, "python")
PYTEST = [str(PROGRAMS / "pytest"), "-q", "-n0", "-p", "no:cacheprovider"]
STANDARD = {"HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY", "NO_PROXY", *CA_VARIABLES}
"""Variables of other programs that ask also reads."""


# The command line

OPTIONS = {name: option for option in command.params for name in option.opts}


@pytest.mark.parametrize("name", ["max_rounds", "command_timeout", "timeout"])
def test_help_states_the_actual_defaults(name: str) -> None:
    option = next(option for option in command.params if option.name == name)
    assert isinstance(option, click.Option)
    defaults = {**Settings._field_defaults, "timeout": DEFAULT_STALL_SECONDS}
    assert f"({defaults[name]:g}" in (option.help or "")


def subcommands() -> Iterator[click.Command]:
    """All of them, and what groups consist of."""
    for name in COMMANDS:
        one: click.Command = import_module(f"ask.cli.{name}").command
        yield one
        if isinstance(one, click.Group):
            with one.context_class(one) as context:
                yield from filter(None, (one.get_command(context, each) for each in one.list_commands(context)))


USAGE = PAGES["usage"].replace(read_section(PAGES["usage"], "## Names in other programs"), "")
"""The page without what `tests.cli.test_synonyms` compares with the code."""
OTHERS = {"-r", "--staged", "-type", "-size", "--strict"}
"""Options of jq, git, find and mypy in examples."""


def test_text_names_only_existing_options() -> None:
    known = {*OPTIONS, "-h", "--help", *OTHERS}
    known |= {name for one in subcommands() for option in one.params for name in option.opts}
    assert set(re.findall(r"(?<![\w-])--?[a-zA-Z][a-z-]*(?![\w.])", README + USAGE + PROVIDERS)) <= known


def test_pages_list_exactly_the_subcommands_of_history_and_keys() -> None:
    assert {*re.findall(r"`ask keys (\w+)", USAGE)} | {"list"} == set(keys_command.commands)
    assert re.findall(r"^\| `ask history (\w+)", PAGES["history"], re.MULTILINE) == list(history_command.commands)


def test_the_page_on_safety_lists_exactly_the_tools() -> None:
    assert [find_code_spans(row)[0] for row in read_table(PAGES["safety"], "tool")] == [
        *(tool.spec.name for tool in BUILTIN_TOOLS),
        SEARCH_WEB.name,
    ]


def test_the_page_on_scripts_lists_exactly_the_exit_codes() -> None:
    def branches(error: type[AskError]) -> Iterator[type[AskError]]:
        yield error
        for branch in error.__subclasses__():
            yield from branches(branch)

    codes = {error.exit_code for error in branches(AskError) if error.__module__ == "ask.errors"}
    assert [int(code) for code in read_table(PAGES["scripts"], "code")] == sorted({0, *codes})


# Configuration


def test_the_page_on_configuration_lists_exactly_the_config_keys(tmp_path: Path) -> None:
    (text,) = find_code_blocks(PAGES["configuration"], "toml")
    values = tomllib.loads(text)
    providers, options, aliases = (values.pop(name) for name in ("providers", "options", "aliases"))
    tables = {name: value for name, value in values.items() if isinstance(value, dict)}
    flat = {f"{name}.{key}" for name, value in tables.items() for key in value} | values.keys() - tables.keys()
    assert flat == set(SETTINGS)
    assert {key for provider in providers.values() for key in provider} == set(PROVIDER_KEYS)
    (tmp_path / "config.toml").write_text(text)
    config = read_config(tmp_path / "config.toml")
    assert not config.warnings
    assert config.aliases == aliases
    chosen = {name: values[name] for name in ("system", "max_cost", "max_cost_per_day", "timeout", "context_limit")}
    chosen |= {"options": options, "disabled_tools": frozenset(tables["tools"]["disabled"])}
    chosen |= {"search_engine": tables["search"]["engine"], "skill_folders": tuple(tables["skills"]["folders"])}
    assert resolve_settings(RunOptions(), {}, config) == Settings(**chosen), "all else in the example is the default"


OTHER_PROGRAMS = {
    *("STY", "TMUX", "TMUX_PANE", "LC_TERMINAL"),
    *(
        "COLORTERM",
        "DIRENV_CONFIG",
        "DIRENV_WATCHES",
        "GIT_TEMPLATE_DIR",
        "HOME",
        "MISE_CONFIG_DIR",
        "MISE_STATE_DIR",
        "PATH",
        "PWD",
        "PYTHONPYCACHEPREFIX",
        "SHELL",
        "TERM",
        "TERM_PROGRAM",
        "VIMINIT",
        "ZDOTDIR",
        "DISPLAY",
        "SSH_CONNECTION",
        "SSH_TTY",
        "TMUX",
        "WAYLAND_DISPLAY",
    ),
}
"""Variables of the system, terminals, zsh, git, direnv, Python and Vim, which users do not set for ask."""


def test_the_page_on_configuration_lists_exactly_the_extras() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"].keys() - {"dev"}
    sentence = read_section(PAGES["configuration"], "## Extras").partition(".")[0]
    assert set(find_code_spans(sentence)) == extras


def test_the_page_on_configuration_lists_exactly_the_environment_variables() -> None:
    source = "\n".join(path.read_text() for path in (ROOT / "ask").rglob("*.py"))
    read = set(re.findall(r"environment\.get\(\"([A-Z_]+)\"", source)) - OTHER_PROGRAMS
    read |= {setting.variable for setting in SETTINGS.values() if setting.variable}
    read |= {f"XDG_{kind}_HOME" for kind in ("CONFIG", "DATA", "CACHE")} | {
        *list_key_variables("<name>"),
        *("<NAME>_BASE_URL", "<NAME>_API_BASE"),
    }
    for _, provider in list_providers():
        info = provider.provider_info()
        read |= {*info.key_env, *info.base_url_env} - {*list_key_variables(info.name)}
    read |= {list_key_variables(name)[0] for name in KEYED_ENGINES}
    read |= {f"{format_variable_prefix(name)}_{kind}" for name in SIGN_IN_PROVIDERS for kind in ("ACCOUNT", "ISSUER")}
    documented = {name for row in read_table(PAGES["configuration"], "variable") for name in find_code_spans(row)}
    assert documented == read | STANDARD
    mentioned = set(re.findall(r"\b[A-Z]+(?:_[A-Z]+)+\b", PAGES["configuration"])) - {
        "OPENROUTER_API_KEY",
        "OPENROUTER_BASE_URL",
    }
    assert mentioned - {"GROQ_API_KEY"} <= {name.replace("<NAME>_", "") for name in documented} | {"AI_"}


# JSON output


def test_the_page_on_scripts_lists_the_fields_of_the_json_object(home: Home) -> None:
    section = PAGES["scripts"].partition("## JSON")[2].partition("`--events`")[0]
    documented = set(find_code_spans(section))
    result = json.loads(Ask(home.env, home.work)("--json", "-p", "demo", "which files are here?").text)
    assert documented - {"--json"} == set(result)


# Examples


def examples(text: str) -> Iterator[Example]:
    """Return the examples that need neither a network nor an installer."""
    recipe = re.search(r"^demo:.*\n\t@\$\(BIN\)/(.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert recipe
    for block in find_code_blocks(text, "console"):
        run_here = []
        for shown, output in parse_console_steps(block):
            line = recipe[1] if shown == "make demo" else shown.partition("   #")[0].strip()
            if "-p demo" in line or re.search(rf"\bask (-c|{'|'.join(COMMANDS)})\b", line):
                run_here.append((line, output))
        if run_here:
            yield Example(run_here)


EXAMPLES = [
    *examples(README),
    *(
        example
        for name in ("usage", "history", "configuration", "scripts", "providers")
        for example in examples(PAGES[name])
    ),
]
JQ = f"""#!{sys.executable}
import json, sys
_, raw, path = sys.argv
assert (raw, path) == ("-r", ".tool_calls[].name"), "only what the documentation asks of jq"
print(*(call["name"] for call in json.load(sys.stdin)["tool_calls"]), sep="\\n")
"""
"""Replaces a program that is not available on every machine."""


@pytest.mark.parametrize(
    "example",
    [
        pytest.param(example, id=example.lines[0], marks=pytest.mark.slow if number > 1 else [])
        for number, example in enumerate(EXAMPLES)
    ],
)
def test_examples_print_the_documented_output(home: Home, example: Example) -> None:
    programs = home.path / "programs"
    programs.mkdir()
    (programs / "jq").write_text(JQ)
    (programs / "jq").chmod(0o755)
    env = {**home.env, "PATH": f"{programs}:{home.env['PATH']}"}
    for line, output in example.steps:
        if "keys set" in line:
            answers = [(output.splitlines()[0], "sk-1\n")]
            result = run_on_terminal(["bash", "-c", line], env=env, cwd=home.work, answers=answers)
        else:
            result = run(["bash", "-c", f"({line}) 2>&1"], env=env, cwd=home.work)
        assert result.code == 0
        assert matches_documented_output(result.text, output), result.text


def test_examples_are_found() -> None:
    lines = {line for example in EXAMPLES for line in example.lines}
    assert lines >= {'ask -p demo "which files are here?"', "ask keys set openrouter", "ask history"}


@pytest.mark.parametrize("page", [ROOT / "README.md", *(ROOT / "docs").glob("*.md")], ids=lambda page: page.name)
def test_link_targets_exist(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
        assert "://" in target or (page.parent / target).exists(), target


# docs/providers.md


@pytest.fixture
def with_example_provider(ask: Ask, home: Home, server: ModelServer) -> Ask:
    """`ask` with the three-line provider of the page installed."""
    text, _ = find_code_blocks(COMPATIBLE_SERVICE, "toml")
    project = tomllib.loads(text)
    entry_points = project["project"]["entry-points"]["ask.providers"]
    (module,) = project["tool"]["setuptools"]["py-modules"]
    packages = install(home.path / "packages", project["project"]["name"], entry_points, {module: THREE_LINES})
    env = {"PYTHONPATH": str(packages), "GROQ_API_KEY": "sk-groq-123456", "GROQ_BASE_URL": server.base_url}
    return replace(ask, env={**ask.env, **env})


def test_the_three_line_provider_is_listed_and_answers(with_example_provider: Ask, server: ModelServer) -> None:
    ask = with_example_provider
    (script,) = find_code_blocks(COMPATIBLE_SERVICE, "sh")
    server.reply(wire.says("Hello."))
    listing, answer = (line.partition("#")[0] for line in script.splitlines() if line.startswith("ask "))
    assert "\ngroq\tgroq\tllama-3.3-70b-versatile\tGROQ_API_KEY\t" in ask.shell(listing).text
    assert ask.shell(answer).text == "Hello.\n"


def test_the_provider_for_mistral_is_that_of_the_example() -> None:
    folder = ROOT / "examples/ask-provider-mistral-example"
    assert (folder / "ask_provider_mistral_example.py").read_text().count(MISTRAL) == 1


def test_the_responses_provider_answers(ask: Ask, home: Home, server: ModelServer) -> None:
    packages = install_provider(home.path / "packages", "parley", RESPONSES)
    server.reply(responses_wire.says("Hello."))
    env = {"PYTHONPATH": str(packages), "PARLEY_API_KEY": "sk-parley-123456", "PARLEY_BASE_URL": server.base_url}
    assert ask("-p", "parley", "hi", env=env).text == "Hello.\n"
    assert server.requests[0].json["model"] == "parley-1"


def test_the_subclass_renames_the_parameter(ask: Ask, home: Home, server: ModelServer) -> None:
    packages = install_provider(home.path / "packages", "example", SUBCLASS)
    server.reply(wire.says("Hello."))
    env = {"PYTHONPATH": str(packages), "EXAMPLE_API_KEY": "sk-example-123456", "EXAMPLE_BASE_URL": server.base_url}
    assert ask("-p", "example", "-o", "max_tokens=500", "hi", env=env).text == "Hello.\n"
    body = server.requests[0].json
    assert (body["max_output_tokens"], "max_tokens" in body) == (500, False)


@pytest.mark.slow
def test_the_provider_with_profiles_adapts_options(ask: Ask, home: Home, server: ModelServer) -> None:
    packages = install_provider(home.path / "packages", "parley", PROFILES)
    server.reply(wire.says("Hello."))
    env = {"PYTHONPATH": str(packages), "PARLEY_API_KEY": "sk-parley-123456", "PARLEY_BASE_URL": server.base_url}
    assert ask("-p", "parley", "-o", "reasoning_effort=none", "hi", env=env).text == "Hello.\n"
    assert server.requests[0].json["thinking"] is False
    result = ask("-p", "parley", "-o", "temperature=0.5", "hi", env=env)
    assert (result.code, len(server.requests)) == (7, 1)
    result = ask("-p", "parley", "-m", "parley-1", "-o", "reasoning_effort=low", "hi", env=env)
    assert (result.code, len(server.requests)) == (7, 1)


def test_the_table_that_selects_an_api_works(ask: Ask, home: Home, server: ModelServer) -> None:
    _, table = find_code_blocks(COMPATIBLE_SERVICE, "toml")
    home.configure(table)
    server.reply(responses_wire.says("Hello."))
    result = ask("-p", "lmstudio", "-m", "local", "hi", env={"LMSTUDIO_BASE_URL": server.base_url})
    assert (result.text, server.requests[0].path) == ("Hello.\n", "/api/v1/responses")


@pytest.mark.slow
def test_the_three_line_provider_passes_the_contract_suite(with_example_provider: Ask, home: Home) -> None:
    (suite,) = find_code_blocks(read_section(PROVIDERS, "## Test it"), "python")
    (home.work / "test_groq.py").write_text(suite)
    command = [*PYTEST, f"--basetemp={home.path}/pytest", "test_groq.py"]
    tested = run(command, env=with_example_provider.env, cwd=home.work, timeout=60)
    assert tested.code == 0, tested.text
    assert " passed" in tested.text


def test_a_config_toml_table_with_the_same_keys_does_the_same(ask: Ask, home: Home, server: ModelServer) -> None:
    values = tomllib.loads(find_code_blocks(PAGES["configuration"], "toml")[0])["providers"]["groq"]
    sentence = next(line for line in PROVIDERS.splitlines() if "[providers.groq]" in line)
    assert set(PROVIDER_KEYS) == set(values) == set(find_code_spans(sentence)) - {"[providers.groq]"}
    without_limit = re.sub(
        r"max_cost\w* = .*", "", find_code_blocks(PAGES["configuration"], "toml")[0]
    )  # a cost limit cannot be enforced with this service
    home.configure(without_limit)
    server.reply(wire.says("Hello."))
    assert ask("-p", "groq", "hi", env={"GROQ_API_KEY": "sk-1", "GROQ_BASE_URL": server.base_url}).code == 0
    assert server.requests[0].json["model"] == values["model"]


def test_the_guide_names_hooks_with_their_arguments() -> None:
    named = {find_code_spans(row)[0] for row in read_table(PROVIDERS, "hook")}
    named |= {span for span in find_code_spans(PROVIDERS) if re.fullmatch(r"provider_\w+\(.*\)", span)}
    assert len(named) > len(REQUIRED_HOOKS)
    for hook, arguments in (re.findall(r"(\w+)\((.*)\)", span)[0] for span in named):
        parameters = [name for name in inspect.signature(getattr(Provider, hook)).parameters if name != "self"]
        assert arguments.split(", ") == (parameters or [""])


def test_the_guide_is_short() -> None:
    assert len(PROVIDERS.split()) <= 2500


def test_examples_import_only_public_names() -> None:
    blocks = [block for page in ("providers", "tools", "loaders") for block in find_code_blocks(PAGES[page], "python")]
    sources = [*blocks, *(path.read_text() for path in (ROOT / "examples").rglob("*.py"))]
    nodes = [node for source in sources for node in ast.walk(ast.parse(source)) if isinstance(node, ast.ImportFrom)]
    imported = {
        (str(node.module), alias.name)
        for node in nodes
        if str(node.module).partition(".")[0] == "ask"
        for alias in node.names
    }
    modules = {"ask": ask, "ask.parsing": ask.parsing, "ask.testing": ask.testing}
    assert imported <= {(name, public) for name, module in modules.items() for public in module.__all__}


def test_links_into_the_reference_lead_to_a_heading() -> None:
    headings = {heading.replace(".", "").lower() for heading in re.findall(r"^#+ (\S+)$", REFERENCE, re.MULTILINE)}
    links = [link for page in PAGES.values() for link in re.findall(r"\(plugin-reference\.md#([\w-]+)\)", page)]
    assert links
    assert {*links} <= headings


def test_the_reference_describes_every_public_name() -> None:
    headings = re.findall(r"^#+ (\S+)$", REFERENCE, re.MULTILINE)
    assert {*ask.__all__, *ask.parsing.__all__, *ask.testing.__all__, *list_hook_names()} <= {*headings}
    descriptions = re.split(r"^#+ .*$", REFERENCE, flags=re.MULTILINE)[1:]
    undescribed = [text for text in descriptions if not re.sub(r"```.*?```", "", text, flags=re.DOTALL).strip()]
    assert len(undescribed) == len(re.findall(r"^## (?!ask)", REFERENCE, re.MULTILINE)), "the headings of groups"


def test_the_signatures_in_the_reference_are_valid_python() -> None:
    signatures = re.findall(r"```python\n(\w+\(.*\)( -> .*)?)\n```", REFERENCE)
    assert signatures
    for signature, _ in signatures:
        ast.parse(f"def {signature}: ...")


def test_the_reference_describes_the_attributes_that_the_guide_sets() -> None:
    mistral = (ROOT / "examples/ask-provider-mistral-example/ask_provider_mistral_example.py").read_text("utf-8")
    attributes = re.findall(r"^    (\w+) = ", mistral, re.MULTILINE)
    assert attributes
    assert {*attributes} <= {*re.findall(r"^\| `(\w+)` \|", REFERENCE, re.MULTILINE)}


def test_every_documented_name_of_ask_exists() -> None:
    for name in {
        name for name in find_code_spans(README + PROVIDERS + REFERENCE) if re.fullmatch(r"ask(\.\w+)+", name)
    }:
        module, _, attribute = name.rpartition(".")
        assert hasattr(import_module(module), attribute) or import_module(name), name
