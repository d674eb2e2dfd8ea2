"""Run the hooks of a run: which of them apply to an event, and what follows from their responses."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ask.app import AppContext
from ask.config.hooks import Hook, HookEvent, parse_hooks
from ask.config.secrets import Secrets
from ask.errors import SafetyError
from ask.hooks.claude_code import CLAUDE_EVENTS, split_matchers, translate_arguments, translate_tool_name
from ask.hooks.hook_response import HookResponse, parse_response
from ask.records import NamedTuple
from ask.safety.command_rules import CallRule, find_deny_rule, parse_rules
from ask.text import decode_argument, format_one_line
from ask.tools.base import RunToolContext, Tool, ToolError, ToolResult
from ask.tools.hook_command import HOOK_COMMAND, NESTED_VARIABLE

if TYPE_CHECKING:
    from ask.safety.safe_mode import SafeModeSession

MAX_NAME_CHARACTERS = 60


class PreparedHook(NamedTuple):
    """A hook, its parsed rules, and the function that runs its command, in the sandbox in safe mode."""

    hook: Hook
    rules: tuple[CallRule, ...]
    run_command: Callable[[Mapping[str, Any], RunToolContext], ToolResult]

    @property
    def name(self) -> str:
        return format_one_line(self.hook.command, MAX_NAME_CHARACTERS)

    def applies_to(self, tool: Tool, arguments: Mapping[str, Any]) -> bool:
        """Check whether the hook is for a call. A rule about commands applies as in `tools.deny`."""
        names = (tool.spec.name, translate_tool_name(tool.spec.name, tool.origin))
        if not self.rules or any(rule.matches_tool(name) for rule in self.rules for name in names):
            return True
        command = arguments.get("command")
        return isinstance(command, str) and find_deny_rule(self.rules, command) is not None


def prepare_hooks(app: AppContext, safe_mode: SafeModeSession | None = None) -> tuple[PreparedHook, ...]:
    """Return the hooks of config.toml, ready to run.

    None apply to a run that a hook itself has started.

    Raises:
        ConfigError: one is invalid.
        SafetyError: safe mode has no sandbox to run one in.
    """
    if app.environment.get(NESTED_VARIABLE):
        return ()
    prepared = []
    for hook in parse_hooks(app.app_dirs.config_file, app.config.values.get("hooks", [])):
        run_command = HOOK_COMMAND.run
        name = format_one_line(hook.command, MAX_NAME_CHARACTERS)
        if safe_mode and hook.sandbox:
            confined = safe_mode.confine_tools([HOOK_COMMAND])
            if not confined:
                raise SafetyError(
                    f"--safe-files has no sandbox for the hook {name}",
                    "use --safe, or set sandbox = false for the hook to run it unconfined",
                )
            run_command = confined[0].run
        elif safe_mode:
            app.notify(f"the hook {name} runs outside the sandbox (sandbox = false)")
        prepared.append(PreparedHook(hook, parse_rules("hooks.matcher", split_matchers(hook.matchers)), run_command))
    return tuple(prepared)


class CheckedCall(NamedTuple):
    """A call after its hooks: its arguments, and why it is refused or needs the user's approval.

    Attributes:
        arguments: the arguments, as the hooks have changed them.
        denial: why it is refused, for the model; "" if it is not.
        denied_by: the name of the hook that refuses it.
        question: why the user has to be asked; "" if no hook wants that.
    """

    arguments: Mapping[str, Any]
    denial: str = ""
    denied_by: str = ""
    question: str = ""


class HookRunner:
    """Runs the hooks of one run.

    Args:
        hooks: the hooks.
        directory: the folder in which their commands run.
        secrets: are removed from the environment of the commands, and from what the user is shown.
        description: the fields of all events.
        notify: shows a notice to the user.
    """

    def __init__(
        self,
        hooks: Sequence[PreparedHook],
        directory: Path,
        secrets: Secrets,
        description: Mapping[str, Any],
        notify: Callable[[str], None],
    ) -> None:
        self._hooks = hooks
        self._context = RunToolContext(directory, secrets.build_child_environment(), 0.0, directory, lambda _: None)
        self._description = {"cwd": decode_argument(str(directory)), **description}
        self._redact = secrets.redact
        self._notify = notify

    def start_run(self, prompt: str) -> None:
        """Report the start of the run.

        Raises:
            SafetyError: a hook refuses it.
        """
        for hook in self._select("run_start"):
            response = self._run(hook, {"prompt": prompt})
            if response.decision == "deny":
                reason = response.reason or "it gave no reason"
                raise SafetyError(f"the hook {hook.name} refused the run: {self._format(reason)}", "see ask hooks")

    def end_run(self, exit_code: int, error: str, answer: str) -> None:
        """Report the end of the run."""
        fields = {"exit_code": exit_code, "error": error, "answer": answer, "last_assistant_message": answer}
        for hook in self._select("run_end"):
            self._run(hook, {**fields, "stop_hook_active": False})

    def report_notification(self, message: str) -> None:
        """Report that the user is notified of something."""
        for hook in self._select("notification"):
            self._run(hook, {"message": message})

    def check_call(self, call_id: str, tool: Tool, arguments: Mapping[str, Any]) -> CheckedCall:
        """Run the hooks for a call, in their order; each gets the arguments as those before it have changed them."""
        question = ""
        for hook in self._select("before_tool"):
            if not hook.applies_to(tool, arguments):
                continue
            response = self._run(hook, self._describe_call(call_id, tool, arguments), tool.spec.name)
            if response.decision == "deny":
                reason = response.reason or "it gave no reason"
                return CheckedCall(arguments, f"not run: a hook of the user refused it: {reason}", hook.name)
            if response.decision == "ask":
                question = hook.name
                if response.reason:
                    self._notify(f"the hook {hook.name} asks: {self._format(response.reason)}")
            if response.arguments is not None:
                arguments = response.arguments
        return CheckedCall(arguments, question=question)

    def report_result(self, call_id: str, tool: Tool, arguments: Mapping[str, Any], result: ToolResult) -> str:
        """Report the result of a call; return what the hooks tell the model about it."""
        texts: list[str] = []
        for hook in self._select("after_tool"):
            if not hook.applies_to(tool, arguments):
                continue
            fields = {
                **self._describe_call(call_id, tool, arguments),
                "result": result.text,
                "failed": result.failed,
                "exit_status": result.exit_status,
                "tool_response": {"text": result.text, "success": not result.failed},
            }
            response = self._run(hook, fields, tool.spec.name)
            reason = response.reason if response.decision == "deny" and not response.problem else ""
            texts += filter(None, (reason, response.context))
        return "\n".join(texts)

    def _select(self, event: HookEvent) -> list[PreparedHook]:
        return [hook for hook in self._hooks if hook.hook.event == event]

    def _describe_call(self, call_id: str, tool: Tool, arguments: Mapping[str, Any]) -> dict[str, Any]:
        name = tool.spec.name
        return {
            "tool": name,
            "arguments": dict(arguments),
            "tool_name": translate_tool_name(name, tool.origin),
            "tool_input": translate_arguments(name, arguments, self._context.directory),
            "tool_use_id": call_id,
        }

    def _run(self, hook: PreparedHook, fields: Mapping[str, Any], tool_name: str = "") -> HookResponse:
        """Run a hook's command; return its answer. What is wrong with it is reported to the user."""
        event = hook.hook.event
        message = {"event": event, "hook_event_name": CLAUDE_EVENTS[event], **self._description, **fields}
        context = self._context._replace(command_timeout=hook.hook.timeout, max_command_timeout=hook.hook.timeout)
        arguments = {"command": hook.hook.command, "input": json.dumps(message, ensure_ascii=False)}
        try:
            result = hook.run_command(arguments, context)
            output, _ = json.JSONDecoder().raw_decode(result.text)  # the sandbox may append a note
            response = parse_response(output["stdout"], output["stderr"], result.exit_status or 0, tool_name)
        except (ToolError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            reason = str(error) if isinstance(error, ToolError) else "the sandbox did not return its output"
            response = HookResponse("deny", f"the hook {hook.name} failed: {reason}", problem=reason)
        if response.problem:
            self._notify(f"the hook {hook.name} failed: {self._format(response.problem)}")
        if response.message:
            self._notify(f"the hook {hook.name}: {self._format(response.message)}")
        return response

    def _format(self, text: str) -> str:
        return format_one_line(self._redact(text), 500)
