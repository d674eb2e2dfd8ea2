"""Ways out by paths, by links, and by what other programs will run later."""

from __future__ import annotations

from tests.escapes.escape import Escape, holds, made, shell, status, told
from tests.safety.ground import TOKEN

_SWAP = """(while :; do rm -rf d; mkdir d; rm -rf d; ln -s @outside@ d; done) & p=$!
for i in $(seq 400); do echo out > d/swapped; done 2> /dev/null; kill $p
ln -s @outside@ e; echo out > e/swapped"""

PATHS = [
    shell("read a file beside", "cat ../outside/secret", told()),
    Escape("read a file beside, tool", "read_file", {"filepath": "../outside/secret"}, told()),
    shell("read by the root of a process", "cat /proc/self/root@home@/.ssh/id_rsa", told()),
    Escape("read the ssh key", "read_file", {"filepath": "@home@/.ssh/id_rsa"}, told()),
    Escape("read .netrc", "read_file", {"filepath": "~/.netrc"}, told()),
    shell("read the cloud's key", "cat ~/.aws/credentials", told()),
    shell("read ask's keys", "cat @config@/ask/keys.toml", told("anthropic")),
    shell("read ask's history", "cat @data@/ask/history.db* | grep -a -o canary-[0-9a-f]* | head -1", told()),
    shell("read shadow", "cat ../../../../../../etc/shadow", told("root:"), root=True),
    Escape("list the home", "list_dir", {"dirpath": "@home@/.ssh"}, told("id_rsa")),
    shell("write to a sibling", "echo x > @base@/work_evil/x", made("@base@/work_evil/x")),
    Escape(
        "write to a sibling, tool",
        "write_file",
        {"filepath": "../work_evil/y", "content": "x"},
        made("@base@/work_evil/y"),
    ),
    shell("write .bashrc", "echo hacked >> ~/.bashrc", holds("@home@/.bashrc", "hacked")),
    Escape(
        "edit the ssh key",
        "edit_file",
        {"filepath": "@home@/.ssh/id_rsa", "old_text": TOKEN, "new_text": f"{TOKEN} edited"},
        holds("@home@/.ssh/id_rsa", "edited"),
    ),
    shell("write to /tmp", "touch /tmp/@shared@", made("/tmp/@shared@")),
    shell("write to /dev/shm", "touch /dev/shm/@shared@", made("/dev/shm/@shared@")),
    shell("write from the root", "cd /; echo x > @outside@/from-root", made("@outside@/from-root")),
    shell(
        "chmod outside", "chmod 640 @outside@/secret", status("outside/secret", lambda it: it.st_mode & 0o777 == 0o640)
    ),
    shell("touch outside", "touch -d 2001-01-01 @home@/.netrc", status("home/.netrc", lambda it: it.st_mtime < 1e9)),
    shell(
        "truncate outside",
        "truncate -s 0 @home@/.aws/credentials",
        status("home/.aws/credentials", lambda it: it.st_size == 0),
    ),
]

LINKS = [
    shell("read through a link", "cat to-secret", told()),
    Escape("read through a link, tool", "read_file", {"filepath": "to-secret"}, told()),
    shell("write through a link to a folder", "echo x > to-outside/linked", made("@outside@/linked")),
    Escape(
        "write through a link, tool",
        "write_file",
        {"filepath": "to-outside/linked-2", "content": "x"},
        made("@outside@/linked-2"),
    ),
    shell("write through a link of its own", "ln -s @outside@ own; echo x > own/linked-3", made("@outside@/linked-3")),
    shell("write through a link to a file", "echo more >> to-secret", holds("@outside@/secret", "more")),
    shell("link a file in", "ln @outside@/secret linked; cat linked", told()),
    shell("a folder swapped for a link", _SWAP, made("@outside@/swapped")),
]

POISONING = [
    shell("a hook", "echo x > .git/hooks/pre-commit", made("@work@/.git/hooks/pre-commit")),
    Escape(
        "a hook, tool",
        "write_file",
        {"filepath": ".git/hooks/post-merge", "content": "x"},
        made("@work@/.git/hooks/post-merge"),
    ),
    shell("git's settings", "git config core.fsmonitor x", holds("@work@/.git/config", "fsmonitor")),
    shell("direnv", "echo x > .envrc", holds("@work@/.envrc", "x")),
    *(
        shell(f"settings in {name}", f"mkdir -p {name}; echo x > {name}/tasks.json", made(f"@work@/{name}/tasks.json"))
        for name in (".vscode", ".idea", ".claude", ".codex")
    ),
    shell(
        "other settings",
        "mv .vscode x && mkdir .vscode && echo x > .vscode/y && mv .vscode other && mv x .vscode",
        made("@work@/other/y"),
    ),
    shell(
        "another .git",
        "mv .git x && mkdir -p .git/hooks && echo x > .git/hooks/y && mv .git replaced && mv x .git",
        made("@work@/replaced/hooks/y"),
    ),
    shell(
        "a link in the place of .git",
        "mv .git x && ln -s replaced .git && mkdir -p replaced && echo x > .git/linked; rm -f .git; mv x .git",
        made("@work@/replaced/linked"),
    ),
]
