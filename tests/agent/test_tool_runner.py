"""Single tool calls: which ones run, and what the model, the user and the log get."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from ask.agent.tool_runner import ToolRunner
from ask.app import AppContext
from ask.config.directories import AppDirs
from ask.config.secrets import Secrets
from ask.config.settings import Settings
from ask.events import Event, Notice, ToolCallFinished, ToolCallRequested, ToolCallStarted
from ask.messages import ToolCall, ToolSpec
from ask.safety.approval import ApprovalChoice, ApprovalResponse
from ask.safety.approval_scope import ApprovalScope
from ask.safety.approval_store import ApprovalDuration, open_approvals
from ask.safety.tool_policy import PendingToolCall, Verdict
from ask.tools.base import Tool, ToolError, ToolResult
from tests.run_requests import make_request

SECRET = "sk-secret-0123456789"
PARAMETERS = {"type": "object", "properties": {"word": {"type": "string"}}, "required": ["word"]}
COMMAND = {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}
Work = Callable[[str], ToolResult]
YES = ApprovalResponse(ApprovalChoice.YES)
PLAIN, CONFIRM = Settings(), Settings(confirm=True)


class RunnerBench:
    """A runner with the tools `say` and `run`, and its events. `asked` contains the calls to approve."""

    def __init__(
        self, folder: Path, work: Work, settings: Settings = PLAIN, answer: ApprovalResponse | None = YES
    ) -> None:
        self.events: list[Event] = []
        self.asked: list[PendingToolCall] = []
        self.folder = folder
        self.answer = answer
        app = AppContext({})
        app.app_dirs = AppDirs(folder / "config", folder / "data", folder / "cache")
        self.approvals = app.share(open_approvals)
        self._log = app.app_dirs.tool_call_log
        tools = [
            Tool(
                ToolSpec("say", "Says a word.", PARAMETERS), lambda given, _: work(given["word"]), has_side_effects=True
            ),
            Tool(ToolSpec("run", "Runs.", COMMAND), lambda given, _: work(given["command"]), has_side_effects=True),
            Tool(ToolSpec("bash", "Runs.", COMMAND), lambda given, _: work(given["command"])),
        ]
        secrets = Secrets((), (), [SECRET], {})
        request = make_request(folder, tools=tools, settings=settings, secrets=secrets)
        self.runner = ToolRunner(request, app, self.events.append, self.approve)
        self.context = self.runner._context

    def approve(self, proposal: PendingToolCall) -> ApprovalResponse | None:
        self.asked.append(proposal)
        return self.answer

    def run(self, command: str, name: str = "run") -> str:
        return self.runner.execute(ToolCall("call_1", name, json.dumps({"command": command}))).result

    def call(self, word: object = "hi", name: str = "say") -> str:
        arguments = word if isinstance(word, str) and word.startswith("{") else json.dumps({"word": word})
        return self.runner.execute(ToolCall("call_1", name, arguments)).result

    @property
    def logged(self) -> list[dict[str, str]]:
        """The lines of the log."""
        return [json.loads(line) for line in self._log.read_text().splitlines()]

    @property
    def rules(self) -> list[tuple[str, str]]:
        """The decision and rule of each call in the log."""
        return [(line["decision"], line["rule"]) for line in self.logged]

    @property
    def finished(self) -> list[ToolCallFinished]:
        return [event for event in self.events if isinstance(event, ToolCallFinished)]


def interrupt(word: str) -> ToolResult:
    raise KeyboardInterrupt


def test_a_call_is_reported_before_and_after_it_runs(tmp_path: Path) -> None:
    bench = RunnerBench(tmp_path, lambda word: ToolResult(word.upper(), exit_status=4))
    assert bench.call() == "HI"
    started, running, finished = bench.events
    call = ToolCall("call_1", "say", '{"word": "hi"}')
    assert (started, running) == (ToolCallRequested(call), ToolCallStarted(call))
    assert isinstance(finished, ToolCallFinished)
    assert (finished.result, finished.failed, finished.verdict, finished.exit_status) == ("HI", False, "allow", 4)
    assert bench.rules == [("allow", "unrestricted")]


@pytest.mark.parametrize(
    ("word", "name", "rule", "words"),
    [
        ("hi", "shout", "not offered", "say, run, bash"),
        ("{", "say", "unreadable", "JSON"),
        ("{}", "say", "unreadable", "'word'"),
        (5, "say", "unreadable", "'word' must be string, not integer"),
    ],
)
def test_an_invalid_call_is_not_run(tmp_path: Path, word: object, name: str, rule: str, words: str) -> None:
    said: list[str] = []
    bench = RunnerBench(tmp_path, lambda word: said.append(word) or ToolResult(""))  # type: ignore[func-returns-value]
    result = bench.call(word, name)
    assert result.startswith("Error: ")
    assert words in result
    assert said == []
    assert bench.rules == [("deny", rule)]


def test_a_tool_error_is_the_result(tmp_path: Path) -> None:
    def fail(word: str) -> ToolResult:
        raise ToolError(f"{word} cannot be said")

    bench = RunnerBench(tmp_path, fail)
    assert bench.call() == "Error: hi cannot be said"
    assert bench.rules == [("allow", "unrestricted")]


def test_a_bug_in_a_tool_does_not_end_the_conversation(tmp_path: Path) -> None:
    bench = RunnerBench(tmp_path, lambda word: ToolResult(word[9]))
    assert bench.call() == "Error: the tool failed: IndexError: string index out of range"
    assert bench.rules == [("allow", "unrestricted")]


def test_the_user_is_asked_with_the_context_of_the_call(tmp_path: Path) -> None:
    bench = RunnerBench(tmp_path, ToolResult, CONFIRM)
    assert bench.call() == "hi"
    assert bench.asked == [PendingToolCall("say", {"word": "hi"}, bench.context)]
    assert bench.rules == [("allow", "--confirm: yes")]


def test_the_user_is_not_asked_about_an_invalid_call(tmp_path: Path) -> None:
    bench = RunnerBench(tmp_path, ToolResult, CONFIRM)
    bench.call("{")
    assert bench.asked == []


@pytest.mark.parametrize(
    ("answer", "result", "rule"),
    [
        (ApprovalResponse(ApprovalChoice.NO), "Error: declined by the user", "--confirm: no"),
        (None, "Error: denied: no terminal to confirm on", "--confirm: no terminal"),
    ],
)
def test_without_approval_a_call_is_not_run(
    tmp_path: Path, answer: ApprovalResponse | None, result: str, rule: str
) -> None:
    bench = RunnerBench(tmp_path, ToolResult, CONFIRM, answer)
    assert bench.call() == result
    assert bench.rules == [("deny", rule)]
    assert (bench.runner.unattended_denial is not None) is (answer is None)


def test_always_applies_to_that_tool_in_this_run(tmp_path: Path) -> None:
    bench = RunnerBench(tmp_path, ToolResult, CONFIRM, ApprovalResponse(ApprovalChoice.ALWAYS))
    assert [bench.call("a"), bench.call("b")] == ["a", "b"]
    bench.answer = ApprovalResponse(ApprovalChoice.NO)
    assert bench.call("c") == "c"
    assert bench.run("d") == "Error: declined by the user"
    assert [proposal.tool_name for proposal in bench.asked] == ["say", "run"]
    assert bench.rules == [
        ("allow", "--confirm: always"),
        *[("allow", "approved: tool say")] * 2,
        ("deny", "--confirm: no"),
    ]
    assert (
        RunnerBench(tmp_path, ToolResult, CONFIRM, ApprovalResponse(ApprovalChoice.NO)).call("a").startswith("Error: ")
    )


@pytest.mark.parametrize(
    ("scope", "approved"),
    [
        (ApprovalScope.COMMAND, ["git log | head"]),
        (ApprovalScope.PROGRAM, ["git log | head", "git push", "head x; git status"]),
        (ApprovalScope.TOOL, ["git log | head", "git push", "head x; git status", "git log > x", "ls"]),
    ],
)
def test_always_approves_similar_calls(tmp_path: Path, scope: ApprovalScope, approved: list[str]) -> None:
    commands = ["git log | head", "git push", "head x; git status", "git log > x", "ls", "reboot"]
    bench = RunnerBench(tmp_path, ToolResult, CONFIRM, ApprovalResponse(ApprovalChoice.ALWAYS, scope=scope))
    bench.run(commands[0], "bash")
    bench.answer = ApprovalResponse(ApprovalChoice.NO)
    assert [one for one in commands if bench.run(one, "bash") == one] == approved
    assert bench.asked[-1].danger == "reboot", "no approval covers a dangerous command"


def test_program_approvals_and_the_allowlist_combine(tmp_path: Path) -> None:
    settings = CONFIRM._replace(allow=("cd *",))
    bench = RunnerBench(
        tmp_path, ToolResult, settings, ApprovalResponse(ApprovalChoice.ALWAYS, scope=ApprovalScope.PROGRAM)
    )
    assert bench.run("git status", "bash") == "git status"
    bench.answer = None
    assert bench.run("cd x && git log", "bash") == "cd x && git log"
    assert bench.rules[-1] == ("allow", "approved: cd *, program git")


@pytest.mark.parametrize("duration", ApprovalDuration)
def test_approvals_outlive_the_run_if_the_user_wants(tmp_path: Path, duration: ApprovalDuration) -> None:
    answer = ApprovalResponse(ApprovalChoice.ALWAYS, duration=duration)
    assert RunnerBench(tmp_path, ToolResult, CONFIRM, answer).call() == "hi"
    here, elsewhere = (RunnerBench(tmp_path, ToolResult, CONFIRM, None) for _ in range(2))
    elsewhere.runner._context = elsewhere.context._replace(directory=tmp_path / "elsewhere")
    is_approved = [bench.call() == "hi" for bench in (here, elsewhere)]
    assert is_approved == [duration is not ApprovalDuration.RUN, duration is ApprovalDuration.ALWAYS]


def test_a_damaged_file_of_approvals_is_reported_and_approves_nothing(tmp_path: Path) -> None:
    answer = ApprovalResponse(ApprovalChoice.ALWAYS, duration=ApprovalDuration.ALWAYS)
    bench = RunnerBench(tmp_path, ToolResult, CONFIRM, answer)
    bench.approvals.path.parent.mkdir()
    bench.approvals.path.write_text('[{"scope": "tool", "value": "say"')
    assert bench.call() == "hi"
    assert len(bench.asked) == 1
    assert "approvals.json" in next(event for event in bench.events if isinstance(event, Notice)).text
    assert bench.approvals.path.read_text() == '[{"scope": "tool", "value": "say"'


def test_a_damaged_approval_approves_nothing_and_stays(tmp_path: Path) -> None:
    answer = ApprovalResponse(ApprovalChoice.ALWAYS, duration=ApprovalDuration.ALWAYS)
    bench = RunnerBench(tmp_path, ToolResult, CONFIRM, answer)
    bench.approvals.path.parent.mkdir()
    bench.approvals.path.write_text('[{"scope": "tool", "value": "say"}]')
    assert bench.call() == "hi"
    assert len(bench.asked) == 1
    damaged, added = json.loads(bench.approvals.path.read_text())
    assert (damaged, added["value"]) == ({"scope": "tool", "value": "say"}, "say")


def test_a_command_with_a_secret_is_not_written_to_the_file(tmp_path: Path) -> None:
    answer = ApprovalResponse(ApprovalChoice.ALWAYS, scope=ApprovalScope.COMMAND, duration=ApprovalDuration.ALWAYS)
    bench = RunnerBench(tmp_path, ToolResult, CONFIRM, answer)
    for _ in range(2):
        bench.run(f"echo {SECRET}", "bash")
    assert len(bench.asked) == 1
    assert not bench.approvals.path.exists()


def test_denied_calls_are_explained_to_the_model_and_logged(tmp_path: Path) -> None:
    settings = CONFIRM._replace(deny=("curl *",))
    bench = RunnerBench(tmp_path, ToolResult, settings)
    result = bench.run("cd x && curl http://x.test", "bash")
    assert result.startswith("Error: not run")
    assert "curl" in result
    assert bench.asked == []
    assert bench.rules == [("deny", "deny: curl *")]
    assert bench.runner.unattended_denial is None


def test_an_edited_command_is_run_and_logged_and_reported_to_the_model(tmp_path: Path) -> None:
    bench = RunnerBench(
        tmp_path, lambda word: ToolResult(word.upper()), CONFIRM, ApprovalResponse(ApprovalChoice.EDITED, "ls \u00e9")
    )
    assert bench.run("rm x") == "[the user changed the command to: ls \u00e9]\nLS \u00c9"
    assert bench.rules == [("allow", "--confirm: edited")]
    assert json.loads(bench.logged[0]["arguments"]) == {"command": "ls \u00e9"}
    assert bench.finished[0].call == ToolCall("call_1", "run", bench.logged[0]["arguments"])


def test_a_failed_edited_command_is_reported_to_the_model(tmp_path: Path) -> None:
    def fail(word: str) -> ToolResult:
        raise ToolError(f"no {word}")

    bench = RunnerBench(tmp_path, fail, CONFIRM, ApprovalResponse(ApprovalChoice.EDITED, "ls"))
    assert bench.run("rm x") == "[the user changed the command to: ls]\nError: no ls"
    bench = RunnerBench(tmp_path, interrupt, CONFIRM, ApprovalResponse(ApprovalChoice.EDITED, "ls"))
    assert bench.run("rm x").startswith("[the user changed the command to: ls]\nError: interrupted")


def test_an_edited_command_may_not_do_more_than_the_models(tmp_path: Path) -> None:
    settings = CONFIRM._replace(deny=("rm",))
    bench = RunnerBench(tmp_path, ToolResult, settings, ApprovalResponse(ApprovalChoice.EDITED, "rm -rf ."))
    told = "Error: [the user changed the command to: rm -rf .]\nnot run: "
    assert bench.run("ls").startswith(told)
    assert bench.rules == [("deny", "--confirm: edited, deny: rm")]


def test_after_an_interruption_calls_get_results_without_being_run(tmp_path: Path) -> None:
    bench = RunnerBench(tmp_path, interrupt)
    assert bench.call("a") == "Error: interrupted; it may or may not have run"
    assert bench.runner.interruption
    assert bench.call("b") == "Error: not run: the run was interrupted first"
    assert bench.rules == [("allow", "unrestricted"), ("deny", "interrupted")]
    assert [(event.failed, event.verdict) for event in bench.finished] == [(True, Verdict.ALLOW), (True, Verdict.DENY)]


def test_keys_are_redacted_before_the_result_is_truncated(tmp_path: Path) -> None:
    bench = RunnerBench(tmp_path, lambda word: ToolResult(SECRET * 5_000))
    result = bench.call(SECRET)
    assert len(result) <= 30_000
    assert result.startswith("[key removed]" * 1_000)
    assert SECRET[:4] not in result
    [spilled] = (tmp_path / "data" / "results").glob("*/*")
    assert str(spilled) in result
    assert spilled.read_text() == "[key removed]" * 5_000
    assert SECRET not in (tmp_path / "data" / "audit.jsonl").read_text()


def test_unpaired_surrogates_do_not_reach_the_model(tmp_path: Path) -> None:
    assert RunnerBench(tmp_path, lambda word: ToolResult("a\ud800b")).call() == "a\ufffdb"


def test_nul_characters_reach_the_model_as_escapes(tmp_path: Path) -> None:
    assert RunnerBench(tmp_path, lambda word: ToolResult("$12,000\0 or more")).call() == "$12,000\\x00 or more"


def test_a_log_that_cannot_be_written_is_reported_once(tmp_path: Path) -> None:
    (tmp_path / "data").touch()
    bench = RunnerBench(tmp_path, ToolResult)
    assert [bench.call("a"), bench.call("b")] == ["a", "b"]
    [notice] = [event for event in bench.events if isinstance(event, Notice)]
    assert notice.text.startswith("cannot write the log of tool calls")
