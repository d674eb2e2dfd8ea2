"""`ask acp`: an agent for editors by the Agent Client Protocol, with the official SDK.

Each prompt is a child process: of the tool `ask`, with an event session (`ask/cli/event_session.py`).
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from acp import (
    PROTOCOL_VERSION,
    RequestError,
    run_agent,
    schema,
    start_tool_call,
    update_agent_message,
    update_agent_message_text,
    update_agent_thought_text,
    update_user_message,
    update_user_message_text,
)
from acp.helpers import update_available_commands, update_current_mode

from ask import __version__
from ask.acp.prompt_content import PromptContent, read_prompt
from ask.acp.prompt_run import PromptCanceledError, PromptRun
from ask.acp.session import MODES, Session, to_server_table
from ask.acp.stdio import open_stdio
from ask.acp.tool_updates import build_edit, build_text, convert_attachments, describe_call
from ask.app import AppContext
from ask.client.citations import to_markdown
from ask.config.options import RunOptions
from ask.errors import AskError, SignalExit
from ask.history.entries import Run, generate_conversation_id, query_conversations, read_runs
from ask.history.listing import find_conversation_folders
from ask.history.saved_messages import ToolCallStep, list_shown_steps
from ask.history.store import Store
from ask.process.child_process import handle_signals
from ask.templates.template import read_all_templates

SESSIONS_PER_PAGE = 50
OWN_COMMANDS = {"model": ("Use another model in this session", "provider:model, a model or an alias")}


class AskAgent:
    """Serves the sessions of one editor.

    Args:
        options: the options of all prompts.
        app: the user's installation.
    """

    def __init__(self, options: RunOptions, app: AppContext) -> None:
        self._options = options
        self._app = app
        self._sessions: dict[str, Session] = {}
        self._editor: Any = None
        self._background: set[asyncio.Task[None]] = set()

    def on_connect(self, conn: Any) -> None:
        self._editor = conn

    async def initialize(self, protocol_version: int, **_: Any) -> schema.InitializeResponse:
        login = schema.AuthMethodAgent(
            id="keys", name="API key", description="Save an API key in a terminal: ask keys set PROVIDER"
        )
        return schema.InitializeResponse(
            protocol_version=PROTOCOL_VERSION,
            agent_info=schema.Implementation(name="ask", title="ask", version=__version__),
            auth_methods=[login],
            agent_capabilities=schema.AgentCapabilities(
                load_session=True,
                prompt_capabilities=schema.PromptCapabilities(image=True, audio=True, embedded_context=True),
                mcp_capabilities=schema.McpCapabilities(http=True, sse=True),
                session_capabilities=schema.SessionCapabilities(
                    list=schema.SessionListCapabilities(),
                    resume=schema.SessionResumeCapabilities(),
                    close=schema.SessionCloseCapabilities(),
                ),
            ),
        )

    async def authenticate(self, method_id: str, **_: Any) -> schema.AuthenticateResponse:
        """Do nothing: the keys are read again for each prompt."""
        return schema.AuthenticateResponse()

    async def new_session(
        self, cwd: str, mcp_servers: Sequence[Any] | None = None, **_: Any
    ) -> schema.NewSessionResponse:
        session = self._open_session(generate_conversation_id(), cwd, mcp_servers)
        return schema.NewSessionResponse(session_id=session.id, **self._describe(session))

    async def load_session(
        self, cwd: str, session_id: str, mcp_servers: Sequence[Any] | None = None, **_: Any
    ) -> schema.LoadSessionResponse:
        runs = self._read_runs(session_id)
        session = self._open_session(session_id, cwd, mcp_servers)
        for run in runs:
            for number, update in enumerate(_replay(run, session.directory)):
                if isinstance(update, schema.ToolCallStart):
                    update.tool_call_id = f"{run.number}-{number}"
                await self._editor.session_update(session_id, update)
        return schema.LoadSessionResponse(**self._describe(session))

    async def resume_session(
        self, session_id: str, cwd: str, mcp_servers: Sequence[Any] | None = None, **_: Any
    ) -> schema.ResumeSessionResponse:
        self._read_runs(session_id)
        return schema.ResumeSessionResponse(**self._describe(self._open_session(session_id, cwd, mcp_servers)))

    async def close_session(self, session_id: str, **_: Any) -> schema.CloseSessionResponse:
        await self.cancel(session_id)
        self._sessions.pop(session_id, None)
        return schema.CloseSessionResponse()

    async def list_sessions(
        self, cwd: str | None = None, cursor: str | None = None, **_: Any
    ) -> schema.ListSessionsResponse:
        if cursor and not (cursor.isdecimal() and len(cursor) < 10):
            raise _invalid(f"unknown cursor {cursor!r}")
        offset = int(cursor or 0)
        found: list[tuple[str, str, float, str]] = []
        if self._app.app_dirs.history_file.exists():
            directory = cwd and os.path.realpath(cwd)  # as it is saved
            with report_errors(), Store(self._app.app_dirs.history_file, create=False) as store:
                found = find_conversation_folders(store, directory, SESSIONS_PER_PAGE + 1, offset)
        sessions = [
            schema.SessionInfo(
                session_id=name,
                cwd=directory,
                title=title,
                updated_at=datetime.fromtimestamp(updated, UTC).isoformat(timespec="seconds"),
            )
            for name, title, updated, directory in found[:SESSIONS_PER_PAGE]
        ]
        next_cursor = str(offset + SESSIONS_PER_PAGE) if len(found) > SESSIONS_PER_PAGE else None
        return schema.ListSessionsResponse(sessions=sessions, next_cursor=next_cursor)

    async def set_session_mode(self, session_id: str, mode_id: str, **_: Any) -> schema.SetSessionModeResponse:
        session = self._get_session(session_id)
        _set_mode(session, mode_id)
        self._send_later(session, self._create_option_update(session))
        return schema.SetSessionModeResponse()

    async def set_config_option(
        self, config_id: str, session_id: str, value: Any, **_: Any
    ) -> schema.SetSessionConfigOptionResponse:
        session = self._get_session(session_id)
        if config_id == "mode":
            _set_mode(session, value)
            self._send_later(session, update_current_mode(session.mode))
        elif config_id == "model" and isinstance(value, str) and value:
            session.model = value
        else:
            raise _invalid(f"unknown option {config_id!r} or value {value!r}")
        return schema.SetSessionConfigOptionResponse(config_options=session.describe_options(self._list_models()))

    async def cancel(self, session_id: str, **_: Any) -> None:
        session = self._sessions.get(session_id)
        if session and session.prompt:
            session.is_canceled = True
            session.prompt.cancel()

    async def prompt(self, session_id: str, prompt: Sequence[Any], **_: Any) -> schema.PromptResponse:
        session = self._get_session(session_id)
        if session.prompt:
            raise RequestError(-32600, "the session is still answering a prompt; cancel it or wait for its end")
        session.is_canceled = False
        session.prompt = asyncio.create_task(self._answer(session, prompt))
        try:
            return await session.prompt
        except asyncio.CancelledError:
            if not session.is_canceled:
                raise
            return schema.PromptResponse(stop_reason="cancelled")
        except PromptCanceledError:
            return schema.PromptResponse(stop_reason="cancelled")
        except AskError as error:
            raise _invalid(str(error)) from None
        finally:
            session.prompt = None

    async def _answer(self, session: Session, blocks: Sequence[Any]) -> schema.PromptResponse:
        with tempfile.TemporaryDirectory(prefix="ask-acp-") as folder:
            content = read_prompt(blocks, Path(folder))
            name, _, rest = re.sub(r"\s", " ", content.text, count=1).partition(" ")
            template = None
            if name == "/model" and len(blocks) == 1:
                return await self._switch_model(session, rest.strip())
            if name.startswith("/") and name[1:] in self._list_templates():
                template, content = name[1:], PromptContent(rest.strip(), content.files)
            if not content.text.strip() and not content.files and not template:
                raise _invalid("the prompt is empty")
            options = session.build_options(self._options, is_saved=self._is_saved(session.id), template=template)
            return await PromptRun(self._editor, session.id, session.directory).run(options, content)

    async def _switch_model(self, session: Session, model: str) -> schema.PromptResponse:
        text = f"The model is {session.model}. /model NAME selects another."
        if model:
            session.model = model
            text = f"The model is now {model}."
            await self._editor.session_update(session.id, self._create_option_update(session))
        await self._editor.session_update(session.id, update_agent_message_text(text))
        return schema.PromptResponse(stop_reason="end_turn")

    def _open_session(self, session_id: str, cwd: str, mcp_servers: Sequence[Any] | None) -> Session:
        if not os.path.isabs(cwd) or not os.path.isdir(cwd):
            raise _invalid(f"cwd must be the absolute path of a folder, not {cwd!r}")
        if (open_session := self._sessions.get(session_id)) and open_session.prompt:
            raise _invalid("the session is still answering a prompt")
        session = Session(session_id, cwd, list(map(to_server_table, mcp_servers or ())))
        self._sessions[session_id] = session
        return session

    def _describe(self, session: Session) -> dict[str, Any]:
        """Return the fields of the response that opens a session. Its commands are sent after the response."""
        commands = [
            schema.AvailableCommand(
                name=name,
                description=text,
                input=schema.AvailableCommandInput(schema.UnstructuredCommandInput(hint=hint)),
            )
            for name, (text, hint) in (OWN_COMMANDS | self._list_templates()).items()
        ]
        self._send_later(session, update_available_commands(commands))
        return {"modes": session.describe_modes(), "config_options": session.describe_options(self._list_models())}

    def _send_later(self, session: Session, update: Any) -> None:
        """Send an update after the response to the current request."""

        async def send() -> None:
            with suppress(ConnectionError):  # the editor has ended
                await self._editor.session_update(session.id, update)

        task = asyncio.create_task(send())
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    def _create_option_update(self, session: Session) -> schema.ConfigOptionUpdate:
        options = session.describe_options(self._list_models())
        return schema.ConfigOptionUpdate(session_update="config_option_update", config_options=options)

    def _list_models(self) -> list[str]:
        with report_errors():
            return [*filter(None, (self._options.model,)), *self._app.config.aliases]

    def _list_templates(self) -> dict[str, tuple[str, str]]:
        templates = read_all_templates(self._app.app_dirs.templates, logging.warning)
        return {
            template.name: (template.description or f"The template {template.name}", "text")
            for template in templates
            if template.name not in OWN_COMMANDS
        }

    def _get_session(self, session_id: str) -> Session:
        if session_id not in self._sessions:
            raise _invalid(f"unknown session {session_id!r}; create or load it first")
        return self._sessions[session_id]

    def _is_saved(self, session_id: str) -> bool:
        with suppress(AskError):
            return bool(self._find_runs(session_id))
        return False

    def _read_runs(self, session_id: str) -> list[Run]:
        with report_errors():
            if runs := self._find_runs(session_id):
                return runs
        raise RequestError(RequestError.resource_not_found().code, f"no conversation {session_id!r}")

    def _find_runs(self, session_id: str) -> list[Run]:
        """Return the saved runs of a session; [] for none."""
        if not self._app.app_dirs.history_file.exists():
            return []
        with Store(self._app.app_dirs.history_file, create=False) as store:
            conversations = query_conversations(store, "WHERE id = ?", session_id)
            return [run for conversation in conversations for run in read_runs(store, conversation)]


@contextmanager
def report_errors() -> Iterator[None]:
    """Raise an error of ask as an error of the protocol."""
    try:
        yield
    except AskError as error:
        raise RequestError(-32603, str(error)) from None


def _set_mode(session: Session, mode: Any) -> None:
    if mode not in MODES:
        raise _invalid(f"unknown mode {mode!r}; known: {', '.join(MODES)}")
    session.mode = mode


def _invalid(text: str) -> RequestError:
    return RequestError(RequestError.invalid_params().code, text)


def _replay(run: Run, directory: str) -> Iterator[Any]:
    """Yield the updates that show a saved run again."""
    if run.first_kept_run is not None:  # it wrote a summary
        return
    for step in list_shown_steps(run.entries):
        if isinstance(step, ToolCallStep):
            call, is_error = step.record.call, step.message.is_error
            status: schema.ToolCallStatus = "failed" if is_error else "completed"
            description = describe_call(call.name, call.arguments, directory)
            content = [] if is_error else build_edit(call.name, call.arguments, directory)
            yield start_tool_call("", status=status, content=content or build_text(step.result), **description)
        elif step.message.role == "user":
            if step.message.content:
                yield update_user_message_text(step.message.content)
            yield from map(update_user_message, convert_attachments(step.message.attachments))
        elif step.message.role == "assistant":
            if step.reasoning:
                yield update_agent_thought_text(step.reasoning)
            if step.message.content:
                yield update_agent_message_text(to_markdown(step.message.content, step.citations))
            yield from map(update_agent_message, convert_attachments(step.message.attachments))


async def _serve(options: RunOptions, app: AppContext) -> int:
    """Serve until stdin is closed or a signal arrives; return the exit code."""
    agent: Any = AskAgent(options, app)
    transport = await open_stdio()
    serving = asyncio.create_task(run_agent(agent, transport, use_unstable_protocol=True))
    numbers: list[int] = []

    def stop(number: int) -> None:
        if not numbers:
            serving.cancel()
        numbers.append(number)

    handle_signals(stop)
    with suppress(asyncio.CancelledError):
        await serving  # ends when all prompts have ended
    return 128 + numbers[0] if numbers else 0


def _is_bug(record: logging.LogRecord) -> bool:
    """Check whether the SDK logs more than an invalid notification: some editors show stderr as an error."""
    return not (record.exc_info and isinstance(record.exc_info[1], RequestError | ValueError))


def serve(options: RunOptions, app: AppContext) -> None:
    """Serve on stdin and stdout until stdin is closed.

    Raises:
        SignalExit: a signal ended it.
    """
    handler = logging.StreamHandler()
    handler.addFilter(_is_bug)
    logging.basicConfig(format="ask: %(message)s", handlers=[handler])
    if code := asyncio.run(_serve(options, app)):
        raise SignalExit(code)
