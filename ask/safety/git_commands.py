"""The files that a command in git's configuration runs, also those that do not exist yet.

A run in safe mode could create a missing one, and the user's next git command would run it. Nothing else is left
unprotected without a notice: a word that could be a program or a script is protected, the operands of programs that
only read or list files are data, and a command with anything else is unclear.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator, Sequence
from itertools import accumulate, islice
from pathlib import Path

from ask.records import NamedTuple
from ask.safety.shell_syntax import ShellWord, parse_command_line

COMMAND_KEY = re.compile(
    r"(?:pager|hook)\..*|.*(?:cmd|command|program|helper|driver|clean|smudge|process|textconv|editor|pager|fsmonitor"
    r"|askpass|gitproxy|hook|external|difffilter|path|uploadpack|receivepack|vcs|tunnel|browser|httpd|smtpserver)",
    re.DOTALL,
)
"""The names of settings whose values are commands."""
PATH_KEYS = frozenset({"core.hookspath", "init.templatedir", "include.path"})
"""The names of settings whose values are paths of configuration or of a folder with hooks."""
_MAX_DEPTH = 8
"""How deep a command may be nested in the arguments of others."""
_MAX_CHARACTERS = 10_000
"""The length of a command beyond which it is not read."""
_MAX_FOLDERS = 20
"""How many changes of the folder in a command are followed."""
_REPLACED_SUBSTITUTION = re.compile(r"(?:\$\(|`)\s*git rev-parse --show-(toplevel|cdup)\s*(?:\)|`)")
_VARIABLE_REFERENCE = re.compile(r"\$(?:\{(HOME|PWD)\}|(HOME|PWD)\b)")
_FOLDER_NAME = r"(\"[^\"$`]+\"|'[^']+'|(?:\\.|[^\s;&|()$`\"'\\])+)"
_CD = r"(?:cd|pushd)\s+(?:-[-\w]*\s+)*"
_FOLDER_CHANGE = re.compile(rf"(?:(?<![\w./-]){_CD}|\s-C\s*|\s--(?:directory|prefix|cwd|chdir)[=\s]\s*){_FOLDER_NAME}")
_FOLDER_OPTION = re.compile(r"-C|--(?:directory|prefix|cwd|chdir)(?:=|$)")
_FIRST_CHANGES = re.compile(rf"(?:\s*{_CD}(?!-\s){_FOLDER_NAME}\s*&&)*")
"""The changes at the start of a command that it does not go on without."""
_UNKNOWN_FOLDER = re.compile(r"\b(?:cd|pushd)\s+(?:-[-\w]*\s+)*[\"']?[$`]|\s-C\s*[\"']?[$`]")
_SEPARATOR_OTHER_THAN_AND = re.compile(r"[;|()\n]|(?<!&)&(?!&)")
_POPD = re.compile(r"\bpopd\b")
_VARIABLE_ASSIGNMENT = re.compile(r"(?<![^\s;&|({!])(\w+)=(\"[^\"]*\"|'[^']*'|[^\s;&|()\"']+)")
_EXECUTED_VARIABLE = re.compile(
    r"VISUAL|BROWSER|SHELL|BASH_ENV|ENV|LESSOPEN|(?:\w+_)?(?:EDITOR|PAGER|ASKPASS|SSH|COMMAND|EXTERNAL_DIFF)"
)
_PATH_VARIABLE = re.compile(
    r"PATH|GIT_EXEC_PATH|GIT_DIR|GIT_TEMPLATE_DIR|GIT_CONFIG(?:_GLOBAL|_SYSTEM)?|PYTHONPATH|NODE_PATH|PERL5LIB|RUBYLIB"
)
_USER_VARIABLE = re.compile(r"\$\{?(?:(?:GIT_)?EDITOR|VISUAL|(?:GIT_)?PAGER|SHELL|BROWSER)\}?")
"""A program that the user's environment names; what that leads to is protected."""
_UNKNOWN_WORD = re.compile(r"[$`*?\[]")
_BRACES = re.compile(r"\{([^{}]*)\}")
_PLAIN_PATH = re.compile(r"(?!-)(?!.*://)[^\s$*?`()&|;<>={}\"'\\\[\]]+")
_PATH_OPERAND = re.compile(r"(?!\w*@)[\w.~@+,-]*/[\w./@+,-]+")
_SCRIPT_SUFFIX = re.compile(
    r".*\.(?:sh|bash|zsh|ksh|csh|fish|nu|xsh|py|pyw|pyz|pl|pm|raku|rb|js|cjs|mjs|jsx|ts|cts|mts|tsx|coffee|lua|vim|el"
    r"|lisp|scm|rkt|clj|php|awk|sed|jq|ps1|tcl|exp|bats|r|jl|m|gp|jar|kts|groovy|scala|sc|swift|dart|exs?|erl|escript"
    r"|hs|ml|fsx|csx|nim|cr|scpt|applescript)",
    re.IGNORECASE,
)
_MODULE = re.compile(r"([A-Za-z_][\w.]*)(:[A-Za-z_][\w.]*(?:\(\))?)?")
"""A module, which may be followed by an object in it, as for servers: `gunicorn app:create()`."""
_MODULE_OPTION = re.compile(r"-[Am]|--(?:app|module|settings)(?:=.*)?", re.DOTALL)
"""An option whose value is a module, as in `flask --app hello` and `celery -A hello`."""
_SHELL = re.compile(r"(?:ba|da|z|k|a|fi|t?c)?sh")
_PYTHON = re.compile(r"(?:python|pypy)[\d.]*")
_INTERPRETER = re.compile(
    rf"{_SHELL.pattern}|{_PYTHON.pattern}|node(?:js)?|deno|ts-node|tsx|perl[\d.]*|ruby[\d.]*|php[\d.]*|lua(?:jit)?[\d.]*"
    r"|tclsh|wish|expect|guile|racket|Rscript|julia|octave|osascript|pwsh|nu|xonsh|raku|elixir|escript|runghc"
    r"|runhaskell|groovy|java"
)
_SOURCE_COMMANDS = frozenset({".", "source"})
_OPTIONS_WITH_ARGUMENTS = re.compile(
    r"[-+][oO]|--(?:rcfile|init-file)|-[WXIrC]|--(?:require|import|loader|conditions|env-file)|-c(?:p|lasspath)"
)
"""Options of interpreters whose argument is the next word."""
_CODE_OPTION = re.compile(r"-(?:[A-Za-z]*[eEp]|r)|--(?:eval|print)|-[Cc]ommand")
_CODE_THAT_LOADS = re.compile(
    r"\b(?:require|import|load|loadfile|dofile|include|do|use\s+lib|source|eval|system|exec\w*|spawn|popen|qx|getline)\b|`"
)
_SCRIPT_OPTIONS = {
    **dict.fromkeys(("awk", "gawk", "mawk", "nawk", "sed", "gsed"), ("-f", "--file")),
    **dict.fromkeys(("jq", "gojq", "yq"), ("-f", "--from-file", "-L")),
    **dict.fromkeys(("vi", "vim", "nvim", "gvim", "mvim", "vimdiff", "nvimdiff"), ("-S", "-u", "-U", "-s")),
    **dict.fromkeys(("emacs", "emacsclient"), ("-l", "--load", "--script", "-q")),
    "psql": ("-f", "--file"),
    "sqlite3": ("-init",),
}
"""Options of programs whose argument is a script, and that otherwise only read or edit files."""
_DATABASE_CLIENTS = ("psql", "sqlite3")
"""Those of them that run what is on standard input."""
_SYSTEM_FUNCTION = re.compile(r"\bsystem\s*\(|\bgetline\b")
_EDITOR_CODE = re.compile(r"\b(?:source|so|luafile|pyfile|py3file|runtime|load-file)!?[\s(\"']+([^\s|\"')]+)")
_NO_SCRIPT = frozenset({"NONE", "NORC", "DEFAULTS"})
_OPTION_OR_ASSIGNMENT = re.compile(r"-|\w+=")
_WRAPPERS = frozenset(
    {
        *("builtin", "command", "doas", "env", "exec", "ionice", "nice", "nohup", "setsid", "stdbuf", "sudo"),
        *("time", "timeout", "winpty", "xargs"),
    }
)
_DATA_PROGRAMS = frozenset(
    {
        *("[", "[[", ":", "basename", "bat", "bc", "cat", "chmod", "chown", "clip", "clip.exe", "code"),
        *("colordiff", "column", "comm", "cp", "curl", "cut", "date", "dd", "declare", "delta", "diff"),
        *("diff-so-fancy", "dirname", "du", "echo", "egrep", "exit", "expand", "export", "expr", "false"),
        *("fgrep", "file", "find", "flatpak", "fmt", "fold", "fzf", "gh", "git-crypt", "git-lfs", "gitk", "glab"),
        *("grep", "gzip", "head", "hexdump", "hub", "iconv", "install", "join", "jobs", "kill", "lazygit"),
        *("less", "let", "ln", "local", "ls", "md5sum", "mkdir", "mktemp", "more", "mv", "nl", "notify-send"),
        *("od", "open", "pandoc", "paste", "patch", "pbcopy", "popd", "printf", "pwd", "read", "readlink"),
        *("readonly", "realpath", "return", "rg", "rm", "rmdir", "seq", "set", "sha256sum", "shasum", "shift"),
        *("sleep", "sops", "sort", "split", "stat", "strings", "tac", "tail", "tee", "test", "tig", "touch"),
        *("tr", "true", "type", "umask", "uniq", "unset", "unzip", "wait", "wc", "wget", "which", "wl-copy"),
        *("xclip", "xdg-open", "xmllint", "xsel", "xxd", "zcat", "zip"),
    }
)
"""Programs whose operands are data."""
_RUNNING_OPTION = re.compile(r"-(?:exec|execdir|ok|okdir)|--exec(?:-batch)?")
_PROGRAM_OPTION = re.compile(
    r"--[\w-]*(?:program|command|exec|cmd|shell|editor|pager|pre|preview|filter|opener)(?:=(.*))?", re.DOTALL
)
_BUILD_TOOLS = frozenset(
    {
        *("make", "gmake", "bmake", "ninja", "just", "task", "rake", "npm", "npx", "pnpm", "pnpx", "yarn", "bun"),
        *("bunx", "cargo", "go", "gradle", "mvn", "ant", "tox", "nox", "uv", "uvx", "poetry", "pipenv", "hatch"),
        *("pdm", "composer", "bundle", "eval", "run-parts"),
    }
)
"""Programs that run what files in the current folder say, and commands whose files cannot be determined."""
_GIT_COMMAND_OPTION = re.compile(
    r"--(?:exec|extcmd|upload-pack|receive-pack|open-files-in-pager|smtp-server|[a-z]+-(?:cmd|filter))(?:=(.*))?",
    re.DOTALL,
)
_GIT_FOLDER_OPTION = re.compile(r"--(?:exec-path|git-dir|template)(?:=(.*))?", re.DOTALL)


class GitPath(NamedTuple):
    """A path that git uses."""

    path: Path
    """An absolute path; it may contain links and may not exist."""
    placeholder_type: str = ""
    """The placeholder to create if the path does not exist: "folder", "file" or "" for none.

    An included file needs "file", because git fails if it is a folder.
    """


class CommandFiles(NamedTuple):
    """The files that a command runs."""

    paths: tuple[GitPath, ...]
    is_unclear: bool
    """Whether it may run others, which its words do not name."""


def find_command_files(value: str, top: Path, home: str) -> CommandFiles:
    """Return the files that a command in git's configuration names.

    Its words may be relative to the top folder, or to a folder to which it changes, as in `cd tools && ./clean`.
    """
    paths, is_unclear = find_executed_files(value, top, home)
    return CommandFiles((*paths, *find_existing_files(value, top, home)), is_unclear)


def find_executed_files(value: str, top: Path, home: str) -> CommandFiles:
    """Return the programs and scripts that a command names, without the files that may be its data."""
    reader = _CommandReader(value, top, home)
    if len(reader.text) <= _MAX_CHARACTERS:
        reader.read(reader.text)
    else:
        reader.is_unclear = True
    return CommandFiles(tuple(reader.paths), reader.is_unclear)


def find_existing_files(value: str, top: Path, home: str) -> Iterator[GitPath]:
    """Yield the existing files that a value names in any way, unless it is one word without a slash."""
    text = _replace_known_parts(value, top, home)
    words = _split_words(text)
    if len(words) <= 1 and "/" not in text:
        return
    parts = re.split(r"[\s;&|()<>\"'`={}!,]+", text)
    folders = _find_folders(text, top, home)
    for word in dict.fromkeys([*words, *parts]):
        for path in (folder / expand_home(word, home) for folder in folders if word):
            if os.path.isfile(path):
                yield GitPath(path)


def expand_home(path: str, home: str) -> str:
    """Replace a leading `~` as git does, and drop the `:(optional)` marker of git 2.52 and newer."""
    path = path.removeprefix(":(optional)")
    return home + path[1:] if path == "~" or path.startswith("~/") else os.path.expanduser(path)


class _CommandReader:
    """Collects the programs and scripts of a command and of the commands in its arguments."""

    def __init__(self, value: str, top: Path, home: str) -> None:
        self.text = _replace_known_parts(value, top, home)
        self.paths: dict[GitPath, None] = {}
        self.is_unclear = False
        self._home = home
        self._all_folders = _find_folders(self.text, top, home)
        # After `cd tools; ./x` or `make -C tools && ./x`, the folder may be any of them.
        rest = _FIRST_CHANGES.sub("", self.text, count=1)
        is_certain = not any(pattern.search(rest) for pattern in (_SEPARATOR_OTHER_THAN_AND, _FOLDER_CHANGE, _POPD))
        self._folders = self._all_folders[-1:] if is_certain else self._all_folders
        self._reads_code_from_stdin = False
        self._may_read_code_from_stdin = False
        """Whether an input file may be code for a program that also runs without one, as in `psql < x`."""
        self._has_unknown_folder = bool(_UNKNOWN_FOLDER.search(self.text)) or len(self._all_folders) > _MAX_FOLDERS

    def read(self, text: str, depth: int = 0) -> None:
        """Read a command line, which may be an argument of another one."""
        if depth > _MAX_DEPTH:
            self.is_unclear = True
            return
        line = parse_command_line(text)
        for name, value in _VARIABLE_ASSIGNMENT.findall(text):
            self._read_assignment(name, _unquote(value), depth)
        outer_line = self._reads_code_from_stdin, self._may_read_code_from_stdin
        self._reads_code_from_stdin = self._may_read_code_from_stdin = False
        for words in line.commands:
            self._read_command(words, depth)
        self.is_unclear |= self._reads_code_from_stdin and not line.read_files
        for word in line.read_files:
            if self._reads_code_from_stdin or (self._may_read_code_from_stdin and not _is_unknown(word)):
                self._add_script(word)
        self._reads_code_from_stdin, self._may_read_code_from_stdin = outer_line

    def _read_assignment(self, name: str, value: str, depth: int) -> None:
        if _EXECUTED_VARIABLE.fullmatch(name):
            self.read(value, depth + 1)
        elif _PATH_VARIABLE.fullmatch(name):
            for part in value.split(os.pathsep):
                if part and not _UNKNOWN_WORD.search(part):
                    self._add(part)
        elif module := _MODULE.fullmatch(value):  # FLASK_APP=hello
            self._add_module(module[1])

    def _read_command(self, words: Sequence[ShellWord], depth: int) -> None:
        """Read a simple command: its program, which may follow wrappers such as `nice -n 5`, and what that runs."""
        is_after_option = False
        for index, word in enumerate(words):
            text, name, rest = word.text, _get_name(word), words[index + 1 :]
            if _OPTION_OR_ASSIGNMENT.match(text):
                is_after_option = text.startswith("-")
                continue
            if _is_unknown(word):
                self.is_unclear |= not _USER_VARIABLE.fullmatch(text) and ("/" in text or not is_after_option)
            elif index and " " in text:
                self.read(text, depth + 1)
            elif "/" in text:
                self._add(text)
            if self._read_known_program(name, rest, depth):
                return
            # The program, unless this word can be the value of a wrapper's option, or a duration.
            if name not in _WRAPPERS and not is_after_option and not re.fullmatch(r"[\d.]+[smhd]?", text):
                self._read_operands(rest, depth)
                return
            is_after_option = False

    def _read_known_program(self, name: str, words: Sequence[ShellWord], depth: int) -> bool:
        """Read the arguments of a program if it is a known one."""
        if name == "git":
            self._read_git(words, depth)
        elif name in _SOURCE_COMMANDS:
            self._read_script(words)
        elif _INTERPRETER.fullmatch(name):
            self._read_interpreter(name, words, depth)
        elif name in _BUILD_TOOLS:
            self._add_build_folders(words)
        elif name in ("cd", "pushd"):
            pass  # `_find_folders` has followed it
        elif name in _SCRIPT_OPTIONS:
            self._may_read_code_from_stdin |= name in _DATABASE_CLIENTS
            self._read_script_options(_SCRIPT_OPTIONS[name], words)
        elif name in _DATA_PROGRAMS:
            self._read_data_program(words, depth)
        else:
            return False
        return True

    def _read_operands(self, words: Sequence[ShellWord], depth: int) -> None:
        """Read the arguments of a program that is not known: each may be a program, a script or a module."""
        self._may_read_code_from_stdin = True
        for index, word in enumerate(words):
            operand = word.text.partition("=")[2] if _OPTION_OR_ASSIGNMENT.match(word.text) else word.text
            if index == 0 and "/" in operand and _is_unknown(word):
                self.is_unclear = True
            elif " " in operand and not operand.startswith("$"):
                self.read(operand, depth + 1)
            elif _is_script_name(operand) or _PATH_OPERAND.fullmatch(operand):
                self._add(operand)
            elif (module := _MODULE.fullmatch(operand)) and (
                module[2]
                or any(_MODULE_OPTION.fullmatch(option.text) for option in words[max(0, index - 1) : index + 1])
            ):
                self._add_module(module[1])
            if _INTERPRETER.fullmatch(_get_name(word)):
                self._read_interpreter(_get_name(word), words[index + 1 :], depth)
                return
            if index == 0 and word.text in _BUILD_TOOLS:
                self._add_build_folders(words)

    def _read_interpreter(self, name: str, words: Sequence[ShellWord], depth: int) -> None:
        """Find the script of an interpreter, or its code in an argument."""
        options: list[str] = []
        for index, word in enumerate(words):
            text = word.text
            if not text.startswith(("-", "+")) and options and _OPTIONS_WITH_ARGUMENTS.fullmatch(words[index - 1].text):
                if "/" in text:
                    self._add_script(word)
            elif not text.startswith(("-", "+")):
                self._read_script(words[index:])
                return
            else:
                options.append(text)
                if self._read_code(name, options, words[index + 1 :], depth):
                    return
                if text.startswith("--") and "/" in (value := text.partition("=")[2]):
                    self._add_script(ShellWord(value, word.is_expanded))
        is_interactive = _SHELL.fullmatch(name) and any(re.fullmatch("-[a-z]*i[a-z]*", option) for option in options)
        self._reads_code_from_stdin |= not is_interactive

    def _read_code(self, name: str, options: Sequence[str], words: Sequence[ShellWord], depth: int) -> bool:
        """Read the code in the arguments of an interpreter if the last one of its options says that it is there."""
        code = next((word.text for word in words if not word.text.startswith(("-", "+"))), "")
        if _PYTHON.fullmatch(name):
            has_code = bool(re.match(r"-[A-Za-z]*[mc]", options[-1]))
            # Python imports modules from the current folder first, unless it has the option -I or -P.
            is_isolated = any(re.fullmatch(r"-[A-Za-z]*[IP].*", option) for option in options)
            self.is_unclear |= has_code and not is_isolated
            if "m" in options[-1] and has_code and not is_isolated:
                self._add_module(options[-1].partition("m")[2] or code)
                self._read_operands(words, depth)  # python -m uvicorn web.app:app
        elif _SHELL.fullmatch(name):
            if has_code := bool(re.fullmatch(r"-[A-Za-z]*c[A-Za-z]*", options[-1])):
                self.read(code, depth + 1)
        else:
            is_module_option = name.startswith(("node", "elixir")) and options[-1] == "-r"
            if has_code := bool(_CODE_OPTION.fullmatch(options[-1])) and not is_module_option:
                self.is_unclear |= bool(_CODE_THAT_LOADS.search(code))
                self._read_arguments(words[1:])
        return has_code

    def _read_script(self, words: Sequence[ShellWord]) -> None:
        """Read a script and its arguments."""
        operands = [word for word in words if word.text != "--"]
        if operands:
            self._add_script(operands[0])
        self._read_arguments(operands[1:])

    def _read_arguments(self, words: Sequence[ShellWord]) -> None:
        for word in words:
            if _is_script_name(word.text):
                self._add(word.text)

    def _read_script_options(self, options: Sequence[str], words: Sequence[ShellWord]) -> None:
        for index, word in enumerate(words):
            option, _, value = word.text.partition("=")
            previous = words[index - 1].text if index else ""
            if previous in options and word.text not in _NO_SCRIPT:
                self._add_script(word)
            elif option in options and value:
                self._add_script(ShellWord(value, word.is_expanded))
            elif word.text[:2] in options and not word.text.startswith("--"):
                self._add_script(ShellWord(word.text[2:], word.is_expanded))
            self.is_unclear |= bool(_SYSTEM_FUNCTION.search(word.text))
            for path in _EDITOR_CODE.findall(word.text):
                self._add_script(ShellWord(path, is_expanded=True))

    def _read_data_program(self, words: Sequence[ShellWord], depth: int) -> None:
        for index, word in enumerate(words):
            if _RUNNING_OPTION.fullmatch(word.text):
                self._read_command(words[index + 1 :], depth)
                return
            if match := _PROGRAM_OPTION.fullmatch(word.text):
                self._read_value(match[1], words[index + 1 :], depth)

    def _read_value(self, value: str | None, words: Sequence[ShellWord], depth: int) -> None:
        """Read the command that is the value of an option, which may be the next word."""
        if value is None:
            value = words[0].text if words else ""
        self.read(value, depth + 1)

    def _read_git(self, words: Sequence[ShellWord], depth: int) -> None:
        """Read the arguments of git: only a few of its options and subcommands run something else."""
        texts = [word.text for word in words]
        for index, text in enumerate(texts):
            following = words[index + 1 :]
            if text == "-c" and following:
                self._read_setting(following[0], depth)
            elif text == "-x" and {"rebase", "difftool"} & {*texts}:
                self._read_value(None, following, depth)
            elif match := _GIT_COMMAND_OPTION.fullmatch(text):
                self._read_value(match[1], following, depth)
            elif match := _GIT_FOLDER_OPTION.fullmatch(text):
                for word in following[:1] if match[1] is None else [words[index]._replace(text=match[1])]:
                    self._add_script(word)
            elif (text == "foreach" and "submodule" in texts) or (text == "run" and "bisect" in texts):
                following = [word for word in following if word.text != "--recursive"]
                if len(following) == 1:
                    self._read_value(None, following, depth)
                else:
                    self._read_command(following, depth)
                return

    def _read_setting(self, word: ShellWord, depth: int) -> None:
        key, _, value = word.text.partition("=")
        if key.lower() in PATH_KEYS:
            self._add_script(word._replace(text=value))
        elif value.startswith("!") or COMMAND_KEY.fullmatch(key.lower()):
            self.read(value.removeprefix("!"), depth + 1)

    def _add_script(self, word: ShellWord) -> None:
        if _is_unknown(word):
            self.is_unclear = True
        elif word.text:
            self._add(word.text)

    def _add(self, text: str) -> None:
        """Add the path of a file that the command runs, with a placeholder."""
        path = expand_home(text, self._home)
        if not _PLAIN_PATH.fullmatch(text) and not text.startswith((".", "/", "~")) and "/" not in text:
            return
        if os.path.isabs(path):
            self.paths[GitPath(Path(path), "folder")] = None
            return
        self.is_unclear |= self._has_unknown_folder
        for folder in self._folders:
            self.paths[GitPath(folder / path, "folder")] = None

    def _add_module(self, name: str) -> None:
        """Add the files of a Python module in the current folder, as far as they exist."""
        *packages, module = name.split(".")
        names = [f"{path}/__init__.py" for path in accumulate((*packages, module), "{}/{}".format)]
        names += ["/".join((*packages, f"{module}{end}")) for end in (".py", "/__main__.py")]
        for path in (folder / name for folder in self._folders for name in names):
            if os.path.isfile(path):
                self.paths[GitPath(path)] = None

    def _add_build_folders(self, words: Sequence[ShellWord]) -> None:
        """Add the folders in which a build tool may run what files there say. For the top folder, that is unclear."""
        has_option = any(_FOLDER_OPTION.match(word.text) for word in words)
        top, *others = self._all_folders
        folders = others if has_option else self._folders
        self.is_unclear |= self._has_unknown_folder or not folders or top in folders
        for folder in folders:
            if folder != top:
                self.paths[GitPath(folder, "folder")] = None


def _get_name(word: ShellWord) -> str:
    return "." if word.text == "." else os.path.basename(word.text)


def _is_unknown(word: ShellWord) -> bool:
    """Check whether the shell, `find` or `xargs` replaces a word by what is not known here."""
    braces = _BRACES.findall(word.text)
    has_alternatives = any(not content or "," in content or ".." in content for content in braces)
    return has_alternatives or (word.is_expanded and bool(_UNKNOWN_WORD.search(word.text)))


def _is_script_name(text: str) -> bool:
    """Check whether an operand can only be a path, of something that is run."""
    return bool(_PLAIN_PATH.fullmatch(text)) and (
        text.startswith(("./", "../")) or bool(_SCRIPT_SUFFIX.fullmatch(text))
    )


def _replace_known_parts(value: str, top: Path, home: str) -> str:
    """Return a command with the variables and substitutions replaced whose values are known."""
    text = _REPLACED_SUBSTITUTION.sub(lambda match: str(top) if match[1] == "toplevel" else "", value.removeprefix("!"))
    return _VARIABLE_REFERENCE.sub(lambda match: home if "HOME" in match[0] else str(top), text)


def _split_words(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:
        return text.split()


def _find_folders(text: str, top: Path, home: str) -> list[Path]:
    """Return the top folder, and the folders in which a command runs something, one after the other."""
    folders = [top]
    for match in islice(_FOLDER_CHANGE.finditer(text), _MAX_FOLDERS):
        folder = folders[-1] / expand_home(_unquote(match[1]), home)
        folders.append(Path(os.path.normpath(folder)))
    return folders


def _unquote(word: str) -> str:
    return word[1:-1] if word[0] in "\"'" else re.sub(r"\\(.)", r"\1", word)
