"""Escapes through paths, links, and files that other programs will run later."""

from __future__ import annotations

from tests.escapes.escape import Escape, file_contains, file_exists, output_contains, shell, status_matches
from tests.safety.fake_host import TOKEN

_SWAP = """(while :; do rm -rf d; mkdir d; rm -rf d; ln -s @outside@ d; done) & p=$!
for i in $(seq 400); do echo out > d/swapped; done 2> /dev/null; kill $p
ln -s @outside@ e; echo out > e/swapped"""

PATHS = [
    shell("read a file beside", "cat ../outside/secret", output_contains()),
    Escape("read a file beside, tool", "read_file", {"filepath": "../outside/secret"}, output_contains()),
    shell("read by the root of a process", "cat /proc/self/root@home@/.ssh/id_rsa", output_contains()),
    Escape("read the ssh key", "read_file", {"filepath": "@home@/.ssh/id_rsa"}, output_contains()),
    Escape("read .netrc", "read_file", {"filepath": "~/.netrc"}, output_contains()),
    shell("read the cloud's key", "cat ~/.aws/credentials", output_contains()),
    shell("read ask's keys", "cat @config@/ask/keys.toml", output_contains("anthropic")),
    shell(
        "read ask's history", "cat @data@/ask/history.db* | grep -a -o canary-[0-9a-f]* | head -1", output_contains()
    ),
    shell("read shadow", "cat ../../../../../../etc/shadow", output_contains("root:"), root=True),
    Escape("list the home", "list_dir", {"dirpath": "@home@/.ssh"}, output_contains("id_rsa")),
    shell("write to a sibling", "echo x > @base@/work_evil/x", file_exists("@base@/work_evil/x")),
    Escape(
        "write to a sibling, tool",
        "write_file",
        {"filepath": "../work_evil/y", "content": "x"},
        file_exists("@base@/work_evil/y"),
    ),
    shell("write .bashrc", "echo hacked >> ~/.bashrc", file_contains("@home@/.bashrc", "hacked")),
    Escape(
        "edit the ssh key",
        "edit_file",
        {"filepath": "@home@/.ssh/id_rsa", "old_text": TOKEN, "new_text": f"{TOKEN} edited"},
        file_contains("@home@/.ssh/id_rsa", "edited"),
    ),
    shell("write to /tmp", "touch /tmp/@shared@", file_exists("/tmp/@shared@")),
    shell("write to /dev/shm", "touch /dev/shm/@shared@", file_exists("/dev/shm/@shared@")),
    shell("write from the root", "cd /; echo x > @outside@/from-root", file_exists("@outside@/from-root")),
    shell(
        "chmod outside",
        "chmod 640 @outside@/secret",
        status_matches("outside/secret", lambda it: it.st_mode & 0o777 == 0o640),
    ),
    shell(
        "touch outside",
        "touch -d 2001-01-01 @home@/.netrc",
        status_matches("home/.netrc", lambda it: it.st_mtime < 1e9),
    ),
    shell(
        "truncate outside",
        "truncate -s 0 @home@/.aws/credentials",
        status_matches("home/.aws/credentials", lambda it: it.st_size == 0),
    ),
]

LINKS = [
    shell("read through a link", "cat to-secret", output_contains()),
    Escape("read through a link, tool", "read_file", {"filepath": "to-secret"}, output_contains()),
    shell("write through a link to a folder", "echo x > to-outside/linked", file_exists("@outside@/linked")),
    Escape(
        "write through a link, tool",
        "write_file",
        {"filepath": "to-outside/linked-2", "content": "x"},
        file_exists("@outside@/linked-2"),
    ),
    shell(
        "write through a link of its own",
        "ln -s @outside@ own; echo x > own/linked-3",
        file_exists("@outside@/linked-3"),
    ),
    shell("write through a link to a file", "echo more >> to-secret", file_contains("@outside@/secret", "more")),
    shell("link a file in", "ln @outside@/secret linked; cat linked", output_contains()),
    shell("a folder swapped for a link", _SWAP, file_exists("@outside@/swapped")),
]

POISONING = [
    shell("a hook", "echo x > .git/hooks/pre-commit", file_exists("@work@/.git/hooks/pre-commit")),
    Escape(
        "a hook, tool",
        "write_file",
        {"filepath": ".git/hooks/post-merge", "content": "x"},
        file_exists("@work@/.git/hooks/post-merge"),
    ),
    shell("git's settings", "git config core.fsmonitor x", file_contains("@work@/.git/config", "fsmonitor")),
    shell("direnv", "echo x > .envrc", file_contains("@work@/.envrc", "x")),
    *(
        shell(
            f"settings in {name}",
            f"mkdir -p {name}; echo x > {name}/tasks.json",
            file_exists(f"@work@/{name}/tasks.json"),
        )
        for name in (".vscode", ".idea", ".claude", ".codex")
    ),
    shell(
        "other settings",
        "mv .vscode x && mkdir .vscode && echo x > .vscode/y && mv .vscode other && mv x .vscode",
        file_exists("@work@/other/y"),
    ),
    shell(
        "another .git",
        "mv .git x && mkdir -p .git/hooks && echo x > .git/hooks/y && mv .git replaced && mv x .git",
        file_exists("@work@/replaced/hooks/y"),
    ),
    shell(
        "a link in the place of .git",
        "mv .git x && ln -s replaced .git && mkdir -p replaced && echo x > .git/linked; rm -f .git; mv x .git",
        file_exists("@work@/replaced/linked"),
    ),
]
