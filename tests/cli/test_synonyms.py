"""What users of other programs type: options and commands under other names, and advice for the rest."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator

import click
import pytest

from ask.cli.ask import OUTPUT_FORMAT_PARAMETERS, SYNONYMS
from ask.cli.ask import command as ask_command
from ask.cli.commands import COMMANDS, load_command
from ask.cli.commands import SYNONYMS as COMMAND_SYNONYMS
from ask.cli.map import command as map_command
from ask.cli.usage_errors import COMMANDS_BY_WORD, OPTION_PATTERN, OPTIONS_BY_ADVICE
from tests import wire
from tests.doc_pages import read_section
from tests.model_server import ModelServer
from tests.program import CTRL_C, Ask, Home
from tests.provider_wires import SERVICES, Wire
from tests.test_docs import PAGES, ROOT

BLOCKS = "First:\n\n```sh\nls\n```\n\nBetter:\n\n```sh\nls -A\n```\n\nDone."
COMING_FROM = read_section(PAGES["usage"], "## Names in other programs")


def asked(server: ModelServer) -> str:
    (request,) = server.requests
    return wire.asked(request.json)


def without_ids(body: object) -> str:
    """Return a request without the conversation's ID, which some services get."""
    return re.sub(r'"[a-f][0-9a-f]{11}"', '""', json.dumps(body))


# The tables


def list_names(command: click.Command) -> set[str]:
    return {name for param in command.params if isinstance(param, click.Option) for name in param.opts}


def test_advice_names_options_and_commands_that_exist() -> None:
    commands = (ask_command, map_command, load_command(["history", "delete"]))
    names = [list_names(command) for command in commands if command]
    for advice in OPTIONS_BY_ADVICE:
        options = {*re.findall(OPTION_PATTERN, advice)} - {"--help"}
        assert any(options <= known for known in names), advice
        for name, action in re.findall(r"\bask (\w+)(?: (set|add|new))?\b", advice):
            assert name in ("about", "prints") or load_command([name, action] if action else [name]), advice


def test_no_option_of_ask_needs_advice() -> None:
    advised = {name for names in OPTIONS_BY_ADVICE.values() for name in names.split()}
    synonyms = {name for names in SYNONYMS.values() for name in names}
    known = list_names(ask_command)
    only_in_ask = OPTIONS_BY_ADVICE["leave out the command to use it"].split()
    assert advised & known <= {"--continue", "--resume", "--color", "-C", "--cd", *only_in_ask}
    assert not synonyms & known


def test_synonyms_are_of_commands_that_exist() -> None:
    for target in {*COMMAND_SYNONYMS.values(), *COMMANDS_BY_WORD.values()}:
        assert load_command(target.split()[:2]) is not None, target
    assert not COMMANDS_BY_WORD.keys() & COMMANDS.keys()


def list_hidden() -> Iterator[str]:
    yield from (name for names in SYNONYMS.values() for name in names)
    yield "--output-format"


def test_synonyms_are_not_in_help_reference_and_completions(ask: Ask) -> None:
    for name in list_hidden():
        for text in (ask("--help", "--all").text, read_section(PAGES["options"], "## Options")):
            assert not re.search(rf"(?<![\w-]){name}(?![\w-])", text), name
    for script in ("ask.bash", "ask.fish", "ask.zsh"):
        text = (ROOT / "completions" / script).read_text()
        for name in {*list_hidden()} - {"--cwd"}:  # an option of `ask mcp add`
            assert len(name) == 2 or not re.search(rf"(--|-l ){name[2:]}(?![\w-])", text), (script, name)


def test_the_page_names_all_synonyms() -> None:
    for name in (*list_hidden(), *OUTPUT_FORMAT_PARAMETERS, *(f"ask {words}" for words in COMMAND_SYNONYMS)):
        assert re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", COMING_FROM), name


# Options


@pytest.mark.parametrize("option", ["-n", "--no-log", "-qn", "--no-save"])
def test_runs_are_not_saved(option: str, ask: Ask, server: ModelServer) -> None:
    server.reply(wire.says("yes"))
    assert ask("hello", option).code == 0
    assert asked(server) == "hello"
    assert ask("history").text == ""


@pytest.mark.parametrize("options", ["-a notes.txt", "-anotes.txt", "--attachment notes.txt", "--attachment=notes.txt"])
def test_files_are_attached(options: str, ask: Ask, server: ModelServer) -> None:
    (ask.cwd / "notes.txt").write_text("milk and bread")
    server.reply(wire.says("yes"))
    (ask.cwd / "rows.txt").write_text("one row\n")
    for command, inputs in (([], []), (["map"], ["rows.txt"])):
        server.requests.clear()
        assert ask(*command, *options.split(), "what is on the list?", *inputs).code == 0
        assert "milk and bread" in asked(server)


@pytest.mark.parametrize("value", OUTPUT_FORMAT_PARAMETERS)
@pytest.mark.parametrize("form", ["--output-format {}", "--output-format={}"])
def test_output_formats(value: str, form: str, ask: Ask, server: ModelServer) -> None:
    server.reply(wire.says("yes"))
    own = {"text": [], "json": ["--json"], "stream-json": ["--events"]}[value]
    results = [ask("-n", "hello", *options).text for options in (form.format(value).split(), own)]
    first, second = (re.sub(r'"conversation": "\w+"', "", text) for text in results)
    assert first == second
    assert ask("hello", "--json", "--output-format", "stream-json").code == 2


@pytest.mark.parametrize("option", ["-x", "--extract", "--xl", "--extract-last"])
def test_the_last_code_block_is_printed(option: str, ask: Ask, server: ModelServer) -> None:
    server.reply(wire.says(BLOCKS))
    result = ask(option, "how do I list files?")
    assert (result.text, result.stderr, result.code) == ("ls -A\n", "", 0)
    assert ask("how do I list files?").text == f"{BLOCKS}\n"
    first, second = (without_ids(request.json) for request in server.requests)
    assert first == second  # unlike --code, it does not change what is sent


def test_an_answer_without_a_code_block_is_extracted_completely(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.says("No code.\n"))
    assert ask("-x", "hello").text == "No code.\n"
    assert json.loads(ask("-x", "--json", "hello").text)["text"] == "No code."
    for option in ("--code", "--cmd"):
        assert ask("-x", option, "hello").code == 2


def test_code_is_extracted_from_a_conversation_on_a_terminal(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.says(BLOCKS))
    assert "First" not in (text := ask.on_terminal("-x", "how do I list files?").text)
    assert "ls -A" in text


@pytest.mark.parametrize("option", ["-u", "--usage"])
def test_usage_is_printed_to_stderr(option: str, ask: Ask, server: ModelServer) -> None:
    server.reply(wire.says("yes"))
    result = ask("hello", option)
    assert result.text == "yes\n"
    assert re.search(r"\d+ tokens in, \d+ out", result.stderr)
    assert ask("hello").stderr == ""


@pytest.mark.parametrize("service", SERVICES.values(), ids=SERVICES)
def test_the_effort_reaches_each_provider_in_its_own_form(
    service: Wire, ask: Ask, home: Home, server: ModelServer
) -> None:
    server.reply(service.says("yes"))
    root = server.base_url.removesuffix("/api/v1")
    name = service.name.upper()
    ask = Ask({**ask.env, f"{name}_API_KEY": "sk-test-0123", f"{name}_BASE_URL": root + service.address}, ask.cwd)
    bodies = []
    for options in (["--effort", "high"], ["-o", "reasoning_effort=high"], []):
        server.requests.clear()
        result = ask("-p", service.name, "-m", service.model, *options, "hello")
        assert result.code in (0, 7), result.stderr
        bodies.append([without_ids(request.json) for request in server.requests if request.method == "POST"])
    assert bodies[0] == bodies[1]
    assert result.code == 0


def test_an_effort_that_a_model_does_not_have_is_an_error_before_anything_is_sent(
    ask: Ask, server: ModelServer
) -> None:
    env = {"OPENAI_API_KEY": "sk-test-0123", "OPENAI_BASE_URL": server.base_url}
    assert ask("-m", "openai:gpt-4o", "--effort", "high", "hello", env=env).code == 7
    assert server.requests == []


def test_ask_works_in_another_folder(ask: Ask, server: ModelServer) -> None:
    (ask.cwd / "sub").mkdir()
    (ask.cwd / "sub" / "here.txt").write_text("found")
    server.reply(wire.calls(("list_dir", {"dirpath": "."})), wire.says("yes"))
    for option in ("-C sub", "-Csub", "--cd sub", "--cwd=sub"):
        server.requests.clear()
        assert ask(*option.split(), "-f", "here.txt", "which files?").code == 0
        assert "found" in wire.asked(server.requests[0].json)
    result = ask("-C", "nowhere", "hello")
    assert (result.code, result.stderr.count("\n"), "nowhere" in result.stderr) == (2, 1, True)


def test_commands_work_in_another_folder(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.says("yes"))
    (ask.cwd / "sub").mkdir()
    assert ask("-C", "sub", "in the folder").code == 0
    assert ask("history", "list", "--here").text == ""
    assert "in the folder" in ask("-C", "sub", "history", "list", "--here").text
    for option in ("-C sub", "-Csub", "--cd sub", "--cwd=sub"):
        assert "in the folder" in ask(*option.split(), "list", "--here").text
    assert ask("-C", "nowhere", "undo").code == ask("-C").code == 2
    assert len(server.requests) == 1


def test_a_folder_alone_opens_a_chat_there_on_a_terminal(ask: Ask) -> None:
    (ask.cwd / "sub").mkdir()
    (ask.cwd / "sub" / "here.txt").write_text("found")
    env = {"ASK_PROVIDER": "demo"}
    shown = ask.on_terminal(
        "-C", "sub", answers=[("\x1b[2C", "which files are here?\r"), ("here.txt", "\x04")], env=env
    )
    assert (shown.code, "here.txt" in shown.text) == (0, True)
    assert ask.on_terminal("-C", env=env).code == ask("-C", "sub", env=env).code == 2


@pytest.mark.slow
def test_colors_are_chosen_by_an_option(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.says("# Title\n\n`code`\n"))
    assert "\x1b[" in ask("hello", "--color", "always", "-v").stderr
    assert "\x1b[" not in ask("hello", "--color", "never", "-v", env={"FORCE_COLOR": "1"}).stderr
    colored = r"\x1b\[[0-9;]*3[0-9]"
    assert re.search(colored, ask.on_terminal("hello", "--color=auto").text)
    assert not re.search(colored, ask.on_terminal("hello", "--color=never").text)


def test_a_dash_is_standard_input(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.says("yes"))
    assert ask("-", stdin=b"what is this?").code == 0
    assert asked(server) == "what is this?"
    assert ask("-", "-q", stdin=b"").code == 2
    server.requests.clear()
    assert ask.on_terminal("-", answers=[("", "typed here\n\x04")]).code == 0
    assert asked(server) == "typed here"


# Commands


@pytest.fixture
def saved(ask: Ask, server: ModelServer) -> Ask:
    """With a saved conversation."""
    server.reply(wire.says("because of scattering"))
    assert ask("why is the sky blue?").code == 0
    server.requests.clear()
    return ask


@pytest.mark.parametrize(
    ("other", "own"),
    [
        ("logs", "history list"),
        ("logs list", "history list"),
        ("list", "history list"),
        ("logs -n 3", "history list -n 3"),
        ("list --json", "history list --json"),
        ("stats", "history stats"),
        ("stats --days 3", "history stats --days 3"),
        ("history 1", "history show 1"),
        ("history 1 --json", "history show 1 --json"),
        ("auth status", "keys list"),
        ("providers list", "providers"),
        *[(f"{name} ls", f"{name} list") for name in ("history", "keys", "mcp", "config", "templates", "tools")],
        ("models list -p demo", "models -p demo"),
    ],
)
def test_commands_of_other_programs_run_their_own(other: str, own: str, saved: Ask, server: ModelServer) -> None:
    results = [saved(*words.split()) for words in (other, own)]
    assert results[0].stdout == results[1].stdout
    assert results[0].code == results[1].code == 0
    assert server.requests == []


def test_a_conversation_is_shown_by_its_id(saved: Ask) -> None:
    (conversation,) = json.loads(saved("history", "--json").text)
    for reference in (conversation["id"], conversation["id"][:6]):
        assert "because of scattering" in saved("history", reference).text


@pytest.mark.parametrize("words", ["logs", "list", "auth login", "history rm", "models default", "logs list --all"])
def test_help_is_shown_for_commands_of_other_programs(words: str, ask: Ask, server: ModelServer) -> None:
    own = COMMAND_SYNONYMS[words.removesuffix(" --all")].split()[:2]
    result = ask("help", *words.split())
    assert (result.code, server.requests) == (0, [])
    assert result.text.startswith(f"Usage: ask {' '.join(own)} ")
    assert result.text == ask(*own, "--help", *words.split()[2:]).text


@pytest.mark.parametrize(
    "words",
    [
        "list the largest files",
        "logs list all errors",
        "auth login fails with 403",
        "stats of this table",
        "'list the files' -q",
        "-- list",
        "-q logs",
    ],
)
def test_questions_may_begin_with_such_words(words: str, ask: Ask, server: ModelServer) -> None:
    server.reply(wire.says("yes"))
    assert ask(*shlex.split(words)).code == 0
    assert len(server.requests) == 1


def test_the_default_model_is_set_and_printed(ask: Ask) -> None:
    assert ask("models", "default").code == 4
    assert ask("models", "default", "openai:gpt-9").code == 0
    assert ask("models", "default").text == ask("config", "get", "model").text == "openai:gpt-9\n"


def test_templates_are_deleted(ask: Ask, home: Home) -> None:
    folder = home.config / "templates"
    folder.mkdir(parents=True)
    for name in ("one", "two", "commit"):
        (folder / f"{name}.md").write_text("Mine.")
    refused = ask("templates", "delete", "one")
    assert (refused.code, (folder / "one.md").exists()) == (2, True)
    assert ask("templates", "rm", "one", "--yes").code == 0
    assert ask.on_terminal("templates", "remove", "two", answers=[("[y/N]", "n\n")]).code == 130
    assert ask.on_terminal("templates", "delete", "two", answers=[("[y/N]", "y\n")]).code == 0
    assert ask("templates", "delete", "commit", "-y").code == 0
    assert [*folder.iterdir()] == []
    assert "commit" in ask("templates").text  # the built-in one
    for name in ("commit", "nosuch", "../config"):
        assert ask("templates", "delete", name, "-y").code == 2


@pytest.mark.parametrize(
    ("words", "command"),
    [
        *[(word, COMMANDS_BY_WORD[word]) for word in ("auth", "sessions", "settings", "repl")],
        *[("aliases set x y", "config"), ("template list", "templates"), ("modles list", "models")],
        *[("key delete openai", "keys"), ("conversations rm 1", "history"), ("skill install x", "skills")],
    ],
)
def test_words_that_are_commands_elsewhere_are_confirmed_on_a_terminal(
    words: str, command: str, ask: Ask, server: ModelServer
) -> None:
    shown = ask.on_terminal(*words.split(), answers=[("[y/N]", CTRL_C)])
    assert (shown.code, server.requests) == (130, [])
    assert f"ask {command}" in shown.text


@pytest.mark.slow
def test_questions_that_resemble_such_words_are_sent_without_confirmation(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.says("yes"))
    questions = ("aliases in bash", "status of port 80", "which keys list", "tool to list all files")
    for words in questions:
        assert ask.on_terminal(*shlex.split(words)).code == 0
    assert len(server.requests) == len(questions)


# Advice


@pytest.mark.parametrize(
    ("arguments", "advice"),
    [
        ("--approve hi", "--yes"),
        ("--yolo hi", "--yes"),
        ("--force hi", "--yes approves what --confirm would ask about"),
        ("history delete --force 1", "--yes to skip the question"),
        ("map --force hi in.txt", "--fresh"),
        ("map --format csv hi in.txt", "--output"),
        ("--deny rm hi", "replaces"),
        ("--dangerously-skip-permissions hi", "--yes"),
        ("--dangerously-bypass-approvals-and-sandbox hi", "--yes"),
        ("--full-auto hi", "--safe --yes"),
        ("hi --full-auto", "--safe --yes"),
        ("--reasoning high hi", "--effort"),
        ("--permission-mode plan hi", "--confirm"),
        ("--temperature 0.2 hi", "--option temperature=VALUE"),
        ("--max-turns 3 hi", "--max-rounds"),
        ("--print hi", "without an option"),
        ("-r abc hi", "--resume"),
        ("--proxy http://proxy:3128 hi", "HTTPS_PROXY"),
        ("map --insecure x y", "REQUESTS_CA_BUNDLE"),
        ("--retries 3 hi", "network.tries"),
        ("--screen-reader hi", "--plain"),
        ("--describe-shell 'ls -l'", "--template explain"),
        ("--schema-multi 'name, age int' hi", "[{name, age int}]"),
        ("-p 'why is the sky blue?'", 'ask "why is the sky blue?"'),
        ("-p --output-format json hi", "-p selects a provider"),
        ("chat --yolo", "--yes"),
        ("map --parallel 3 x y", "--jobs"),
        ("map --resume x y", "the same command"),
        ("map --input rows.csv x", "--input-format"),
        ("mcp add files npx -y server-filesystem .", "ask mcp add NAME -- COMMAND"),
        ("-Z hi", "To begin a question with a dash, put -- before it"),
        ("'-Z means what?'", "To begin a question with a dash, put -- before it"),
        ("config my vim", "ask -- config my vim"),
        ("models list of prices", "ask -- models list of prices"),
        ("keys set theory", "ask -- keys set theory"),
        ("compact disc", "ask -- compact disc"),
        ("templates show me", "ask -- templates show me"),
        ("history of rome", "ask -- history of rome"),
        ("list --bogus", "ask history list --help"),
        ("auth login", "PROVIDER is missing"),
        ("history --color never", "NO_COLOR"),
        ("--safe --network hi", "--allow-command-host"),
        ("map -C sub x y", "ask -C DIR COMMAND"),
        ("history list --cwd sub", "ask -C DIR COMMAND"),
        ("history delete --all", "--older-than 0d"),
        ("--no-safe hi", "ASK_SAFE"),
        ("models --free", "ask models | grep"),
        ("models free", "ask models | grep"),
        ("config provider ollama", "ask config set KEY VALUE"),
        ("init", "use bash, zsh or fish"),
        ("--safe --allow-host *.example.com hi", "name each host"),
        ("map --delete x", "--forget ID"),
        ("map x postgres://localhost/db", "pipe the rows in"),
    ],
)
def test_what_is_unknown_is_refused_with_advice(arguments: str, advice: str, ask: Ask, server: ModelServer) -> None:
    result = ask(*shlex.split(arguments))
    assert (result.code in (2, 4), result.stdout, result.stderr.count("\n")) == (True, b"", 1)
    assert advice in result.stderr
    assert server.requests == []


@pytest.mark.parametrize("arguments", ["history search", "keys set", "auth login", "undo --nosuch"])
def test_a_command_without_its_arguments_is_not_taken_for_a_question(arguments: str, ask: Ask) -> None:
    result = ask(*arguments.split())
    assert (result.code, "as a question" in result.stderr) == (2, False)


# What was meant as something else


def test_an_empty_pipe_is_named_if_there_is_nothing_else_to_send(ask: Ask, server: ModelServer) -> None:
    for options in ([], ["-t", "commit"]):
        assert "stdin is empty" in (result := ask(*options, stdin=b"")).stderr
        assert (result.code, result.stderr.count("\n")) == (2, 1)
        assert "stdin is empty" not in ask(*options).stderr
    assert server.requests == []


def test_a_file_in_place_of_the_prompt_of_ask_map_is_an_error(ask: Ask, server: ModelServer) -> None:
    (ask.cwd / "rows.csv").write_text("a,b\n1,2\n")
    for arguments in (["rows.csv"], ["rows.csv", "rows.csv"], ["rows.csv", "-O", "out.jsonl"]):
        result = ask("map", *arguments, stdin=b"")
        assert (result.code, "rows.csv was taken as the prompt" in result.stderr) == (2, True)
    assert server.requests == []
