"""The programs and scripts that commands in git's configuration run."""

from __future__ import annotations

from pathlib import Path

import pytest

from ask.safety.git_commands import GitPath, find_command_files, find_executed_files
from ask.safety.git_paths import GitSetting, iterate_commands
from tests.safety.scanned_folders import Folders

PROGRAMS = (
    ("core.fsmonitor", "./tools/x"),
    ("core.sshCommand", "tools/x -o y"),
    ("core.editor", "'tools/x' --wait"),
    ("core.pager", "LESS=R ./tools/x"),
    ("filter.a.clean", "sh tools/x"),
    ("filter.a.smudge", "cat | tools/x"),
    ("filter.a.process", '"$(git rev-parse --show-toplevel)/tools/x"'),
    ("diff.a.textconv", "python3 ./tools/x"),
    ("diff.a.command", "tools/x"),
    ("merge.a.driver", "tools/x %O %A %B"),
    ("gpg.program", "./tools/x"),
    ("credential.helper", "!f() { ./tools/x; }; f"),
    ("alias.deploy", "!tools/x"),
    ("alias.deploy", "!cd . && exec './tools/x'"),
    ("difftool.a.cmd", "$PWD/tools/x"),
    ("submodule.a.update", "!tools/x"),
    ("remote.origin.uploadpack", "tools/x"),
    ("core.attributesFile", "tools/x"),
    ("remote.origin.url", "ext::tools/x %S"),
    ("url.ext::tools/x %S.insteadOf", "x:"),
    ("alias.deploy", "!sh $'tools/x'"),
    ("gitflow.path.hooks", "tools/x"),
)


@pytest.mark.parametrize(("key", "value"), PROGRAMS, ids=lambda text: text)
def test_programs_that_git_runs_are_protected(folders: Folders, key: str, value: str) -> None:
    folders.git("init", "-q")
    folders.git("config", key, value)
    folders.write("work/tools/x")
    assert folders.scan() == {"work/.git", "work/tools/x"}
    assert folders.warnings == []


@pytest.mark.parametrize(
    ("value", "protected"),
    [
        *(
            ("!cd tools && ./x", "work/tools/x"),
            ("!cd tools; sh x", "work/tools/x"),
            ("!cd 'tools' && ./y", "work/tools/y"),
        ),
        *(
            ("!make -C tools", "work/tools"),
            ("!make --directory=tools all", "work/tools"),
            ("!cd tools && npm ci", "work/tools"),
        ),
        *(
            ("!bash -c ./run.sh", "work/run.sh"),
            ("!sh -c 'cd tools && ./x'", "work/tools/x"),
            ("!python tools/x", "work/tools/x"),
        ),
        *(("!f() { ./y; }; f", "work/y"), ("!cd tools && cd deep && ./x", "work/tools/deep/x")),
        *(("!cd -P tools && ./x", "work/tools/x"), ("!cd -L -- tools && ./y", "work/tools/y")),
        *(("!env --chdir=tools ./x", "work/tools/x"), ("!cd my\\ tools && ./x", "work/my tools/x")),
        ("!cd -P -- my\\ tools && ./y", "work/my tools/y"),
    ],
)
def test_programs_in_other_folders_of_a_command_are_protected(folders: Folders, value: str, protected: str) -> None:
    folders.git("init", "-q")
    folders.git("config", "alias.x", value)
    for name in ("work/tools/x", "work/tools/deep/x", "work/my tools/x"):
        folders.write(name)
    assert protected in folders.scan()
    assert folders.warnings == []


@pytest.mark.parametrize(
    "value",
    [
        *("!make", "!$TOOLS/x", "!cd $1 && ./x", "!cd . && npm test", "!eval x", "!cd -P $1 && ./x"),
        *("!python3 -m cleaner", "!'/usr/bin/python3.11' -m cleaner", "!python -B -c 'import cleaner'"),
        *(
            "!for f in tools/*; do sh $f; done",
            r"!sh $'tools\x2fx'",
            "!sh -e tools/*.sh",
            '!. "$1"',
            "!run-parts tools",
        ),
    ],
)
def test_a_command_that_is_not_understood_is_named(folders: Folders, value: str) -> None:
    folders.git("init", "-q")
    folders.git("config", "alias.deploy", value)
    folders.scan()
    [warning] = folders.warnings
    assert "alias.deploy" in warning


@pytest.mark.parametrize(
    "value",
    [
        *('!f() { git log "$@"; }; f', "!cd src && ls", "!git log --format='$x' | less", "!sh -c 'git log $1'"),
        *("!git add . $1", "!python3 -I -m cleaner", "!python3 -Pm cleaner", "!git branch --list feature/*"),
    ],
)
def test_commands_that_run_no_file_cause_no_warning(folders: Folders, value: str) -> None:
    folders.git("init", "-q")
    folders.write("work/src/x")
    folders.git("config", "alias.x", value)
    assert folders.scan() == {"work/.git"}
    assert folders.warnings == []


@pytest.mark.parametrize("value", ["./tools/x", "sh tools/x", "'tools/x' y"])
def test_a_missing_program_gets_a_placeholder(folders: Folders, value: str) -> None:
    folders.git("init", "-q")
    folders.git("config", "filter.a.clean", value)
    assert folders.scan() == {"work/.git", "work/tools"}


def test_the_files_of_a_python_module_are_protected(folders: Folders) -> None:
    for name in ("a/__init__.py", "a/b.py", "a/c/__main__.py", "b.py", "a/d.py"):
        folders.write(f"work/{name}")
    for command, names in {
        "python3 -m a.b --x": {"a/__init__.py", "a/b.py"},
        "python3 -um a.c": {"a/__init__.py", "a/c/__main__.py"},
        "cd a && python3 -mb": {"a/b.py"},
        "python3 -I -m a.b": set[str](),
        "python3 -m json.tool": set[str](),
    }.items():
        found = find_executed_files(command, folders.work, "/root").paths
        assert {str(file.path.relative_to(folders.work)) for file in found} == names, command


def test_settings_that_are_not_programs_protect_nothing(folders: Folders) -> None:
    folders.git("init", "-q")
    for name in ("main/x", "origin/main", "tools/x", "README", "less"):
        folders.write(f"work/{name}")
    for key, value in (
        *(("init.defaultBranch", "main"), ("remote.origin.url", "./tools"), ("remote.origin.fetch", "+refs/*:refs/*")),
        *(("branch.main.merge", "refs/heads/main"), ("core.pager", "less"), ("alias.up", "!git rebase upstream/main")),
        *(("user.name", "README"), ("remote.origin.proxy", "http://localhost/x"), ("diff.a.command", "$(x)/y")),
    ):
        folders.git("config", key, value)
    assert folders.scan() == {"work/.git"}


def test_programs_in_environment_variables_are_protected(folders: Folders) -> None:
    folders.write("work/tools/x")
    assert folders.scan(GIT_SSH_COMMAND="tools/x -v", GIT_TEMPLATE_DIR="template") == {
        *("work/.git", "work/tools/x", "work/template"),
    }


WRAPPED = (
    *("/bin/sh tools/x", "bash -e tools/x", "env bash tools/x", "env X=1 sh tools/x", ". tools/x", "source tools/x"),
    *("true && tools/x", "nice tools/x", "nice -n 5 sh tools/x", "time sh tools/x", "exec tools/x", "sudo -n tools/x"),
    *("sudo -u root sh tools/x", "bash -o pipefail -e tools/x", "env -u A -i bash tools/x", "xargs -n 1 tools/x"),
    *("cat | xargs sh tools/x", "find . -exec tools/x {} +", "find . -name '*.y' -exec sh tools/x {} \\;"),
    *("timeout 5 tools/x", "timeout -s KILL 5s bash tools/x", "stdbuf -oL tools/x", "nohup setsid tools/x &"),
    *("if true; then tools/x; fi", "for f in a b; do sh tools/x $f; done", "while read f; do tools/x; done"),
    *("{ tools/x; }", "(tools/x)", "y $(tools/x)", "echo `tools/x`", 'echo "y $(tools/x)"', "diff <(tools/x) y"),
    *(
        "f() { tools/x; }; f",
        "f() { sh -e tools/x; }; f",
        "sh < tools/x",
        "sh -s <tools/x",
        "! tools/x",
        "a || tools/x",
    ),
    *("sh -c 'sh tools/x'", "bash -ec 'exec tools/x'", 'sh -c "nice tools/x"', "bash -lc tools/x", "sh -c -- tools/x"),
    *(
        "python3 tools/x",
        "python3 -u -W ignore tools/x",
        "/usr/bin/python3.11 -B tools/x",
        "node --no-warnings tools/x",
    ),
    *(
        "node -r ./tools/x y.js",
        "node --require=./tools/x y.js",
        "perl -w tools/x",
        "perl -I tools/x -e 1",
        "ruby tools/x",
    ),
    *("php -f tools/x", "lua tools/x", "java -jar tools/x", "bash --rcfile tools/x -i", "command . tools/x"),
    *("GIT_EDITOR=tools/x git commit", "GIT_SSH_COMMAND='sh tools/x' git fetch", "env GIT_PAGER=tools/x git log"),
    *("export EDITOR='nice tools/x'; git commit", "PATH=tools/x:$PATH y", "BASH_ENV=tools/x bash y"),
    *("git -c core.pager=tools/x log", "git -c core.sshCommand='sh tools/x' fetch", "git -c alias.y='!tools/x' y"),
    *(
        "git rebase -x tools/x main",
        "git rebase --exec='sh tools/x'",
        "git bisect run tools/x",
        "git bisect run sh tools/x",
    ),
    *(
        "git submodule foreach tools/x",
        "git submodule foreach --recursive 'sh tools/x'",
        "git difftool --extcmd=tools/x",
    ),
    *("git filter-branch --tree-filter 'tools/x' HEAD", "git --exec-path=tools/x y", "git --git-dir=tools/x log"),
    *("awk -f tools/x", "sed -f tools/x", "jq -f tools/x", "vim -S tools/x", "nvim -u tools/x -d $LOCAL $REMOTE"),
    *("nvim -c 'source tools/x' $MERGED", "vim --cmd 'so tools/x'", "ssh -F tools/x", "unknown --script=tools/x y"),
    *("unknown tools/x", "docker run -i image tools/x", "unknown 'tools/x y'", "flock /tmp/l tools/x", "tools/x"),
    *(
        '"tools/x"',
        "'tools/x' %f",
        "tools/x %O %A %B",
        "A=1 B='2 3' tools/x",
        "tools\\/x",
        "t'ools/'x",
        "cat y | tools/x",
    ),
    *(
        "tar cf - . --use-compress-program=tools/x",
        "rsync --rsh-command=tools/x a b",
        "cd . && tools/x",
        "cd tools && sh x",
    ),
    *(
        "cd tools; ./x",
        "cd tools && . ./x",
        "(cd tools && nice ./x)",
        "cd ./tools/ && exec bash -e x",
        "pushd tools && ./x",
    ),
    *(
        "make -C tools/x",
        "bash -c 'cd tools && nice ./x'",
        "$(git rev-parse --show-toplevel)/tools/x",
        "sh $PWD/tools/x",
    ),
    *("sh ./$(git rev-parse --show-cdup)tools/x", "tools/x; y", "y;tools/x", "y\ntools/x", "command -- sh -- tools/x"),
    *(
        "perl tools/x.pl",
        "unknown a tools/x",
        "parallel tools/x ::: a b",
        "watch -n 1 tools/x",
        "strace -o /tmp/l tools/x",
    ),
)


@pytest.mark.parametrize("command", WRAPPED)
def test_a_missing_program_gets_a_placeholder_wherever_it_is_named(tmp_path: Path, command: str) -> None:
    found = find_command_files(f"!{command}", tmp_path, "/home/x")
    protected = {path.path for path in found.paths if path.placeholder_type}
    target = tmp_path / "tools/x"
    assert protected & {target, *target.parents, target.with_suffix(".pl")}, found
    assert not found.is_unclear


@pytest.mark.parametrize(
    ("command", "names"),
    [
        *(("cd tools && ./x", "tools/x"), ("cd -P tools && y && ./x", "tools/x"), ("cd tools && cd .. && ./x", "x")),
        *(("cd tools; ./x", "tools/x x"), ("cd tools || y; ./x", "tools/x x"), ("(cd tools && y); ./x", "tools/x x")),
        *(("cd tools\n./x", "tools/x x"), ("cd tools & ./x", "tools/x x"), ("cd tools | ./x", "tools/x x")),
        *(("make -C tools && ./x", "tools tools/x x"), ("git -C tools pull && ./x", "tools/x x")),
        *(("env --chdir=tools ./x && y", "tools/x x"), ("npm --prefix tools ci && ./x", "tools tools/x x")),
        *(("sh -c 'cd tools && y' && ./x", "tools/x x"), ("sh -c 'y && cd tools' && ./x", "tools/x x")),
        *(("cd tools && cd - && ./x", "tools/-/x tools/x x"), ("pushd tools && popd && ./x", "tools/x x")),
        *(("cd tools && y && cd deep && ./x", "tools/deep/x tools/x x"), ("cd tools && make", "tools")),
    ],
)
def test_a_program_is_looked_for_in_each_folder_where_it_may_run(tmp_path: Path, command: str, names: str) -> None:
    found = find_command_files(f"!{command}", tmp_path, "/home/x")
    assert {*found.paths} == {GitPath(tmp_path / name, "folder") for name in names.split()}
    assert not found.is_unclear


@pytest.mark.parametrize(
    "command",
    [
        *("make && cd tools && ./x", "make -C tools && make", "cd tools && cd .. && make", "cd tools; npm test"),
        *("(cd tools && make) && npm test", "npm --prefix $x test", "sudo make && cd tools"),
    ],
)
def test_a_build_that_may_run_in_the_top_folder_is_unclear(tmp_path: Path, command: str) -> None:
    assert find_command_files(f"!{command}", tmp_path, "/home/x").is_unclear


SCRIPTS_WITHOUT_A_FOLDER = (
    *("env -S 'sh x'", "trap 'sh x' EXIT", "unknown --run 'bash -e x'", "git -c core.hooksPath=x log", "su -c 'sh x'"),
    *("fzf --preview 'sh x'", "rg --pre=./x y", "alias y='sh x'; y", "GIT_CONFIG_GLOBAL=x git log", "a | sh -s < x"),
    *("sh x", "bash -e x", "env bash x", "nice sh x", "sudo -n bash x", ". ./x", "source x", "python3 x", "node x"),
    *("perl -w x", "sh -c 'bash x'", "xargs sh x", "cat y | sh x", "sh <x", "/usr/bin/env sh x", "time -p sh x"),
    *("git bisect run sh x", "find . -exec sh x \\;", "awk -f x", "vim -S x", "unknown sh x", "java -jar x"),
)


@pytest.mark.parametrize("command", SCRIPTS_WITHOUT_A_FOLDER)
def test_a_missing_script_needs_no_slash(tmp_path: Path, command: str) -> None:
    found = find_command_files(f"!{command}", tmp_path, "/home/x")
    assert GitPath(tmp_path / "x", "folder") in found.paths
    assert not found.is_unclear


UNCLEAR = (
    *(
        "cat tools/x | sh",
        "sh",
        "ls tools | xargs -n 1 sh",
        "ls tools | xargs -I{} tools/{}",
        "git show HEAD:x | bash -s",
    ),
    *("awk 'BEGIN { system(\"sh x\") }'", "perl -e 'system(1)'", "find . -exec sh {} \\;", "y" * 10_001),
    " && ".join([*(f"cd {number}" for number in range(25)), "./x"]),
    *("$1", '"$TOOL" x', "$TOOLS/x", 'sh "$1"', "sh $x", "bash -e $(y)", "sh -c '$0' tools/x", 'f() { "$0"; }; f'),
    *("env $X sh y", "nice $TOOL", "xargs -n 1 $TOOL", "x=./y; $x", "eval y", 'sh -c "$1"', "nice make", "sudo npm ci"),
    *("env X=1 make", "time npm test", "sh -c make", "sh -c 'exec npm run x'", "python -m x", "env python3 -m x"),
    *("sh -c 'python -m x'", "git submodule foreach make", "git bisect run make", "git -c core.pager='sh $x' log"),
    *(
        "node -e 'require(\"x\")'",
        "ruby -e 'load \"x\"'",
        "cd $1 && sh y",
        "cd $1 && ./y",
        "sh tools/*.sh",
        "./tools/*",
    ),
    *("sh {a,b}.sh", "source $x", "cd $1 && make", "run-parts x", "find . -exec $x {} +", "unknown $x/y", "nice $(x)"),
)


@pytest.mark.parametrize("command", UNCLEAR)
def test_a_command_with_an_unknown_program_is_unclear(tmp_path: Path, command: str) -> None:
    assert find_command_files(f"!{command}", tmp_path, "/home/x").is_unclear


COMMON_SETTINGS = (
    ("filter.lfs.clean", "git-lfs clean -- %f"),
    ("filter.lfs.smudge", "git-lfs smudge --skip -- %f"),
    ("filter.lfs.process", "git-lfs filter-process"),
    ("filter.nbstripout.clean", "nbstripout"),
    ("filter.nbstripout.clean", "/usr/local/bin/nbstripout --keep-output"),
    ("filter.nbstripout.clean", "uvx-less-nbstripout -t"),
    ("diff.ipynb.textconv", "nbstripout -t"),
    ("merge.jupyternotebook.driver", "git-nbmergedriver merge %O %A %B %L %P"),
    ("diff.jupyternotebook.command", "git-nbdiffdriver diff"),
    ("core.pager", "delta"),
    ("core.pager", "delta --features 'side-by-side line-numbers' --syntax-theme base16/x"),
    ("interactive.diffFilter", "delta --color-only --features=interactive"),
    ("core.pager", "diff-so-fancy | less --tabs=4 -RFX"),
    ("interactive.diffFilter", "diff-so-fancy --patch"),
    ("diff.external", "difft"),
    ("diff.external", "difft --color always --display side-by-side"),
    ("difftool.difftastic.cmd", 'difft "$MERGED" "$LOCAL" "abcdef1" "100644" "$REMOTE" "abcdef2" "100644"'),
    ("alias.dlog", "-c diff.external=difft log -p --ext-diff"),
    ("alias.lg", "log --oneline --graph origin/main..HEAD"),
    ("alias.wip", "commit -m wip -- src/x"),
    ("alias.ls", "log --pretty=format:'%C(yellow)%h %ad%Cred%d %Creset%s' --date=short"),
    ("mergetool.vim.cmd", "vim -d $LOCAL $REMOTE $MERGED -c '$wincmd w' -c 'wincmd J'"),
    ("mergetool.nvim.cmd", 'nvim -f -d -c "wincmd J" "$MERGED" "$LOCAL" "$BASE" "$REMOTE"'),
    ("mergetool.fugitive.cmd", 'vim -f -c "Gvdiffsplit!" "$MERGED"'),
    ("difftool.nvimdiff.cmd", 'nvim -u NONE -d "$LOCAL" "$REMOTE"'),
    ("mergetool.code.cmd", "code --wait --merge $REMOTE $LOCAL $BASE $MERGED"),
    ("difftool.code.cmd", "code --wait --diff $LOCAL $REMOTE"),
    ("mergetool.meld.cmd", 'meld --auto-merge "$LOCAL" "$BASE" "$REMOTE" --output "$MERGED"'),
    ("mergetool.p4merge.path", "/Applications/p4merge.app/Contents/MacOS/p4merge"),
    ("mergetool.kdiff3.path", "/mnt/c/Program Files/KDiff3/kdiff3.exe"),
    ("mergetool.smerge.cmd", 'smerge mergetool "$BASE" "$LOCAL" "$REMOTE" -o "$MERGED"'),
    ("mergetool.emacs.cmd", 'emacs --eval "(ediff-merge-files-with-ancestor \\"$LOCAL\\" \\"$REMOTE\\" \\"$BASE\\")"'),
    ("gpg.program", "gpg2"),
    ("gpg.program", "/usr/bin/gpg"),
    ("gpg.ssh.program", "/opt/1Password/op-ssh-sign"),
    ("gpg.x509.program", "gitsign"),
    ("credential.https://github.com.helper", "!/usr/bin/gh auth git-credential"),
    ("credential.helper", "!gh auth git-credential"),
    ("credential.helper", "!aws codecommit credential-helper $@"),
    ("credential.helper", "cache --timeout=3600"),
    ("credential.helper", "store --file ~/.git-credentials"),
    ("credential.helper", "/usr/lib/git-core/git-credential-libsecret"),
    ("credential.helper", "/mnt/c/Program\\ Files/Git/mingw64/bin/git-credential-manager.exe"),
    ("credential.helper", '!f() { echo "username=x"; echo "password=$TOKEN"; }; f'),
    ("filter.git-crypt.smudge", '"git-crypt" smudge'),
    ("filter.git-crypt.clean", '"git-crypt" clean --key-name=x'),
    ("diff.git-crypt.textconv", '"git-crypt" diff'),
    ("diff.sopsdiffer.textconv", "sops -d"),
    ("diff.sopsdiffer.textconv", "sops decrypt --config conf/sops.yaml"),
    ("diff.ansible-vault.textconv", "ansible-vault view"),
    ("diff.exif.textconv", "exiftool"),
    ("diff.pdf.textconv", "sh -c 'pdftotext \"$0\" - | cat'"),
    ("diff.docx.textconv", "pandoc --to=markdown"),
    ("diff.zip.textconv", "unzip -c -a"),
    ("diff.sqlite3.textconv", "sh -c 'sqlite3 $0 .dump'"),
    ("diff.bin.textconv", "hexdump -v -C"),
    ("diff.gpg.textconv", "gpg --no-tty --decrypt"),
    ("filter.jq.clean", "jq --indent 1 '(.cells[] | select(has(\"outputs\")) | .outputs) = [] | .metadata = {}'"),
    ("filter.crlf.clean", "sed 's/foo\\/bar/x/g'"),
    ("filter.spaces.clean", "expand --tabs=4 --initial"),
    ("filter.dater.clean", "perl -pe 's/\\$Date[^\\$]*\\$/\\$Date\\$/'"),
    ("core.sshCommand", "ssh -i ~/.ssh/id_ed25519 -o IdentitiesOnly=yes -F /dev/null"),
    ("core.editor", "code --wait"),
    ("core.editor", "emacsclient -t -a ''"),
    ("core.editor", "vim +startinsert"),
    ("core.pager", "less -FRX"),
    ("core.pager", "LESS=-FRX less"),
    ("pager.log", "false"),
    ("core.fsmonitor", "true"),
    ("alias.nohooks", "-c core.hooksPath=/dev/null commit"),
    ("remote.origin.url", "https://example.org/x/y.git"),
    ("alias.root", "!pwd"),
    ("alias.exec", "!exec "),
    ("alias.s", "!git status --short && git log -1"),
    ("alias.sync", "!git fetch origin && git rebase origin/main"),
    ("alias.new", '!f() { git checkout -b "$1" origin/main && git push -u origin "$1"; }; f'),
    ("alias.gone", "!git branch --merged | grep -v '\\*\\|main' | xargs -n 1 git branch -d"),
    ("alias.wc", "!git ls-files | xargs wc -l src/x"),
    ("alias.aliases", "!git config --get-regexp ^alias\\. | sed -e s/^alias\\.// -e s/\\ /\\ =\\ /"),
    ("alias.pr", "!gh pr view --web"),
    ("alias.co-pr", "!f() { git fetch -fu ${2:-origin} refs/pull/$1/head:pr/$1 && git checkout pr/$1; }; f"),
    ("alias.t", "!tig origin/main"),
    ("alias.edit", "!$EDITOR $(git diff --name-only)"),
    ("alias.here", '!cd "${GIT_PREFIX:-.}" && git ls-files src/x'),
    ("alias.fz", "!git for-each-ref --format='%(refname:short)' refs/heads/ | fzf | xargs git switch"),
    ("alias.todo", "!grep -rn TODO src/lib | head"),
    ("alias.clean-out", "!rm -rf build/out && mkdir -p build/out"),
    ("alias.web", "!open \"$(git remote get-url origin | sed -E 's#git@([^:]+):#https://\\1/#')\""),
    ("alias.timed", "!time git push origin feature/x"),
    ("alias.today", '!git log --since=$(date +%Y/%m/%d) --author="$(git config user.name)"'),
    ("alias.fixup", "!git log -n 20 --oneline | fzf | cut -c -7 | xargs -o git commit --fixup"),
    ("alias.auto", "!GIT_SEQUENCE_EDITOR=: git rebase -i --autosquash origin/main"),
    ("alias.up", "!git pull --rebase --prune $@ && git submodule update --init --recursive"),
    ("alias.top", "!cd $(git rev-parse --show-toplevel) && ls src/x"),
    ("sendemail.smtpServer", "/usr/bin/msmtp"),
    ("remote.origin.uploadpack", "/usr/bin/git-upload-pack"),
)


@pytest.mark.parametrize(("key", "value"), COMMON_SETTINGS, ids=lambda text: text)
def test_common_settings_cause_no_placeholder_and_no_notice(tmp_path: Path, key: str, value: str) -> None:
    commands = dict(iterate_commands([GitSetting("", key, value)], {}))
    for command in commands.values():
        found = find_command_files(command, tmp_path, "/home/x")
        assert not [path for path in found.paths if path.path.is_relative_to(tmp_path)], found
        assert not found.is_unclear


def test_one_notice_names_the_commands_of_all_repositories(folders: Folders) -> None:
    folders.write("home/.gitconfig", "[alias]\nx = !make\n")
    for name in ("a", "b"):
        folders.git("init", "-q", name)
    folders.git("config", "alias.y", "!$1", folder="work/b")
    folders.scan()
    [warning] = folders.warnings
    assert warning.count("alias.x") == warning.count("alias.y") == 1
