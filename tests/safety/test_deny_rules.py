"""Deny rules: commands that match, and similar ones that do not."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ask.safety.policy import DEFAULT_DENY_RULES, MAX_COMMAND_LENGTH, CommandDenyRule, find_deny_rule

TRIPS = {
    "rm -rf": [
        "rm -rf .",
        "rm -rf /",
        "RM -RF *",
        "rm -fr build",
        "rm -r -f build",
        "rm -f -v -R build",
        "rm -Rf --one-file-system build",
        "rm build -rf",
        "rm --recursive --force build",
        "rm --force --recursive build",
        "rm -r --force build",
        "rm -vrf build",
        "rm \\\n  -r \\\n  -f build",
        "sudo rm -rf /var",
        "/bin/rm -rf x",
        "\\rm -rf x",
        "cd x && rm -rf *",
        "(rm -rf x)",
        "x=$(rm -rf y)",
        "find . -type d -exec rm -rf {} +",
        "ls | xargs rm -rf",
        "bash -c 'rm -rf .'",
        "true;rm\t-rf\t.",
    ],
    "rmdir /s": ["rmdir /s x", "rmdir /S /Q x", "rd /q /s c:\\", "RMDIR x /s"],
    "dd": ["dd if=/dev/zero of=/dev/sda", "sudo dd bs=4M of=disk.img", "cat x | dd of=/dev/sda bs=1M", "DD OF=x"],
    "mkfs": ["mkfs.ext4 /dev/sda1", "mkfs -t ext4 /dev/sda1", "sudo /sbin/mkfs.xfs -f $DISK"],
    "format": ["format c:", "FORMAT D: /q", "cmd.exe /c format c: /y", "format.com a:", "format /dev/sda"],
    "fork bomb": [
        ":(){ :|:& };:",
        ":() { : | : & }; :",
        "bomb() { bomb|bomb & }; bomb",
        "f(){\n  f|f&\n}\nf",
        "x(){ sleep 1; x | x & };x",
    ],
    "chmod -R 777": [
        "chmod -R 777 .",
        "chmod 777 -R .",
        "chmod -Rv 0777 /srv",
        "chmod --recursive 777 x",
        "chmod -R a+rwx .",
        "chmod -R ugo=rwx .",
        "chmod -R +rwx .",
    ],
    "chown -R": ["chown -R nobody .", "sudo chown --recursive me:me x", "chown root -R /"],
    "iptables": ["iptables -F", "sudo ip6tables -A INPUT -j DROP", "iptables-restore < rules", "iptables-nft -F"],
    "ufw disable": ["ufw disable", "sudo ufw --force disable"],
}
PASSES = [
    "rm x",
    "rm -r build",
    "rm -f build/*.o",
    "rm -r build; rm -f log",
    "rm -r a && cp -f b c",
    "rm -r a\nls -f",
    "git rm -rf --cached x",
    "git rm -r -f x",
    "docker run --rm -f x -r",
    "npm run farm -rf",
    "./inform -rf",
    "rm file-rf",
    "form -rf",
    "git add .",
    "add of=x",
    "dd if=x bs=1 count=10",
    "dd if=disk of=/dev/null bs=1M",
    "ls --format=long",
    "ls --format c:",
    "git log --format '%h %s'",
    "git log --pretty=format:%h",
    "printf format",
    "printf 'format %s\\n' x",
    "echo the format of a: file",
    "echo informant",
    "cargo fmt; npm run format",
    "black format.py",
    "cat > x.py <<END\nformat = 'c: %s'\nEND",
    "python -c 'print(\"{}\".format(1))'",
    "which mkfs",
    "man mkfs.ext4 | head",
    "ls /etc/mkfs",
    "chmod 755 x",
    "chmod -R 755 x",
    "chmod 777 x",
    "chmod -R u+rwx,g-w x",
    "chmod -R u+rwx x",
    "chmod 644 a; ls -R 777",
    "chown me x",
    "chown me x; ls -R",
    "which iptables",
    "grep -r iptables docs",
    "apt-cache show iptables",
    "ufw status",
    "echo ufw disabled",
    "rmdir x",
    "rmdir /srv/x",
    "rmdir /s/x",
    "f(){ g | h & }; f",
    "f() { echo f | grep f; }; f",
    "awk '{a|b}' x",
    "",
]


@pytest.mark.parametrize(("name", "command"), [(name, command) for name in TRIPS for command in TRIPS[name]])
def test_commands_that_match_a_rule(name: str, command: str) -> None:
    assert find_deny_rule(command, DEFAULT_DENY_RULES) == name


@pytest.mark.parametrize("command", PASSES)
def test_commands_that_match_no_rule(command: str) -> None:
    assert find_deny_rule(command, DEFAULT_DENY_RULES) is None


def test_every_default_rule_is_tested() -> None:
    assert [wire.name for wire in DEFAULT_DENY_RULES] == list(TRIPS)


def test_known_false_positives_and_gaps() -> None:
    # Told here, so that a change is seen: it is no boundary.
    assert find_deny_rule("grep -rn 'rm -rf' .", DEFAULT_DENY_RULES) == "rm -rf"
    assert find_deny_rule("echo never run rm -rf", DEFAULT_DENY_RULES) == "rm -rf"
    for command in ("r''m -rf .", "x=rm; $x -rf .", "find . -delete", "rm $(echo x) -rf", "python -c 'rmtree(\".\")'"):
        assert find_deny_rule(command, DEFAULT_DENY_RULES) is None


PIECES = st.sampled_from(
    [
        *(
            "rm ",
            "rm -",
            "a",
            "dd ",
            "chmod -R ",
            "x()",
            "format /dev",
            ":(){ ",
            "\\\n",
            "( ",
            " ",
            "\t",
            "rd ",
            "f|f&",
        ),
        *("-a", " -", "mkfs.", "ufw --", "chown ", "iptables -", "{", "}", "=", "/s", "f(){", ";", "777", "of=", "-r"),
    ]
)


@pytest.mark.slow
@settings(max_examples=10)
@given(st.lists(PIECES, max_size=4), st.lists(PIECES, min_size=1, max_size=6))
@example([], ["rm "])
@example([], ["rm\t"])
@example([], ["dd "])
@example([], ["rd "])
@example([], ["x()", "{"])
@example(["rm -"], ["a"])
def test_rules_are_fast_on_any_command(beginning: list[str], repeated: list[str]) -> None:
    start, piece = "".join(beginning), "".join(repeated)
    command = (start + piece * (MAX_COMMAND_LENGTH // len(piece)))[:MAX_COMMAND_LENGTH]
    for wire in DEFAULT_DENY_RULES:
        before = time.process_time()
        find_deny_rule(command, [wire])
        assert time.process_time() - before < 1, wire.name


def test_rules_can_be_configured() -> None:
    wires = [CommandDenyRule("shutdown", r"\bshutdown\b")]
    assert find_deny_rule("sudo SHUTDOWN now", wires) == "shutdown"
    assert find_deny_rule("rm -rf .", wires) is None
    with pytest.raises(re.error):
        find_deny_rule("x", [CommandDenyRule("broken", "(")])
