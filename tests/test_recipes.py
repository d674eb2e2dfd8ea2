"""The recipes of the documentation are run, in bash or in the program they are for, and print what they show."""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests import wire
from tests.doc_pages import matches_documented_output, parse_console_steps
from tests.model_server import ModelServer, Reply
from tests.program import ASK, CTRL_C, Ask, Home, Result, Running, run, run_on_terminal
from tests.recipes import PAGE, Recipe, read_recipes

RECIPES = {recipe.title: recipe for recipe in read_recipes()}
CONSOLE = [title for title, recipe in RECIPES.items() if recipe.console]
TMUX = "The tmux screen"
QUICK = {"Code and patches", "Checking for an answer"}
"""Recipes that are always tested; the others only in the slow test run."""
BETWEEN = "\x1e"
"""Printed after each command."""

NOT_HERE = {"journalctl": "exec cat app.log", "ssh": "exec cat app.log"}
"""Replacements of programs that cannot run in a test."""

REPOSITORY = """
git init -q -b main
git config user.name me
git config user.email me@home.test
echo "PORT = 8080" > server.py
git add server.py
git commit -q -m "Begin"
echo 'PORT = os.environ["PORT"]' > server.py
git add server.py
"""
SETUP = {
    "A failing build": "printf 'app:\\n\\t@echo building; false\\n' > Makefile",
    "Commit messages": REPOSITORY,
    "A git hook for commit messages": REPOSITORY,
    "Code and patches": f"{REPOSITORY} git commit -q -m Second",
    "A review in CI": f"{REPOSITORY} git commit -q -m Second",
    "Checking for an answer": f"{REPOSITORY} git commit -q -m Second",
}
PATCH = """\
Here it is:

```diff
--- a/server.py
+++ b/server.py
@@ -1,3 +1,2 @@
-PORT = os.environ["PORT"]
+PORT = 9090
```
"""
ANSWERS = {
    "Code and patches": PATCH,
    "Commit messages": "Read the port from the environment",
    "A git hook for commit messages": "Read the port from the environment",
    "A review in CI": "BLOCK: the password is in the source.",
    "Checking for an answer": "Yes.",
    "Translations": "Abbrechen",
    "vim": "cache\ndb",
}
"""Answers of the model in recipes that need a real one."""
SHARED = {"app.log", "hosts"}
"""Files that several recipes use."""
NEEDS = {
    "A review in CI": ["jq"],
    "Conversations in scripts": ["jq"],
    "JSON output": ["jq"],
    "Translations": ["msgfilter"],
}


@dataclass(frozen=True)
class Stage:
    """A folder with the files of a recipe, and a model."""

    home: Home
    env: Mapping[str, str]
    server: ModelServer

    @property
    def work(self) -> Path:
        return self.home.work

    def bash(self, script: str, env: Mapping[str, str] | None = None) -> Result:
        return run(["bash", "-c", script], env={**self.env, **(env or {})}, cwd=self.work)

    def set(self, recipe: Recipe) -> None:
        """Create everything that a recipe needs."""
        prepared = self.bash(SETUP.get(recipe.title, ""))
        assert prepared.code == 0, prepared
        shared = {name: text for other in RECIPES.values() for name, text in other.files.items() if name in SHARED}
        for name, text in {**shared, **recipe.files}.items():
            (self.work / name).write_text(text)
            (self.work / name).chmod(0o755 if text.startswith("#!") else 0o644)
        if recipe.title in ANSWERS:
            self.server.reply(wire.says(ANSWERS[recipe.title]))


@pytest.fixture
def stage(home: Home, ask: Ask, server: ModelServer) -> Stage:
    programs = home.path / "programs"
    programs.mkdir()
    for name, script in NOT_HERE.items():
        (programs / name).write_text(f"#!/bin/sh\n{script}\n")
        (programs / name).chmod(0o755)
    return Stage(home, {**ask.env, "PATH": f"{programs}:{ask.env['PATH']}"}, server)


@pytest.fixture
def pane(stage: Stage) -> Iterator[Mapping[str, str]]:
    """Return the environment in a tmux pane on which the log was printed."""
    stage.set(RECIPES[TMUX])
    folder = tempfile.mkdtemp()  # the path of a socket must be short
    tmux = f"tmux -f /dev/null -S {folder}/socket"
    started = stage.bash(f"{tmux} new-session -d -x 80 -y 24 'cat app.log; exec sleep 600'")
    assert started.code == 0, started
    shown = stage.bash(f"until {tmux} capture-pane -p | grep -q orders; do sleep 0.01; done; {tmux} list-panes -F '#D'")
    yield {"TMUX": f"{folder}/socket,0,0", "TMUX_PANE": shown.text.strip()}
    stage.bash(f"{tmux} kill-server")
    shutil.rmtree(folder)


def check(stage: Stage, recipe: Recipe, env: Mapping[str, str] | None = None) -> None:
    """Run the commands of a recipe in one shell and compare their output with the page."""
    recipe_steps = [step for block in recipe.console for step in parse_console_steps(block)]
    script = "".join(f"{{ {line}\n}} 2>&1\nprintf '\\036'\n" for line, _ in recipe_steps)
    result = stage.bash(script, env)
    printed = result.text.split(BETWEEN)
    assert len(printed) == len(recipe_steps) + 1, result
    for (line, page), output in zip(recipe_steps, printed, strict=False):
        assert matches_documented_output(output, page), f"{line}\nprints\n{output}"
    if recipe.title in ANSWERS and recipe.title in SETUP:
        assert all(b"PORT = os.environ" in request.body for request in stage.server.requests)


@pytest.mark.slow_after_first
@pytest.mark.parametrize(
    "title",
    [
        pytest.param(
            title, marks=[pytest.mark.needs(*NEEDS.get(title, ()))] + [pytest.mark.slow] * (title not in QUICK)
        )
        for title in CONSOLE
        if title != TMUX
    ],
)
def test_recipes_print_the_documented_output(stage: Stage, title: str) -> None:
    stage.set(RECIPES[title])
    check(stage, RECIPES[title])


@pytest.mark.slow
@pytest.mark.needs("tmux")
def test_the_tmux_recipe_reads_the_screen(stage: Stage, pane: Mapping[str, str]) -> None:
    check(stage, RECIPES[TMUX], pane)


def test_the_crontab_line_runs_as_in_cron(stage: Stage) -> None:
    recipe = RECIPES["cron"]
    stage.set(recipe)
    path, line = recipe.script.splitlines()
    bin_folder = stage.work / ".local/bin"
    bin_folder.mkdir(parents=True)
    (bin_folder / "ask").symlink_to(ASK)
    path = path.replace("/home/me", str(stage.work)).removeprefix("PATH=")
    env = {"HOME": str(stage.work), "LOGNAME": "me", "SHELL": "/bin/sh", "PATH": path}
    assert re.match(r"(?:[\d*]+ ){5}", line)
    assert not re.search(r"(?<!\\)%", line)  # cron treats % as a line end
    mailed = run(["/bin/sh", "-c", line.split(" ", 5)[5]], env=env, cwd=Path("/"))
    assert (mailed.text, mailed.stderr, mailed.code) == (recipe.printed, "", 0)


@pytest.mark.slow
@pytest.mark.needs("vim")
def test_the_vim_recipe_replaces_the_selected_lines(stage: Stage) -> None:
    recipe = RECIPES["vim"]
    stage.set(recipe)
    marks = ["1mark <", "$mark >"]
    keys = [part for command in (*marks, recipe.script.strip().removeprefix(":"), "wq") for part in ("-c", command)]
    assert run(["vim", "-N", "-u", "NONE", "-es", *keys, "hosts"], env=stage.env, cwd=stage.work).code == 0
    assert (stage.work / "hosts").read_text() == recipe.printed
    assert b"<stdin>\\ndb\\ncache\\n</stdin>" in stage.server.requests[0].body


@pytest.mark.slow
@pytest.mark.needs("watch")
def test_the_watch_recipe_repeats_the_command(stage: Stage) -> None:
    recipe = RECIPES["Repeating with watch"]
    stage.set(recipe)
    with Running(["bash", "-c", recipe.script], env=stage.env, cwd=stage.work, terminal=True) as running:
        for line in recipe.printed.replace("...", "").splitlines():
            running.wait_for(line.strip())
        running.type_in(CTRL_C)
        running.finish()


@pytest.mark.slow
@pytest.mark.needs("fzf")
def test_the_fzf_recipe_selects_a_conversation(stage: Stage) -> None:
    recipe = RECIPES["Choosing a conversation with fzf"]
    for question in ("run echo one", "run echo two"):
        assert stage.bash(f"ask -q -p demo {question}").code == 0
    answers = [("run echo one", "echo one"), ("1/2", "\r")]
    plain = {**stage.env, "NO_COLOR": "1"}
    result = run_on_terminal(["bash", "-c", recipe.script], env=plain, cwd=stage.work, answers=answers)
    begin, _, _ = recipe.printed.partition("...")
    assert begin.replace("`", "") in re.sub(r"\x1b\[[\d;]*m", "", result.text)
    assert "> run echo one\n" in stage.bash("ask history show 1").text


# Failures


@pytest.mark.slow
def test_commits_without_a_message_are_rejected(stage: Stage) -> None:
    recipe = RECIPES["Commit messages"]
    stage.set(recipe)
    line = next(line for line, _ in parse_console_steps(recipe.console[0]) if "git commit" in line)
    refused = stage.bash(line, {"OPENROUTER_BASE_URL": "http://127.0.0.1:1/v1", "OPENROUTER_API_KEY": ""})
    assert refused.code == 1
    assert "empty commit message" in refused.stderr
    assert stage.bash("git log --format=%s").text == "Begin\n"


@pytest.mark.slow
def test_commits_work_if_the_hook_gets_no_answer(stage: Stage) -> None:
    stage.set(RECIPES["A git hook for commit messages"])
    written = stage.bash(
        "GIT_EDITOR='echo mine >' git commit -q", {"OPENROUTER_API_KEY": "", "OPENROUTER_BASE_URL": ""}
    )
    assert written.code == 0
    assert stage.bash("git log -1 --format=%s").text == "mine\n"
    assert stage.bash("git commit -q --amend --no-edit").code == 0
    assert not stage.server.requests


@pytest.mark.parametrize(
    ("reply", "verdict"),
    [
        (wire.says("Good."), "Good.\n"),
        pytest.param(wire.says("Half of it", finish="length"), "no review: ", marks=pytest.mark.slow),
        pytest.param(wire.fails(404), "no review: ", marks=pytest.mark.slow),
    ],
)
@pytest.mark.needs("jq")
def test_only_an_explicit_review_verdict_blocks(stage: Stage, reply: Reply, verdict: str) -> None:
    stage.server.reply(reply)
    stage.set(RECIPES["A review in CI"])
    result = stage.bash("./review")
    assert result.code == 0
    assert result.text.startswith(verdict)


def test_every_recipe_is_tested_or_listed_as_untested() -> None:
    elsewhere = {recipe.title for recipe in RECIPES.values() if recipe.script}
    assert {*CONSOLE, *elsewhere} == set(RECIPES) - {"# Recipes"}
    assert elsewhere == {"Repeating with watch", "The clipboard", "cron", "vim", "Choosing a conversation with fzf"}
    shell_recipes = PAGE.read_text().partition("## The clipboard")[2].partition("##")[0]
    assert "These are the only commands that the tests do not run." in shell_recipes
