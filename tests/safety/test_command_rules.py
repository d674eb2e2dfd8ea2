"""Rules about tool calls: what they match, and which commands are dangerous."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest

from ask.errors import ConfigError
from ask.safety.command_rules import find_allow_rules, find_dangerous_command, find_deny_rule, parse_rules

ALLOW = parse_rules("tools.allow", ["git status", "ls *", "cat *.txt", "make test-*", "github__*", "bash"])


@pytest.mark.parametrize(
    "command",
    [
        *("git status", "git 'status'", "git status 2>&1", "git status && ls -l", "ls", "ls -la 'a b'", "ls *.py"),
        *("cat a.txt", "cat *.txt", "make test-unit", "git status | cat a.txt"),
    ],
)
def test_allowed_commands(command: str) -> None:
    assert find_allow_rules(ALLOW, command)


@pytest.mark.parametrize(
    "command",
    [
        *(
            "git",
            "git status -s",
            "git stat",
            "git status; rm -rf x",
            "git status | rm x",
            "lsof",
            "/tmp/ls",
            "./git status",
        ),
        *("cat a.txt b.txt", "cat ?.txt", "cat", "git status > x", "ls $(rm x)", "sudo ls", "GIT_DIR=x git status", ""),
    ],
)
def test_other_commands_are_not_allowed(command: str) -> None:
    assert find_allow_rules(ALLOW, command) == []


PROGRAMS = [
    *("./build *", "git *", "sh tools/check", "cd *", "pushd *", "python3 check.py", "python3 -m check", "bash check"),
    *("printf *", "head *.md", "lint --config=rules.js *"),
    *("/usr/bin/python3 check", "timeout 60 sh check", "uv run python -m check", "elixir check", "bun test"),
    *("set *", "awk -f prog *", "make -f build", "make --file=build", "mawk -fprog", "make -C tools", "ninja -Ctools"),
    *("psql -f seed", "sed -nf prog *", "make -kC tools", "timeout 60 make -sf build", "make --makefile build"),
    *("head -n 5", "sort -u", "ls -F *", "rm -f build", "curl -f http://localhost", "docker logs -f web"),
]


@pytest.mark.parametrize(
    "command",
    [
        *(
            "cd other && ./build",
            "cd / && ./build",
            "cd; ./build x",
            "pushd other; ./build",
            "cd other; sh tools/check",
            "cd other && python3 check.py",
            "cd other && python3 -m check",
            "cd other && bash check",
            "cd other && lint --config=rules.js src",
            "cd other && /usr/bin/python3 check",
            "cd other && timeout 60 sh check",
            "cd other && uv run python -m check",
            "cd other && elixir check",
            "cd other && awk -f prog x",
            "cd other && make -f build",
            "cd other && make --file=build",
            "cd other && mawk -fprog",
            "cd other && make -C tools",
            "cd other && ninja -Ctools",
            "cd other && psql -f seed",
            "cd other && sed -nf prog x",
            "cd other && make -kC tools",
            "cd other && timeout 60 make -sf build",
            "cd other && make --makefile build",
        ),
        "cd ./work && cd .. && ./build",
    ],
)
def test_a_name_that_may_mean_another_program_is_not_allowed(command: str) -> None:
    rules = parse_rules("tools.allow", PROGRAMS)
    assert all(find_allow_rules(rules, part.strip()) for part in re.split("[;|&]+", command))
    assert find_allow_rules(rules, command, "/project") == []


@pytest.mark.parametrize(
    "command",
    [
        *("cd other && git log", "cd /project && ./build", "cd /project/ && ./build", "cd . && ./build; cd other"),
        *(
            "cd other && head a.md",
            "cd other && bun test",
            "cd other && head -n 5",
            "cd other && sort -u",
            "cd other && ls -F x",
            "cd other && rm -f build",
            "cd other && curl -f http://localhost",
            "cd other && docker logs -f web",
            "cd . && awk -f prog x",
            "cd . && python3 -m check",
            "printf '%s %d%%n' a 3; git log",
        ),
        *("./build && cd other", "set -euo pipefail; git log", "set -x -e; git log"),
    ],
)
def test_a_name_that_means_the_same_program_is_allowed(command: str) -> None:
    assert find_allow_rules(parse_rules("tools.allow", PROGRAMS), command, "/project")


@pytest.mark.parametrize(
    "command",
    [
        *("export PATH=./other && git status", "hash -p other/git git; git log", "unset PATH | git log; git log"),
        *("read PATH; git log", "set -k; git log PATH=.", "set -e -k; git log", "shopt -s expand_aliases; git log"),
        *("git log && export X=1", "git log | read X", "readonly X=1", "wait"),
        *("printf '12345%n' PATH; git log", "printf -- '%5ln' PATH; git log", "printf '%%%n' IFS"),
        *("printf -- *; git log",),
    ],
)
def test_a_builtin_that_changes_the_shell_is_not_allowed(command: str) -> None:
    programs = {part.split()[0] for part in re.split("[;|&]+", command)}
    assert find_allow_rules(parse_rules("tools.allow", [f"{program} *" for program in programs]), command) == []


@pytest.mark.parametrize("path", ["./bin:/usr/bin", ":/usr/bin", "/etc::/bin", "/etc:.", "node_modules/.bin:/bin"])
def test_after_cd_a_relative_folder_on_path_is_another_one(monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    rules = parse_rules("tools.allow", PROGRAMS)
    assert find_allow_rules(rules, "cd other && git log", "/project")
    monkeypatch.setenv("PATH", path)
    assert find_allow_rules(rules, "cd other && git log", "/project") == []
    assert find_allow_rules(rules, "git log; cd /project && git log && cd other && cd x", "/project")
    monkeypatch.setenv("PATH", f"/usr/bin:/bin:{path}")  # git is found before
    assert find_allow_rules(rules, "cd other && git log", "/project")
    assert find_allow_rules(parse_rules("tools.allow", ["cd *", "timeout *"]), "cd other && timeout 5 x") == []
    monkeypatch.setenv("PATH", "~/bin:/usr/bin")  # bash, unlike others, expands it
    assert find_allow_rules(rules, "cd other && git log", "/project")


def test_a_pattern_of_a_program_matches_no_path() -> None:
    rules = parse_rules("tools.allow", ["pytest*", "[a-z]est *", "?s", "./build-*", "/opt/*", "*/tool", "* --version"])
    for command in ("pytest-3", "test x", "ls", "./build-a/b", "/opt/a/b", "./tool", "./x --version", "a/b --version"):
        assert find_allow_rules(rules, command), command
    for command in ("pytest/evil", "pytest-3/../evil", "./test x", "/s", "./pytest"):
        assert find_allow_rules(rules, command) == [], command


def test_a_pattern_of_a_folder_does_not_match_a_path_out_of_it() -> None:
    entries = ["cat docs/*", "/opt/tools/*", "head ../*", "wc *", "rm build*", "cp * x", "tail *.md"]
    entries += ["lint --config=*.js", "dd of=*"]
    rules = parse_rules("tools.allow", entries)
    for command in (
        *("cat docs/a/b", "/opt/tools/x", "head ../../x", "wc ../x", "cat docs/a..b", "rm build/a", "cp ../a x"),
        *("cp /a x", "tail docs/a.md", "lint --config=a/b.js", "dd of=/a", "dd of=../a"),
    ):
        assert find_allow_rules(rules, command), command
    for command in (
        *("cat docs/../../.ssh/id", "/opt/tools/../../bin/sh", "cat docs/..", "rm build/../a", "tail ../a.md"),
        *("tail /etc/a.md", "lint --config=/etc/b.js", "lint --config=../b.js"),
    ):
        assert find_allow_rules(rules, command) == [], command


def test_a_rule_of_one_word_matches_tools() -> None:
    matching = {rule.text for rule in ALLOW for name in ("github__issue", "bash") if rule.matches_tool(name)}
    assert matching == {"github__*", "bash"}


@pytest.mark.parametrize("entry", ["", "git status; ls", "ls > x", "echo $HOME", "a & b", "ls 'x"])
def test_a_rule_is_one_simple_command(entry: str) -> None:
    with pytest.raises(ConfigError) as raised:
        parse_rules("tools.allow", [entry])
    assert "tools.allow" in raised.value.message


@pytest.mark.parametrize(
    "command",
    [
        *("git push", "git push origin main", "cd x && git push", "A=b git push", "git push > log", "(git push)"),
        *(
            "{fd[0]}>log git push",
            "env -S'git push'",
            "git rebase -x'git push' main",
            "git rebase --exec='git push' main",
        ),
        *("{fd}>log git push", "x=1 {fd}<log git push"),
        *("sudo git push", "sudo -u me git push", "bash -c 'git push'", "x=$(git push)", "if a; then git push; fi"),
        *(
            "/usr/bin/git push",
            "echo | xargs -n 1 git push",
            "find . -exec git push ;",
            "env A=b git push",
            "git 'push' &",
        ),
        *("git -C lib push", "git --no-pager push", "git -c a=b -C x push -f", "cd x && git -C .. push"),
        *("bash <<END\ncd x\ngit push\nEND", "sudo sh -s <<'END'\ngit push\nEND", "bash <<< 'git push'"),
        *("cat <<END > x\n$(git push)\nEND\nls", "cat <<END | sh\ngit push\nEND", "bash -c 'sh <<END\ngit push\nEND'"),
        *("function f { git push; }; f", "coproc JOB { git push; }", "function f if git push; then a; fi"),
        *("fish -c 'git push'", "busybox ash -c 'git push'", "tcsh <<END\ngit push\nEND", "toybox git push"),
        *("uv run git push", "uv run --with x git push", "poetry run -- git push", "mise exec -- git push"),
        *("mise exec node@20 -- git push", "mise x -- git push", "uv --directory x -q run git push"),
        *("time -p git push", "trap 'git push' EXIT", "watch 'git push'"),
        *("strace -f git push", "flock /tmp/lock git push", "unshare -r git push", "chroot / git push"),
        *("taskset 0x1 git push", "script -c 'git push' log", "flock lock -c 'git push'", "parallel git push"),
        *("script -q log git push", "script --command='git push'", "script -qc'git push' log", "env -S 'git push'"),
        *("direnv exec . git push", "op run -- git push", "pyenv exec git push", "doppler run -- git push"),
        *("setarch x86_64 git push", "gosu me git push", "torsocks git push", "tmux new -d 'git push'"),
        *("git submodule foreach 'git push'", "git submodule --quiet foreach git push", "git bisect run git push"),
        *("git rebase -x 'git push' main", "echo $'it\\'s'; git push; echo 'x'", "git $'push'", 'git $"push"'),
        *("2> log git push", "git 2> log push", "gi\\\nt pu\\\nsh", '"gi\\\nt" push', "git \\\n  push"),
        *("ls a\\\n#b; git push", "ls a\\ #b; git push", "ls a\\;#b; git push", "git push\\\n"),
        *("fd -e log -x git push", "fd log src -X git push", "fdfind log --exec git push"),
        "fd -e a -E b -E c -E d -E e -E f -E g -E h -x git push",
        *("chrt -f 10 git push", "numactl -N 0,1 git push", "fakeroot git push", "arch -x86_64 git push"),
    ],
)
def test_a_denied_command_is_found_inside_others(command: str) -> None:
    assert find_deny_rule(parse_rules("tools.deny", ["curl *", "git push"]), command) == "git push"


@pytest.mark.parametrize(
    "command",
    [
        *("git status", "echo git push", "git pushx", "git", "grep 'git push' x", "git -C x status push", "git -C"),
        *("git log --grep push", "git remote -v push", "cat > x <<END\ngit push\nEND"),
        *("flock git push.lock make", "strace git log", "flock lock apt install curl"),
        *("flock -n lock echo git push", "flock lock cat > x <<END\ngit push\nEND", "chrt -f 10 echo git push"),
        *("uv add git push", "uv run echo git push", "poetry run make git push", "uv run", "fish git push"),
        *("mise exec -- echo git push", "sudo -- echo git push", "uv add run git push", "poetry run x -- git push"),
        *("git submodule foreach 'echo git push'", "git rebase main git push", "echo 2> log git push"),
        *("numactl -N 0 echo git push", "env x=1 python - <<END\ngit push\nEND"),
        *("cat <<'END'\n$(git push)\nEND", "cat <<< 'git push'", "ask <<< 'what does git push do'"),
    ],
)
def test_other_commands_are_not_denied(command: str) -> None:
    assert find_deny_rule(parse_rules("tools.deny", ["git push", "curl *"]), command) is None


DANGEROUS = {
    "rm -r /": [
        "rm -rf /",
        "rm -fr /*",
        "sudo rm -r -f --no-preserve-root /",
        "rm --recursive //",
        "cd / && rm -rf *",
        "pushd / && rm -rf *",
    ],
    "rm -r ~": [
        "rm -rf ~",
        "rm -rf ~/",
        "rm -rf ~/*",
        "cd ~; rm -rf .",
        "bash -c 'rm -rf ~'",
        "ls | xargs rm -rf ~",
        "cd && rm -rf *",
        "bash <<END\nrm -rf ~\nEND",
    ],
    "rm -r $HOME": ["rm -rf $HOME", 'rm -rf "$HOME"/*', "\\rm -rf $HOME"],
    "rm -r /usr": [
        "rm -rf /usr",
        "rm -rf /usr/*",
        "/bin/rm -r /tmp/../usr",
        "x=$(rm -rf /usr)",
        "find . -exec rm -r /usr +",
    ],
    "mkfs": ["mkfs.ext4 /dev/sda1", "sudo /sbin/mkfs -t ext4 /dev/sda1", "mkfs.xfs -f $DISK"],
    "dd to a disk device": ["dd if=/dev/zero of=/dev/sda", "cat x | sudo dd of=/dev/nvme0n1 bs=1M"],
    "write to a disk device": ["cat x > /dev/sda", "echo > '/dev/sdb1'"],
    "fork bomb": [":(){ :|:& };:", ":() { : | : & }; :", "bomb() { bomb|bomb & }; bomb", "f(){\n  f|f&\n}\nf"],
    "reboot": ["reboot", "sudo reboot", "/sbin/reboot -f", "sleep 5 && reboot", "timeout 5 reboot", 'echo "$(reboot)"'],
    "shutdown": ["shutdown -h now", "nohup shutdown now &"],
    "poweroff": ["poweroff"],
    "systemctl": ["systemctl poweroff", "sudo systemctl -i reboot"],
    "init": ["init 0", "init 6"],
}
HARMLESS = [
    *(
        "rm x",
        "rm -rf build",
        "rm -rf .",
        "rm -rf ./*",
        "rm -rf /tmp/x",
        "rm -rf ~/.cache/x",
        "rm -rf /home/me/x",
        "rm /",
    ),
    *(
        "rm -rf $BUILD",
        "git rm -rf --cached x",
        "echo rm -rf /",
        "grep -rn 'rm -rf /' .",
        "rm -rf /etc.bak",
        "cd /; ls *",
        "cd - && rm -rf *",
    ),
    *(
        "dd if=x of=disk.img",
        "dd if=/dev/sda of=/dev/null",
        "echo x > /dev/null",
        "echo x > /dev/stderr",
        "ls /dev/sda",
    ),
    *("mkfs --help", "which mkfs", "man mkfs.ext4", "man reboot", "git commit -m reboot", "systemctl status reboot"),
    *("xargs grep reboot", "time grep reboot x", "sudo cat /var/log/reboot", "init", "f(){ g | h & }; f", ""),
    "cat > x.sh <<END\nreboot\nEND",
]


@pytest.mark.parametrize(("name", "command"), [(name, command) for name in DANGEROUS for command in DANGEROUS[name]])
def test_dangerous_commands(name: str, command: str) -> None:
    assert find_dangerous_command(command) == name


@pytest.mark.parametrize("command", HARMLESS)
def test_harmless_commands(command: str) -> None:
    assert find_dangerous_command(command) is None


def test_the_home_folder_is_recognized_by_its_path() -> None:
    assert find_dangerous_command(f"rm -rf {Path.home()}/")


def test_known_gaps() -> None:
    for command in ("x=rm; $x -rf /", "python -c 'rmtree(\"/\")'", "find / -delete", "sh clean.sh", "rm -rf /e*c"):
        assert find_dangerous_command(command) is None


@pytest.mark.parametrize(
    "piece",
    [
        *("sudo ", "bash -c ", "find -exec ", "eval ", "flock ", "rm -r ", "x() { ", "sudo rm -r ", "git foreach "),
        *("../", "/bin", "/a/bin/"),
    ],
)
def test_checks_take_linear_time(piece: str) -> None:
    command = piece * (16_000 // len(piece))
    before = time.process_time()
    find_dangerous_command(command)
    find_deny_rule(ALLOW, command)
    assert time.process_time() - before < 1
