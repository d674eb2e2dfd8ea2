"""Rules about tool calls: the allowlist and denylist of config.toml, and commands that could destroy the system."""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from itertools import islice, pairwise, takewhile

from ask.errors import ConfigError
from ask.records import NamedTuple
from ask.safety.shell_syntax import CommandLine, ShellWord, list_search_path, parse_command_line

ANY_ARGUMENTS = "*"
"""The last word of a rule that allows further arguments."""


class CallRule(NamedTuple):
    """An entry of `tools.allow` or `tools.deny`: a command such as `git log *`, or a tool such as `github__*`.

    Each word is a glob pattern. An entry of one word is also compared with the name of the tool.
    """

    text: str
    words: tuple[str, ...]

    def matches_tool(self, name: str) -> bool:
        """Check whether the rule is about all calls of a tool."""
        return len(self.words) == 1 and fnmatchcase(name, self.words[0])

    @property
    def has_relative_path(self) -> bool:
        """Whether a word may be a path in the working directory.

        It may be `./build`, `check.py`, the operands of `sh`, or what follows `-C`, or the `-f` of `make` and the like.
        """
        names = map(posixpath.basename, self.words)
        start = next(
            (index for index, name in enumerate(names, 1) if name in SHELLS or _INTERPRETER.fullmatch(name)), 0
        )
        operands = [word for word in self.words[start:] if not word.startswith("-") and word != ANY_ARGUMENTS]
        return (
            any("/" in word and not word.startswith("/") and "://" not in word for word in self.words)
            or any(map(_FILE_NAME.search, self.words[1:]))
            or bool(start and operands)
            or bool(_PATH_OPTION.search("\n".join(self.words)))
        )

    def allows(self, command: Sequence[ShellWord]) -> bool:
        """Check whether the rule allows a simple command with exactly these words.

        A word that the shell expands could become any number of words, options included. It matches only the same
        word in the rule, or the final `*`.
        """
        allows_more = len(self.words) > 1 and self.words[-1] == ANY_ARGUMENTS
        patterns = self.words[:-1] if allows_more else self.words
        if len(command) < len(patterns) or (len(command) > len(patterns) and not allows_more):
            return False
        if "/" in command[0].text and "/" not in patterns[0] and patterns[0].strip("*?"):
            return False  # pytest* is not pytest/evil
        return all(
            word.text == pattern
            or (not word.is_expanded and fnmatchcase(word.text, pattern) and not _leaves_folder(word.text, pattern))
            for word, pattern in zip(command, patterns, strict=False)
        )

    def denies(self, words: Sequence[str]) -> bool:
        """Check whether the rule denies a simple command.

        It does so with any further arguments, and with options after the program, as in `git -C lib push`.
        """
        patterns = self.words[:-1] if len(self.words) > 1 and self.words[-1] == ANY_ARGUMENTS else self.words
        matched, may_be_value = 0, False
        for word in words:
            if fnmatchcase(word, patterns[matched]):
                matched += 1
                if matched == len(patterns):
                    return True
            elif not matched or not (may_be_value or word.startswith("-")):
                return False
            may_be_value = word.startswith("-")
        return False


def _leaves_folder(path: str, pattern: str) -> bool:
    """Check whether a path that matches a pattern leads out of its folder, as `docs/../x` does for `docs/*`.

    A pattern of wildcards only, such as `*`, matches every path.
    """
    option = _OPTION_NAME.match(pattern)
    if option and path.startswith(option[0]):
        path, pattern = path[option.end() :], pattern[option.end() :]
    if not pattern.strip("*?"):
        return False
    is_absolute = path.startswith("/") and not pattern.startswith("/")
    return is_absolute or (".." in path.split("/") and ".." not in pattern.split("/"))


def build_program_rule(program: str) -> CallRule:
    """Return the rule that allows a program with any arguments."""
    return CallRule(f"program {program}", (program, ANY_ARGUMENTS))


def parse_rules(key: str, entries: Iterable[str]) -> tuple[CallRule, ...]:
    """Parse the entries of a setting.

    Raises:
        ConfigError: an entry is not one simple command.
    """
    return tuple(_parse_rule(key, entry) for entry in entries)


def select_valid_rules(key: str, entries: Iterable[str], skip: Callable[[str], None]) -> tuple[str, ...]:
    """Return the entries of an allowlist that are valid; without the others, the user is asked more often."""
    valid = []
    for entry in entries:
        try:
            _parse_rule(key, entry)
        except ConfigError as error:
            skip(f"{error.message}; skipping it")
        else:
            valid.append(entry)
    return tuple(valid)


def _parse_rule(key: str, entry: str) -> CallRule:
    command_line = parse_command_line(entry)
    if not command_line.is_exact or len(command_line.commands) != 1:
        hint = 'use a command such as "git log *", with special characters in quotes, or the name of a tool'
        raise ConfigError(f"{key}: {entry!r} is not one simple command", hint)
    return CallRule(entry, tuple(word.text for word in command_line.commands[0]))


def find_allow_rules(rules: Sequence[CallRule], command: str, directory: str = ".") -> list[str]:
    """Return the rules that together allow every part of a command; [] if one is not allowed or not understood.

    After `cd`, unless it leads to `directory`, the working directory, rules with a relative path do not apply, nor does
    any to a program that may be in a relative folder on PATH.
    """
    command_line = parse_command_line(command)
    if not command_line.is_exact or any(map(_is_risky_builtin, command_line.commands)):
        return []
    matches: list[str] = []
    is_elsewhere = False
    for part in command_line.commands:
        program, *arguments = (word.text for word in part)
        if is_elsewhere and not _is_same_everywhere(program):
            return []
        matches.append(next((rule.text for rule in rules if rule.allows(part)), ""))
        if program in _FOLDER_BUILTINS and arguments not in ([directory], [f"{directory}/"], ["."]):
            is_elsewhere = True
            rules = [rule for rule in rules if not rule.has_relative_path]
    return list(dict.fromkeys(matches)) if all(matches) else []


def _is_same_everywhere(program: str) -> bool:
    """Check whether no relative folder on PATH can provide a program, nor one that is in its arguments."""
    folders = list_search_path(os.environ) if "PATH" in os.environ else []
    absolute = list(takewhile(os.path.isabs, folders))
    return (
        absolute == folders
        or program in _FOLDER_BUILTINS
        or (
            program not in WRAPPERS | SHELLS
            and any(os.access(os.path.join(folder, program), os.X_OK) for folder in absolute)
        )
    )


def _is_risky_builtin(command: Sequence[ShellWord]) -> bool:
    """Check whether a builtin may set a variable, or run what an argument, a file name or a variable contains.

    In arithmetic, bash runs the substitutions in a subscript, also those in the value of a variable. One variable,
    BASH_EXECUTION_STRING, contains the command line itself; others, such as RANDOM, evaluate what is assigned to them.
    A file pattern can become `-vPATH` or `a[$(date)]`.
    """
    program, *arguments = command
    if program.text == "set":
        return not _HARMLESS_SET.fullmatch(" ".join(word.text for word in command))
    if program.text == "printf":
        first = 1 if arguments and arguments[0].text == "--" else 0
        return any(
            word.is_expanded or _PRINTF_COUNT.search(word.text.replace("%%", "")) for word in arguments[: first + 1]
        )
    if program.text in ("[", "test"):
        return any((word.is_expanded and word.text != "]") or re.search(r"\w\[", word.text) for word in arguments)
    return program.text in _RISKY_BUILTINS


def find_deny_rule(rules: Sequence[CallRule], command: str) -> str | None:
    """Return the first rule that denies a part of a command."""
    for words in _iterate_commands(parse_command_line(command)):
        for rule in rules:
            if rule.denies(words):
                return rule.text
    return None


_OPERAND_WRAPPERS = frozenset(("chroot", "faketime", "flock", "gosu", "script", "setarch", "su-exec", "taskset"))
"""Programs that run the command which follows an operand, such as a lock file."""
WRAPPERS = frozenset(
    {
        *("arch", "builtin", "busybox", "caffeinate", "catchsegv", "choom", "chronic", "chrt", "command"),
        *("cross-env", "dbus-run-session", "doas", "dumb-init", "eatmydata", "env", "eval", "exec", "fakeroot", "fd"),
        *("fdfind", "find", "firejail", "gtimeout", "hyperfine", "ionice", "ltrace", "nice", "nohup", "nsenter"),
        *("numactl", "parallel", "pkexec", "prlimit", "proxychains", "proxychains4", "rlwrap", "runuser", "sem"),
        *("setpriv", "setsid", "ssh-agent", "stdbuf", "strace", "sudo", "systemd-run", "time", "timeout", "tini"),
        *("torsocks", "toybox", "unbuffer", "unshare", "valgrind", "watch", "winpty", "xargs", "xvfb-run"),
        *_OPERAND_WRAPPERS,
    }
)
"""Programs that run the command in their arguments."""
_ENVIRONMENT_RUNNERS = frozenset(
    {
        *("asdf", "aws-vault", "bundle", "conda", "devbox", "direnv", "doppler", "dotenv", "dotenvx", "hatch", "mise"),
        *("nodenv", "op", "pdm", "pipenv", "pixi", "poetry", "pyenv", "rbenv", "rye", "uv", "volta"),
    }
)
"""Programs that run a command in the environment of a project, with `run` or `exec`."""
_RUN_SUBCOMMANDS = ("run", "exec", "x")
_GIT_RUNNERS = {"submodule": ("foreach",), "bisect": ("run",), "rebase": ("-x", "--exec")}
RUNNERS = frozenset(
    {
        *_ENVIRONMENT_RUNNERS,
        *(".", "source", "jobs", "newgrp", "sg", "capsh", "bwrap", "gdb", "lldb", "perf", "entr", "watchexec"),
        *("expect", "screen"),
        *("tmux", "ssh", "mosh", "scp", "sftp", "rsync", "at", "batch", "crontab", "coproc"),
        *("alias", "make", "gmake", "bmake", "ninja", "cmake", "ctest", "just", "task", "rake", "bazel", "gradle"),
        *("mvn", "ant", "cargo", "go", "npm", "npx", "pnpm", "pnpx", "yarn", "bun", "bunx", "deno", "uvx"),
        *("pipx", "tox", "nox", "pre-commit", "docker", "podman", "kubectl", "nix"),
        *("nix-shell", "ask", "bind", "compgen", "complete", "fc"),
    }
)
"""Other programs that run commands which their arguments or a file in the folder names."""
_FOLDER_BUILTINS = frozenset({"cd", "pushd", "popd"})
_RISKY_BUILTINS = frozenset(
    {
        *("[[", "declare", "enable", "export", "getopts", "hash", "let", "local", "mapfile", "read", "readarray"),
        *("readonly", "shopt", "typeset", "unset", "wait"),
    }
)
"""Builtins that evaluate arithmetic, set variables such as PATH, or change how the names of programs are looked up."""
_PRINTF_COUNT = re.compile(r"%[^%A-Za-z]*[hjlLqtz]*n")
"""A conversion that assigns the number of characters to the variable named by its argument, such as PATH."""
_FILE_NAME = re.compile(r"\w\.[A-Za-z]\w*$")
_PATH_OPTION = re.compile(
    r"^(?:-C\n|--(?:file|makefile|directory)[=\n])(?=[^-/*\d])"
    r"|^(?:.*/)?(?:[gmn]?awk|g?sed|[bg]?make|ninja|just|rake|ant|mvn|psql)\n(?:.*\n)*-[A-Za-z]*[fC]\n?(?=[^-/*\n])",
    re.MULTILINE,
)
"""An option whose value is a path, in the lines of a rule's words; it may be attached, as in `awk -fprog`.

With most other programs, `-f` means something else, as in `rm -f build` and `curl -f http://localhost`.
"""
_OPTION_NAME = re.compile(r"[\w-]+=")
"""What precedes the value of an option or an assignment, as in `--config=*.js` and `of=*`."""
_INTERPRETER = re.compile(
    r"\.|source|(?:python|pypy|ruby|perl|php|lua)[\d.]*|node(?:js)?|ts-node|tsx|tclsh|expect|elixir|julia|Rscript"
)
"""Programs that run the script or module in their arguments."""
_HARMLESS_SET = re.compile(r"set(?: -[eux]+| -[eux]*o pipefail)+")
"""How scripts begin, such as `set -euo pipefail`."""
SHELLS = frozenset(
    {
        *("ash", "bash", "csh", "dash", "elvish", "fish", "ksh", "mksh", "nu", "pwsh", "rbash", "sh", "tcsh", "xonsh"),
        *("yash", "zsh", "env", "eval", "flock", "hyperfine", "parallel", "nix-shell", "runuser", "script", "sg"),
        *("su", "tmux", "trap", "watch"),
    }
)
"""Programs that run the command line in one of their arguments."""
_MAX_NESTING, _MAX_NESTED_COMMANDS = 4, 8
"""How deep commands inside commands are looked for, and how many at each level."""
_SYSTEM_FOLDER = re.compile(r"\A(?:/[\w.-]+)*/s?bin/(?=[^/]+$)")
_WRAPPER_ARGUMENT = re.compile(r"-|\w+=|[\d.]+[smhd]?$|[\w./:-]+@[\w.-]+$")
"""An option or an operand of a wrapper, as in `timeout 5s`, `direnv exec .` and `mise exec node@24`."""
_ATTACHED_COMMAND = re.compile(r"-[a-z]*?[cSx](?=.*\s)|--(?:command|exec|split-string)=")
_EXEC_OPTIONS = frozenset(("-exec", "-execdir", "-ok", "-okdir", "-x", "-X", "--exec", "--exec-batch"))
"""The options of `find` and `fd` before a command."""


def _iterate_commands(command_line: CommandLine, nesting: int = 0) -> Iterator[Sequence[str]]:
    """Iterate over the words of all simple commands, including those inside `sudo`, `xargs`, `bash -c` or `bash <<END`.

    The folder is removed from the path of a system's program, as in `/bin/rm`.
    """
    runs_shell = False
    for command in command_line.commands:
        for words in _iterate_nested([word.text for word in command], nesting):
            runs_shell = runs_shell or words[0] in SHELLS - WRAPPERS
            yield words
    if runs_shell and nesting < _MAX_NESTING:
        for text in command_line.here_documents:
            yield from _iterate_commands(parse_command_line(text), nesting + 1)


def _iterate_nested(words: list[str], nesting: int) -> Iterator[Sequence[str]]:
    words[0] = _SYSTEM_FOLDER.sub("", words[0])
    yield words
    if nesting >= _MAX_NESTING:
        return
    find_subcommand = _SUBCOMMAND_FINDERS.get(words[0])
    first = find_subcommand(words) if find_subcommand else 0
    if first or words[0] in WRAPPERS:
        for start in islice(_find_wrapped_commands(words[first:]), _MAX_NESTED_COMMANDS):
            yield from _iterate_nested(words[first + start :], nesting + 1)
    if words[0] in SHELLS or (words[0] == "git" and first):
        for line in _find_command_lines(words[first : first + 1 + _MAX_NESTED_COMMANDS]):
            yield from _iterate_commands(parse_command_line(line), nesting + 1)


def _find_run_subcommand(words: Sequence[str]) -> int:
    """Return the position of `run` or the like, as in `uv --directory x run`; 0 if there is another subcommand."""
    for index, word in enumerate(words[1:], 1):
        if word in _RUN_SUBCOMMANDS:
            return index
        if not word.startswith("-") and not words[index - 1].startswith("-"):
            break
    return 0


def _find_git_runner(words: Sequence[str]) -> int:
    """Return the position of what precedes a command in `git submodule foreach`, `bisect run` or `rebase -x`; or 0."""
    options: tuple[str, ...] = ()
    for index, word in enumerate(words):
        if word in options:
            return index
        if any(option.startswith("-") and word.startswith(option) for option in options):  # -x'git push'
            return index - 1
        options = options or _GIT_RUNNERS.get(word, ())
    return 0


_SUBCOMMAND_FINDERS = {**dict.fromkeys(_ENVIRONMENT_RUNNERS, _find_run_subcommand), "git": _find_git_runner}


def _find_command_lines(words: Sequence[str]) -> Iterator[str]:
    """Yield the arguments that may be command lines. A single word may also be data of a command that is wrapped."""
    for previous, argument in pairwise(words):
        line = _ATTACHED_COMMAND.sub("", argument, count=1)
        may_be_data = words[0] in WRAPPERS and not previous.startswith("-") and not re.search(r"\s", line)
        if not line.startswith("-") and not may_be_data:
            yield line


def _find_wrapped_commands(words: Sequence[str]) -> Iterator[int]:
    """Yield where the command in a wrapper's arguments may begin. The value of an option may look like it."""
    yield from (index + 1 for index, word in enumerate(words[:-1]) if word in _EXEC_OPTIONS)
    operands = 1 if words[0] in _OPERAND_WRAPPERS else 0
    for index, word in enumerate(words[1:], 1):
        if not _WRAPPER_ARGUMENT.match(word):
            yield index
            if operands or words[index - 1] == "--" or not words[index - 1].startswith("-"):
                operands -= 1
            if operands < 0:
                break


_FORK_BOMB = re.compile(r"(?<![^\s(){}|&;])([^\s(){}|&;]{1,30})\s?\(\s?\)\s{0,9}\{[^}]{0,99}?\1\s?\|\s?\1\s?&")
"""Such as `:(){ :|:& };:`. The limits on repetitions keep the time linear in the length of the command."""
_DISK_DEVICE = re.compile(r"/dev/(?:[shv]d|xvd|nvme|mmcblk|r?disk|dm-|md|mapper/|loop|nbd)")
_SYSTEM_FOLDERS = "bin boot dev etc home lib lib64 opt root sbin srv sys usr var Applications Library System Users"
_VITAL_FOLDERS = frozenset(("/", "~", "$HOME", "${HOME}", *(f"/{name}" for name in _SYSTEM_FOLDERS.split())))
_POWER_COMMANDS = frozenset(("halt", "poweroff", "reboot", "shutdown"))
_POWER_VERBS = (*_POWER_COMMANDS, "kexec")


def find_dangerous_command(command: str) -> str | None:
    """Name the first command that could destroy the system or the user's files, or turn the machine off.

    This is a best-effort check, not a boundary: it stops a model that acts in good faith. A script, a variable or
    another language gets past it.
    """
    if _FORK_BOMB.search(command):
        return "fork bomb"
    command_line = parse_command_line(command)
    if any(map(_DISK_DEVICE.match, command_line.written_files)):
        return "write to a disk device"
    folder = ""
    for words in _iterate_commands(command_line):
        if words[0] in ("cd", "pushd"):
            folder = next((word for word in words[1:] if word == "-" or not word.startswith("-")), "~")
        elif name := _name_danger(words, folder):
            return name
    return None


def _name_danger(words: Sequence[str], folder: str) -> str | None:
    program, arguments = words[0].lower(), words[1:]
    if program == "rm":
        is_recursive = any(re.match(r"--r|-[^-]*[rR]", argument) for argument in arguments)
        folders = (_find_vital_folder(folder, argument) for argument in arguments) if is_recursive else ()
        return next((f"rm -r {path}" for path in folders if path), None)
    if re.match(r"mkfs(\.|$)", program) and any(not argument.startswith("-") for argument in arguments):
        return "mkfs"
    if program == "dd" and any(_DISK_DEVICE.match(text.removeprefix("of=")) for text in arguments if text[:3] == "of="):
        return "dd to a disk device"
    is_power_command = (
        program in _POWER_COMMANDS
        or (program in ("init", "telinit") and arguments[:1] in (["0"], ["6"]))
        or (program == "systemctl" and next((word for word in arguments if word[:1] != "-"), "") in _POWER_VERBS)
    )
    return program if is_power_command else None


def _find_vital_folder(folder: str, target: str) -> str | None:
    """Return the root folder, a system folder or the home folder if `rm -r` of a target would delete or empty it.

    Args:
        folder: where an earlier `cd` leads; "" if there is none.
        target: the path as written.
    """
    path = posixpath.join(folder, target) if not target.startswith(("~", "$")) else target
    path = re.sub(r"/[*.]*$", "", re.sub(r"^/{2,}", "/", posixpath.normpath(path))) or path[:1]
    return path if path in _VITAL_FOLDERS or path == os.path.expanduser("~") else None
