"""A job: what is asked about each row, of which models, and where the answers go."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from copy import copy
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ask.agent.request import (
    RunRequest,
    add_models,
    check_attachments_supported,
    compose_message,
    prepare_without_message,
    read_files,
)
from ask.agent.system_prompt import build_system_prompt
from ask.agent.toolset import Toolset
from ask.app import AppContext
from ask.client.generated_files import save_generated_file
from ask.client.run_costs import require_price
from ask.config.options import RunOptions
from ask.config.settings import SAFE_OPTIONS, Settings
from ask.errors import AskError, UsageError
from ask.inputs.file_option import CLIPBOARD, FILE_URL_PATTERN, LOADER_PATTERN, WEB_PREFIXES, path_exists
from ask.map.input_rows import INDEX, LINE, PATH, Row
from ask.map.json_values import get_properties
from ask.map.ledger import Ledger, RowKey, RowResult
from ask.map.outages import Failure
from ask.map.output_target import check_output
from ask.map.shards import Shard, name_file
from ask.map.sqlite_table import SqliteTable
from ask.messages import EMPTY_MAPPING, Attachment, Message, Usage
from ask.parsing import parse_json
from ask.records import NamedTuple
from ask.templates.placeholders import COLUMN_PATTERN, INPUT_NAME, fill_placeholders, find_placeholders
from ask.text import format_suggestion, join_names
from ask.tools.file_names import normalize_name
from ask.tools.server_tools import get_server_tools

if TYPE_CHECKING:
    from ask.inputs.prompt_inputs import PromptInputs

DIGEST_BYTES = 16
BATCH_ROWS = 500
"""How many rows are looked up in the ledger together."""
BATCH_SECONDS = 0.5
"""The seconds after which the rows that are ready are answered, even if they are fewer."""
NO_KEY = RowKey(b"", 0)
MCP_SERVER_PATTERN = re.compile(r"mcp://[^/{]+/", re.IGNORECASE)
"""The part of the address of an MCP server's resource that names the server."""

SINGLE_BRACES_PATTERN = re.compile(r"(?<![\w{}\\])\{([^{}]+)\}")
"""A placeholder of other programs: {column} or ${column}, but not the escaped \\{{column}}, or \\textbf{column}."""


class RowTask(NamedTuple):
    """A row for one of the job's models.

    Attributes:
        position: the position of its output.
        columns: the columns of the input row.
        model_number: which of the job's models to ask.
        location: where its input row was read, as in "tickets.jsonl:7".
        message: what to send.
        key: its identity in the ledger; `NO_KEY` for a row that cannot be sent.
        stored_result: its result from an earlier run, or the error of a row that cannot be sent; None if it has none.
        attempts: how often it was sent and failed.
        refusals: how often it was refused by a rate limit.
        is_last_try: whether it has failed as often as it may, and is sent once more at the end.
        tries: how often it was sent in this run.
        usage: the tokens and the cost of the requests that failed, also in earlier runs.
    """

    position: int
    columns: Mapping[str, Any]
    model_number: int
    location: str = ""
    message: Message = Message("user")
    key: RowKey = NO_KEY
    stored_result: RowResult | None = None
    attempts: int = 1
    refusals: int = 0
    is_last_try: bool = False
    tries: int = 0
    usage: Usage = Usage()

    @property
    def can_be_sent(self) -> bool:
        return self.key != NO_KEY

    @property
    def is_retry(self) -> bool:
        """Whether it has failed because of the service."""
        return self.attempts > 1 or self.is_last_try


PreparedRow = tuple[int, Row, int, Message | RowResult]
"""The position of a row's output, the row, the number of its model, and its message or why it cannot be sent."""


class TaskResult(NamedTuple):
    """The result of a row, the error that it failed with, what it used, and the last response's headers.

    With an error, the result is the part of an answer that arrived; None if there is none.

    The usage is not in `result`: requests that fail use tokens, too. The names of the headers are in lowercase. `files`
    are the images that the model generated, which are not saved yet. `failure` says what the error concerns, if this is
    known better than from the error. `usages` has the usage of each request, if it is known, because long ones may cost
    more per token. `is_first_request` says whether the first request of the row failed, so that there were no others.
    """

    result: RowResult | None
    error: AskError | None = None
    usage: Usage = Usage()
    headers: Mapping[str, str] = EMPTY_MAPPING
    files: Sequence[Attachment] = ()
    failure: Failure | None = None
    usages: Sequence[Usage] = ()
    is_first_request: bool = False


class RowPrompt:
    """The prompt of a job.

    The text of a row, or the file that a row is, is added to a prompt that refers to no column.

    Args:
        text: the prompt.
        files: the values of `-f`, in which placeholders are filled in, too.
        values: the values of `--var`.
        inputs: what accompanies the prompt in every row; None for nothing.
        constant_names: the names of placeholders that the system prompt has, where no column can fill them in.
    """

    def __init__(
        self,
        text: str,
        files: Sequence[str] = (),
        values: Mapping[str, str] | None = None,
        inputs: PromptInputs | None = None,
        *,
        constant_names: frozenset[str] = frozenset(),
    ) -> None:
        self.text = text
        self.inputs = inputs
        self._files = files
        self._values = values or {}
        self._placeholders = [each for part in (text, *files) for each in find_placeholders(part, COLUMN_PATTERN)]
        self._column_names = {placeholder.name for placeholder in self._placeholders} - self._values.keys()
        self.uses_path = PATH in self._column_names
        self._constant_names = constant_names & self._column_names
        self._value_columns = [
            (column, name, value)
            for name, value in self._values.items()
            for column, _ in find_placeholders(value, COLUMN_PATTERN)
        ]
        """The columns that the values of `--var` seem to name."""
        self._labels: frozenset[str] = frozenset()

    def hide_labels(self, columns: Collection[str]) -> RowPrompt:
        """Return the prompt for rows with columns of labels, which rows must have and models must not see.

        Raises:
            UsageError: the prompt names one of them.
        """
        for name in columns:
            if name in self._column_names:
                problem = f"the prompt contains {{{{{name}}}}}, so the model would see the labels of --score"
                raise UsageError(problem, "remove it, or compare with another column")
        prompt = copy(self)
        prompt._labels = frozenset(columns)
        return prompt

    def check(self, row: Row) -> None:
        """Check the columns of a row.

        Raises:
            UsageError: it lacks one that a placeholder names, or one of labels, or has one for the system prompt.
        """
        self._check_constants(row)
        for name in re.findall(SINGLE_BRACES_PATTERN, self.text) if not self._placeholders else ():
            if name in row.columns:
                raise UsageError(f"{{{name}}} in the prompt would not be replaced", f"write {{{{{name}}}}}")
        for name in self._find_missing_columns(row):
            hint = format_suggestion(name, row.columns, f"the columns are {join_names(list(row.columns))}")
            if name == PATH and not row.is_file:
                hint += "; with --files, each file is a row"
            elif [*row.columns] == [LINE]:
                hint += "; to read a table, add --input-format jsonl, csv or another one"
                hint += "" if row.location.startswith("stdin:") else "; with -f {{path}}, each file is a row"
            for key, value in row.columns.items():
                if isinstance(value, list) and value and isinstance(value[0], dict) and name in value[0]:
                    command = f"jq -c '(arrays[] // .).{json.dumps(key)}[]?'"
                    hint = f"{key!r} is a list of rows that have it; {command} extracts them"
            raise UsageError(f"there is no column {name!r} in {row.location}", hint)

    def _check_constants(self, row: Row) -> None:
        """Raise `UsageError` if a row has a column for something that is the same in all rows."""
        for name in self._constant_names.intersection(row.columns):
            problem = f"the column {name!r} cannot fill in {{{{{name}}}}}, which the template's system prompt has, too"
            raise UsageError(problem, f"add --var {name}=VALUE for all rows, or write a prompt in place of -t")
        for column, name, value in self._value_columns:
            if column in row.columns:
                problem = f"--var {name} is the same for all rows, so {value!r} would not be replaced"
                raise UsageError(problem, f"write a prompt with {{{{{column}}}}} in place of -t")

    def has_columns(self, row: Row) -> bool:
        """Check that a row has every column of labels and that a placeholder without a default names."""
        return not self._find_missing_columns(row)

    def _find_missing_columns(self, row: Row) -> list[str]:
        known = {*self._get_columns(row), *self._values, INDEX, INPUT_NAME}
        missing = [name for name, default in self._placeholders if default is None and name not in known]
        return missing + [name for name in self._labels if name not in row.columns]

    def _get_columns(self, row: Row) -> Mapping[str, Any]:
        """Return the columns of a row, also by the name of a placeholder that looks the same as the only one's."""
        columns = row.columns
        for name in self._column_names.difference(row.columns):
            if not name.isascii() or " " in name:
                equivalents = [each for each in row.columns if normalize_name(each) == normalize_name(name)]
                if len(equivalents) == 1 and self._labels.isdisjoint(equivalents):
                    columns = {**columns, name: row.columns[equivalents[0]]}
        return columns

    def find_text_after_row(self) -> tuple[str, str]:
        """Return the first placeholder that differs between the rows, and the text after it without placeholders."""
        for match in COLUMN_PATTERN.finditer(self.text):
            escaped, name, _ = match.groups()
            if not escaped and name in self._column_names:
                return name, COLUMN_PATTERN.sub("", self.text[match.end() :])
        return "", ""

    def render(self, row: Row, index: int) -> tuple[str, list[str]]:
        """Return the prompt of a row, and the files to attach.

        Raises:
            KeyError: the row lacks a column.
            UsageError: the row names an MCP server, which only the user may start, or has a column for the system
                prompt.
        """
        self._check_constants(row)
        values: dict[str, Any] = {INDEX: index, **self._get_columns(row), **self._values}
        files = [_check_file(fill_placeholders(file, values, COLUMN_PATTERN), file) for file in self._files]
        row_text = ""
        if not self._column_names or (INPUT_NAME in self._column_names and INPUT_NAME not in row.columns):
            if row.is_file:  # not if a table has a column of that name: whoever has made it would choose what is read
                files.append(_check_file(str(row.columns[PATH])))
            else:
                row_text = self._format_row(row)
        values.setdefault(INPUT_NAME, row_text)
        text = fill_placeholders(self.text, values, COLUMN_PATTERN)
        if not self._column_names:
            text = "\n\n".join(filter(None, (text, row_text)))
        return text, files

    def _format_row(self, row: Row) -> str:
        """Return the text of a row, without its labels."""
        if row.text and not self._labels:
            return row.text
        columns = {name: value for name, value in row.columns.items() if name not in self._labels}
        return json.dumps(columns, ensure_ascii=False)


def _check_file(file: str, option: str = "") -> str:
    """Return a file to attach, which a row has filled in where `option`, the value of `-f`, has placeholders.

    Raises:
        UsageError: the row names an MCP server, which only the user may start, or a loader or the clipboard, or what
            no file can be named.
    """
    try:
        is_valid = b"\0" not in os.fsencode(file)
    except UnicodeEncodeError:  # from JSON, such as "\ud800"
        is_valid = False
    if not is_valid:
        raise UsageError("a row names a file with a character that no name of a file can contain")
    if MCP_SERVER_PATTERN.match(file) and not MCP_SERVER_PATTERN.match(option):
        raise UsageError("a row cannot name an MCP server", "write -f mcp://SERVER/{{column}}")
    loader = LOADER_PATTERN.match(file)
    if loader and not (
        option.startswith(f"{loader[1]}:")
        or file.startswith(WEB_PREFIXES)
        or FILE_URL_PATTERN.match(file)
        or (path_exists(file) and file != CLIPBOARD)
    ):
        raise UsageError("a row can name only files and URLs", f"write -f {loader[1]}:{{{{column}}}}")
    return file


class Job(NamedTuple):
    """A job, prepared before its rows are read.

    Attributes:
        prompt: the prompt, with placeholders.
        requests: the request for each model, without a message.
        system_prompts: the system prompt for each model.
        toolset: the MCP servers that files of rows may come from.
        output: the output file or table; None for standard output.
        id: the identity of the job in the ledger.
        app: the user's installation.
        shard: which of the rows are part of the job; None for all.
        shared_id: the identity that it shares with the other shards, and with the same job with another output.
    """

    prompt: RowPrompt
    requests: tuple[RunRequest, ...]
    system_prompts: tuple[str, ...]
    toolset: Toolset
    output: Path | SqliteTable | None
    id: str
    app: AppContext
    shard: Shard | None = None
    shared_id: str = ""

    @property
    def models(self) -> list[str]:
        """The models as `provider:model`, or the model's name alone if there is one."""
        if len(self.requests) == 1:
            return [self.requests[0].endpoint.model]
        return [request.endpoint.full_name for request in self.requests]

    def prepare_message(self, row: Row, number: int, model_number: int) -> Message | RowResult:
        """Return the message for a row and one of the models, or the result of a row that cannot be sent."""
        try:
            return self._create_message(row, number, model_number)
        except AskError as error:
            return RowResult("failed", error=f"{row.location}: {error}")

    def _create_message(self, row: Row, number: int, model_number: int) -> Message:
        """Return the message for a row.

        Raises:
            AskError: the row is invalid, has no column that the prompt needs, or a file of it cannot be sent.
        """
        if row.error:
            raise UsageError(row.error)
        try:
            text, files = self.prompt.render(row, number)
        except KeyError as error:
            raise UsageError(f"there is no column {error.args[0]!r}") from None
        if not files and self.prompt.inputs is None:
            if not text.strip():
                raise UsageError("the prompt is empty")
            return Message("user", text)
        request = self.requests[model_number]
        inputs = read_files(files, request, self.toolset, self.app)
        if self.prompt.inputs:
            inputs = self.prompt.inputs.merge(inputs)
        check_attachments_supported(inputs.attachments, request.endpoint)
        return compose_message(text, None, inputs.texts, inputs.stdin_text, inputs.attachments)


class JobOptions(NamedTuple):
    """The options of `ask map` that identify a job: with another value, it is another job.

    Attributes:
        run: the options of `ask` for its rows.
        prompt: the prompt; "" if it is that of a template.
        models: the models to ask; () for the default one.
        output: the output file; None for standard output.
        with_tools: whether the model may call tools.
        context: whether rows with tools get the project's instructions and skills.
        directory_template: the folder that each row gets a copy of; None to run in the current folder.
        shard: which of the rows are part of the job; None for all.
    """

    run: RunOptions
    prompt: str
    models: Sequence[str]
    output: str | None
    with_tools: bool
    context: bool
    directory_template: str | None
    shard: Shard | None = None


def prepare_job(options: JobOptions, app: AppContext) -> Job:
    """Resolve the prompt, the settings and the models of a job.

    Args:
        options: the options of `ask map`.
        app: the user's installation, whose `cleanup` is closed at the end of the job.

    Raises:
        AskError: an option or the configuration is invalid.
    """
    app.keeps_loader_processes = True  # a process for each row would take most of the time
    shard, output = options.shard, None
    if options.output:
        output = check_output(name_file(options.output, shard), app.app_dirs, app.notify)
    first_model, *other_models = options.models or (None,)
    prepared = prepare_without_message(options.run._replace(model=first_model), app, has_columns=True)
    first, template = prepared.request, prepared.template
    prompt_text = template.prompt if template else options.prompt
    values, inputs = (template.values, template.inputs) if template else ({}, None)
    constant_names = template.constant_names if template else frozenset[str]()
    prompt = RowPrompt(prompt_text, options.run.files, values, inputs, constant_names=constant_names)
    first = first._replace(
        endpoint=first.endpoint._replace(preconnection=None),
        settings=first.settings._replace(stream=False),
        fallbacks=(),  # the columns of a row name one model
    )
    requests = add_models(first, list(filter(None, other_models)), options.run, app)
    system_prompts = tuple(build_system_prompt(request, app.environment, ()) for request in requests)
    if first.settings.max_cost is not None or first.settings.max_cost_per_day is not None:
        for request in requests:
            if not request.endpoint.provider.info.reports_cost:
                require_price(app, request.endpoint, request.settings, makes_decisions=bool(request.questions))
    safe_option = get_safe_option(first.settings) if options.with_tools else ""
    identity: list[object] = [
        prompt_text,
        options.run.files,
        options.run.template,
        options.run.variables,
        first.extra_system_prompt,
        [[each.endpoint.provider_name, each.endpoint.model] for each in requests],
        sorted(first.settings.options.items(), key=lambda item: item[0]),
        first.response_schema.value if first.response_schema else None,
        [options.with_tools, safe_option, options.context, options.directory_template or ""],
    ]
    if first.questions:
        identity.append([question._asdict() for question in first.questions])
    server_tools = get_server_tools(first.settings)
    own_parts = [str(output or ""), *([server_tools] if server_tools else []), *([{"shard": shard}] if shard else [])]
    job_id, shared_id = _digest([*identity, *own_parts]), _digest([*identity, server_tools])
    return Job(prompt, requests, system_prompts, prepared.toolset, output, job_id, app, shard, shared_id)


def _digest(identity: object) -> str:
    data = json.dumps(identity, sort_keys=True, default=str).encode("utf-8", "replace")
    return blake2b(data, digest_size=6).hexdigest()


def save_row_files(job: Job, result: RowResult, files: Sequence[Attachment], number: int) -> RowResult:
    """Save the images of a row, and return its result with an answer that also has their names.

    An answer that matches a schema has no place for them: notices name them.

    Args:
        job: the job, with the folder.
        result: the result of the row.
        files: the images.
        number: the number of the row, from 1; names contain it.

    Raises:
        FileError: one cannot be written.
    """
    request = job.requests[0]
    notify = job.app.console.print_notice
    directory, settings, stem = request.directory, request.settings, f"image-{number}"
    paths = [save_generated_file(file, directory, settings, job.app, notify, stem=stem) for file in files]
    names = [path.name if path.parent == directory else str(path) for path in paths]
    if request.response_schema:
        for name in names:
            notify(f"saved {name} of row {number}")
        return result
    return result._replace(answer="\n".join(filter(None, (result.answer, *names))))


def get_safe_option(settings: Settings) -> str:
    """Return the option for the level of safe mode; "" without safe mode."""
    return SAFE_OPTIONS[settings.safe_level] if settings.safe else ""


def identify_rows(job: Job, ledger: Ledger, rows: Iterable[Row | None]) -> Iterator[RowTask | None]:
    """Yield a task for each row of the input and each model; None while no further row has arrived.

    None also follows rows that took long to make, because a loader or a server has their files.
    """
    batch: list[PreparedRow] = []
    position = row_count = 0
    deadline = time.monotonic() + BATCH_SECONDS
    for row in rows:
        if row is not None:
            number = job.shard.get_row_number(row_count) if job.shard else row_count + 1
            row_count += 1
            for model_number in range(len(job.requests)):
                batch.append((position, row, model_number, job.prepare_message(row, number, model_number)))
                position += 1
        is_slow = time.monotonic() > deadline
        if row is None or is_slow or len(batch) >= BATCH_ROWS:
            yield from _create_tasks(job, ledger, batch)
            if row is None or is_slow:
                yield None
            batch = []
            deadline = time.monotonic() + BATCH_SECONDS
    yield from _create_tasks(job, ledger, batch)


def _create_tasks(job: Job, ledger: Ledger, batch: Sequence[PreparedRow]) -> Iterator[RowTask]:
    """Yield the tasks of rows with their keys and results in the ledger."""
    digests = [_compute_digest(number, message) for _, _, number, message in batch if isinstance(message, Message)]
    schema = job.requests[0].response_schema
    checks = (_has_fields,) if schema and get_properties(schema.value) else ()
    had_damaged_results = ledger.damaged_results > 0
    found = iter(ledger.find_results(job.id, digests, *checks) if digests else ())
    if ledger.damaged_results and not had_damaged_results:
        job.app.console.print_warning(f"rows with damaged results in the ledger {ledger.file} are sent again")
    for position, row, model_number, message in batch:
        if isinstance(message, Message):
            yield RowTask(position, row.columns, model_number, row.location, message, *next(found))
        else:
            yield RowTask(position, row.columns, model_number, row.location, stored_result=message)


def _has_fields(answer: str) -> bool:
    """Check that an answer has the fields of a schema; an empty one, of which only images were kept, has none."""
    return not answer or isinstance(parse_json(answer, strict=True), dict)


def _compute_digest(model_number: int, message: Message) -> bytes:
    """Return what identifies a message to one of the models in the ledger."""
    digest = blake2b(f"{model_number}\0{message.content}".encode("utf-8", "replace"), digest_size=DIGEST_BYTES)
    for attachment in message.attachments:
        digest.update(blake2b(attachment.data).digest())
    return digest.digest()


def add_row_numbers(
    shard: Shard, tasks: Iterable[RowTask | None], column: str, model_count: int
) -> Iterator[RowTask | None]:
    """Yield the tasks of a shard with the number of their row in the input as the first column of their output."""
    for task in tasks:
        if task is None:
            yield None
        else:
            number = {column: shard.get_row_number(task.position // model_count)}
            yield task._replace(columns={**number, **task.columns, **number})
