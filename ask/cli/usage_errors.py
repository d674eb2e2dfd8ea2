"""Errors for command lines that cannot be parsed: what is wrong, and what to use instead.

Users of other programs try the options that they know. These are matched by their meaning before their spelling is
compared. They are only suggested, never applied: what gives a model more permissions has to be typed.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Sequence
from typing import Any

import click

from ask.errors import AskError, ConfigError, FileError, UsageError
from ask.text import find_misspelled, suggest

OPTIONS_BY_ADVICE = {
    "--yes approves what --confirm would ask about": (
        "--approve --approve-all --auto-approve --accept-all --yolo --no-confirm --allow-all --allow-all-tools "
        "--force --no-prompt --assume-yes "
        "--dangerously-skip-permissions --allow-dangerously-skip-permissions "
        "--dangerously-bypass-approvals-and-sandbox"
    ),
    "--safe --yes runs tools in a sandbox without asking": "--full-auto",
    "--confirm asks before each call, and --yes approves all of them": (
        "--ask-for-approval --approval-mode --approval-policy --permission-mode --ask"
    ),
    "--confirm asks before each call that tools.allow does not allow": "--allowedTools --allowed-tools --allow-tools",
    "use --disable-tool NAME": "--disallowedTools --disallowed-tools --exclude-tools --deny-tool",
    "use ask config set tools.deny A,B, which replaces the list": "--deny --deny-command --block-command",
    "use --disable-tool bash,write_file,edit_file": "--read-only --readonly --plan",
    "--safe confines tools to this folder": "--sandbox --safe-mode --no-network",
    "use --safe --allow-dir DIR": "--add-dir --include-directories",
    "use --safe --allow-command-host HOST": "--network --net --allow-network --allow-net",
    "use --effort LEVEL": "--reasoning --reasoning-effort --think --thinking --variant",
    "only --verbose and terminals show it": "--hidethinking --hide-thinking --hide-reasoning",
    "ask prints the answer without an option": "--print --prompt --query --message --ask-prompt",
    "ask chat starts a chat": "--interactive --prompt-interactive --repl",
    "use --resume ID, or ask chat": "--chat",
    "use --resume ID, with an ID from ask history": ("--session --session-id --conversation-id --cont --fork -r"),
    "--continue continues this terminal's last conversation": "--continue-last --last",
    "ask history lists conversations": (
        "--list --list-sessions --list-chats --show-chat --show --show-last --history -l"
    ),
    "use --no-save": "--no-history --ephemeral --no-session-persistence --no-session",
    "inputs follow the prompt, and --input-format names their format": "--input --input-file -i",
    "use --file PATH": "--image --images --attach --at --fragment --input --add",
    "--system TEXT adds to the system prompt, and --system @FILE a file": (
        "--system-prompt --system-prompt-file --append-system-prompt-file --sys"
    ),
    "use --template NAME; ask templates new NAME creates one": "--role --persona --agent --preset --save --create-role",
    "use --template explain": "--describe-shell",
    "use --template translate --var to=LANGUAGE": "--to --lang --language --target",
    "use --cmd": "--shell --execute --exec --command -e",
    "use --option KEY=VALUE": "--param --params --set --model-option",
    "use --option temperature=VALUE": "--temperature --temp",
    "use --option top_p=VALUE": "--top-p --topp --top-probability",
    "use --option top_k=VALUE": "--top-k --topk",
    "use --option max_tokens=VALUE": "--max-tokens --max-output-tokens --num-predict",
    "use --option seed=VALUE": "--seed",
    "use --option stop=TEXT": "--stop",
    "use --json, or --events for a stream": "--format --jsonl --ndjson --stream-json --output-type",
    "use --schema S": "--response-format --structured",
    '--schema "[{name, age int}]" answers with a list': "--schema-multi",
    "use --plain": "--raw --no-md --no-markdown --nowordwrap --no-format --screen-reader --accessible --ascii",
    "use --color never": "--no-color --no-colour --nocolor",
    "use --color WHEN": "--colour",
    "terminals show Markdown unless --plain is given": "--md --markdown --render",
    "answers are streamed unless --no-stream is given": "--stream --streaming",
    "use --quiet": "--silent --no-spinner",
    "use --verbose": "--debug --log-level --trace -d",
    "use --usage": "--stats --show-usage --tokens --cost",
    "write > FILE at the end of the command": "--out --output --output-file --output-last-message -O",
    "use --max-rounds N": "--max-turns --max-steps --max-iterations --chain-limit --cl",
    "unset ASK_SAFE, or run ask config set safe.enabled false": "--no-safe --no-safe-mode --no-sandbox",
    "use --max-cost USD": "--budget --max-budget-usd --max-budget --max-price",
    "use --fallback MODEL": "--fallback-model --fallbacks",
    "use --timeout S": "--max-time --request-timeout --connect-timeout",
    "use ask config set network.tries N": "--retries --max-retries",
    "set HTTPS_PROXY=http://HOST:PORT": "--proxy",
    "set REQUESTS_CA_BUNDLE to a file with the certificates to trust": (
        "--cacert --ca-cert --ca-bundle --ca-file --insecure --no-verify --no-verify-ssl --no-check-certificate -k"
    ),
    "use --key KEY, or ask keys set PROVIDER": "--api-key --apikey --token",
    "use --base-url URL": "--url --api-base --endpoint --host --server",
    "use --provider NAME": "--api --backend --vendor --local-provider --oss",
    "use --cd DIR": "--workdir --dir --directory --working-directory --root --chdir",
    "use --tool FILE:FUNCTION": "--functions --function --tool-file",
    "use -T web_search, or ask's tool search_web (see ask tools)": "--search --web --web-search --online",
    "use ask mcp add NAME": "--mcp --mcp-config --mcp-server",
    "ask models lists models": "--list-models --models",
    "ask templates lists templates": "--list-roles --list-prompts --show-role",
    "use ask keys set PROVIDER": "--login --auth --set-key",
    "ask doctor checks the installation": "--info --status --check",
    "ask config lists settings": "--settings --config",
    "use ask init SHELL": "--install --install-integration --install-completion --completion --completions",
    "ask undo restores files": "--undo --revert",
    "use ask chat, where Ctrl-X Ctrl-E opens an editor": "--editor --edit",
    "write it before the command: ask -C DIR COMMAND": "-C --cd --cwd",
    "use --jobs N": "--parallel --concurrency --workers --threads --max-parallel -P",
    "use --output FILE": "--out --out-file --output-file",
    "the same command continues a job, and --fresh starts over": (
        "--resume --continue --append --force --overwrite --restart --no-cache"
    ),
    "use --yes to skip the question": "--force --no-confirm --no-prompt --assume-yes",
    "use --limit N": "--max-rows --rows --head --first --top -n",
    "use --sample N": "--random --shuffle",
    "use --delimiter C": "--separator --sep",
    "use --forget ID": "--delete --remove --rm",
    "use --rpm N": "--rate --rate-limit --rps",
    "the name of --output selects its format, and --input-format that of the input": "--format",
    "--older-than 0d selects all": "--all",
    "set NO_COLOR=1 or FORCE_COLOR=1": "--color --no-color --no-colour --nocolor --colour",
    "leave out the command to use it": "--cmd --code --extract --no-stdin --version --events --unanswered",
}
"""Advice for users of the options of other programs. The first one whose own options the command has applies."""
COMMANDS_BY_WORD = {
    **dict.fromkeys(("auth", "key"), "keys"),
    **dict.fromkeys(("conversations", "sessions", "session", "log", "resume"), "history"),
    **dict.fromkeys(("settings", "setup", "preferences", "aliases"), "config"),
    **dict.fromkeys(("completion", "completions", "install"), "init"),
    **dict.fromkeys(("status", "check", "info", "update", "upgrade", "plugins"), "doctor"),
    **dict.fromkeys(("prompts", "roles", "agents", "template"), "templates"),
    **dict.fromkeys(("repl", "interactive"), "chat"),
    **dict.fromkeys(("usage", "cost"), "history stats"),
    **dict.fromkeys(("revert", "restore", "rollback"), "undo"),
}
"""The command that a word means to users of other programs."""
COMMAND_VERBS = frozenset(
    ("list", "ls", "show", "get", "set", "unset", "add", "new", "create", "edit", "remove", "rm", "delete", "install")
)
"""The verbs of commands, here and in other programs."""
MODELS_HINT = "to search the list: ask models | grep WORD"
OPTION_HINTS = {
    "ask mcp add": "an option of the server's command comes after --: ask mcp add NAME -- COMMAND",
    "ask models": f"see ask models --help; {MODELS_HINT}",
}
"""Hints for unknown options of these commands."""
OPTION_PATTERN = r"(?<![\w-])--?[a-zA-Z][\w-]*"
POSSIBLE_KEY_PATTERN = r"(?=\S*\d)[\w-]{20}"
"""A part of what may be an API key."""


def explain_error(error: click.UsageError | AskError, command_name: str, arguments: Sequence[str]) -> AskError:
    """Return the error of a command for the user. If words may be a question, it says how to send them as one."""
    if isinstance(error, AskError):
        is_about_word = any(word.isalpha() and repr(word) in error.message for word in arguments[1:])
        if is_about_word and isinstance(error, UsageError | ConfigError | FileError) and "ask -- " not in error.hint:
            error.hint = "; ".join(filter(None, (error.hint, _format_question_hint(arguments))))
        return error
    path = error.ctx.command_path if error.ctx else "ask"
    hint = f"see {path} --help"
    is_no_question = command_name in ("ask", "chat") or isinstance(error, click.MissingParameter)
    question_hint = "" if is_no_question else _format_question_hint(arguments)
    if isinstance(error, click.NoSuchOption):
        names = _list_option_names(error.ctx.command) if error.ctx else ()
        if advice := _find_advice(error.option_name, names):
            return UsageError(f"no option {error.option_name}", advice)
        if similar := suggest(error.option_name, names):
            return UsageError(f"no option {error.option_name}", f"did you mean {similar}?")
        if command_name == "ask":
            text = "To begin a question with a dash, put -- before it"
            return UsageError(f"no option {error.option_name}; {hint}. {text}")
        return UsageError(f"no option {error.option_name}", OPTION_HINTS.get(path, hint))
    problem = _describe(error, path)
    if problem.startswith("there is no command ask config"):
        hint = "ask config set KEY VALUE changes a setting (see ask config --help)"
    if path == "ask models" and len(arguments) == 2 and "unexpected" in error.message:
        hint = f"to list the models of a provider: {path} -p {shlex.quote(arguments[1])}; {MODELS_HINT}"
    if error.ctx and path == "ask keys set" and (provider := error.ctx.params.get("provider")):
        problem = "the key cannot be an argument, because shells save their command lines"  # so it is not repeated
        hint, question_hint = f"run {path} {provider} and paste it when you are asked", ""
    return UsageError(problem, "; ".join(filter(None, (hint, question_hint))))


def _format_question_hint(arguments: Sequence[str]) -> str:
    """Format how to send the arguments of a command as a prompt; return "" if they have options or an API key."""
    is_no_question = any(word.startswith("-") or re.search(POSSIBLE_KEY_PATTERN, word) for word in arguments)
    return "" if is_no_question else f"to ask it as a question: ask -- {shlex.join(arguments)}"


def _list_option_names(command: click.Command) -> list[str]:
    """List the names of a command's options, as its help shows them."""
    options = (param for param in command.params if isinstance(param, click.Option) and not param.hidden)
    return [name for option in options for name in option.opts]


def _find_advice(option: str, names: Sequence[str]) -> str:
    """Find what a command with options of these names has instead of one of other programs; return "" for nothing."""
    for advice, options in OPTIONS_BY_ADVICE.items():
        if option in options.split() and {*re.findall(OPTION_PATTERN, advice)} <= {*names, "--help", "-C"}:
            return advice
    return ""


def find_meant_command(word: str, commands: Iterable[str], similarity: float) -> str:
    """Find the command that a word means or nearly is; return "" if there is none."""
    return COMMANDS_BY_WORD.get(word) or find_misspelled(word, commands, similarity)


def _describe(error: click.UsageError, path: str) -> str:
    """Describe what is wrong with the arguments of the command at `path`."""
    message = error.format_message().rstrip(".")
    if isinstance(error, click.MissingParameter) and error.param:
        choices = f"; use {_format_choices(error.param.type)}" if isinstance(error.param.type, click.Choice) else ""
        return f"{_get_name(error.param)} is missing{choices}"
    if isinstance(error, click.BadParameter) and error.param:
        return f"{_get_name(error.param)} {_describe_value(error, error.param)}"
    if isinstance(error, click.BadOptionUsage):
        count = re.search(r"requires (\d+) arguments", message)
        needed = f"{count[1]} values" if count else "a value"
        return f"{error.option_name} {'takes no value' if 'does not take' in message else f'needs {needed}'}"
    if match := re.fullmatch(r"No such command '(.*?)'.*", message):
        return f"there is no command {path} {match[1]}"
    if match := re.fullmatch(r"Got unexpected extra arguments? \((.*)\)", message):
        return f"{path} does not take {match[1]!r}"
    return message[:1].lower() + message[1:]


def _get_name(param: click.Parameter) -> str:
    """Return the name of an option, or of an argument as in the usage line."""
    return max(param.opts, key=len) if isinstance(param, click.Option) else (param.metavar or param.human_readable_name)


def _describe_value(error: click.BadParameter, param: click.Parameter) -> str:
    """Describe what is wrong with a value, to follow the name of its option or argument."""
    if isinstance(param.type, click.Choice):
        return f"must be {_format_choices(param.type)}, not {error.message.partition(' is not one of ')[0]}"
    return error.message.rstrip(".")


def _format_choices(choice: click.Choice[Any]) -> str:
    *others, last = map(str, choice.choices)
    return f"{', '.join(others)} or {last}"
