-- The tables of the current version, for a new history. A change also needs a migration in `store.py`.

CREATE TABLE conversations (
    number INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    title TEXT NOT NULL,
    created REAL NOT NULL,
    updated REAL NOT NULL
);
CREATE INDEX conversations_by_time ON conversations (updated);

-- A run is one command's part in a conversation. `first_kept_run` is set where it wrote a summary: the number of
-- the first run that the summary does not stand for. `replaced_by` is the number of the run that replaced this one: its
-- message was edited or asked again. `status` says why the messages after its last answer are not sent as they are:
-- "refused" if the provider refused them, "merged" if an earlier version sent them together with the next question.
CREATE TABLE runs (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    conversation INTEGER NOT NULL REFERENCES conversations ON DELETE CASCADE,
    first_kept_run INTEGER,
    started REAL NOT NULL,
    ended REAL,
    version TEXT NOT NULL,
    provider TEXT NOT NULL,
    model TEXT NOT NULL,
    system TEXT NOT NULL,
    directory TEXT NOT NULL,
    terminal TEXT NOT NULL,
    exit_code INTEGER,
    error TEXT NOT NULL DEFAULT '',
    rounds INTEGER NOT NULL DEFAULT 0,
    input_tokens INTEGER,
    output_tokens INTEGER,
    cached_tokens INTEGER,
    reasoning_tokens INTEGER,
    cost REAL,
    replaced_by INTEGER,
    status TEXT NOT NULL DEFAULT '',
    cache_write_tokens INTEGER,
    cache_write_1h_tokens INTEGER,
    cache_write_12h_tokens INTEGER,
    service_tier TEXT
);
CREATE INDEX runs_by_conversation ON runs (conversation);
CREATE INDEX runs_by_terminal ON runs (terminal, number);
CREATE INDEX runs_by_directory ON runs (directory, number);
CREATE INDEX runs_by_time ON runs (started);

-- `provider` and `model` are those of an answer, if they are not those of its run: the run's own model could not answer.
-- `citations` and `server_calls` are JSON: the sources of an answer, and what the service's own tools did for it.
-- `refused_files` are the SHA-256 digests, separated by spaces, of the files of earlier messages without which the model
-- answered, because its service had refused a request with them.
CREATE TABLE messages (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    run INTEGER NOT NULL REFERENCES runs ON DELETE CASCADE,
    time REAL NOT NULL,
    role TEXT NOT NULL,
    content TEXT NOT NULL,
    tool_call_id TEXT NOT NULL,
    tool_name TEXT NOT NULL,
    provider_state TEXT,
    complete INTEGER NOT NULL,
    reasoning TEXT NOT NULL,
    finish_reason TEXT NOT NULL,
    input_tokens INTEGER,
    output_tokens INTEGER,
    cached_tokens INTEGER,
    reasoning_tokens INTEGER,
    cost REAL,
    provider TEXT NOT NULL DEFAULT '',
    model TEXT NOT NULL DEFAULT '',
    cache_write_tokens INTEGER,
    cache_write_1h_tokens INTEGER,
    cache_write_12h_tokens INTEGER,
    service_tier TEXT,
    citations TEXT,
    server_calls TEXT,
    refused_files TEXT NOT NULL DEFAULT ''
);
CREATE INDEX messages_by_run ON messages (run);
CREATE INDEX messages_by_fallback ON messages (run) WHERE model <> '';

CREATE TABLE calls (
    message INTEGER NOT NULL REFERENCES messages ON DELETE CASCADE,
    position INTEGER NOT NULL,
    id TEXT NOT NULL,
    name TEXT NOT NULL,
    arguments TEXT NOT NULL,
    started REAL,
    seconds REAL,
    failed INTEGER,
    decision TEXT,
    rule TEXT,
    exit_status INTEGER,
    PRIMARY KEY (message, position)
) WITHOUT ROWID;

-- The costs of requests that are in no run, added up by periods of 15 minutes since 1970.
CREATE TABLE unsaved_costs (period INTEGER PRIMARY KEY, dollars REAL NOT NULL);

CREATE TABLE attachments (
    message INTEGER NOT NULL REFERENCES messages ON DELETE CASCADE,
    position INTEGER NOT NULL,
    name TEXT NOT NULL,
    media_type TEXT NOT NULL,
    data BLOB NOT NULL,
    PRIMARY KEY (message, position)
) WITHOUT ROWID;
-- A search by the primary key compares complete rows, with the files. Most messages have none.
CREATE INDEX attachments_by_message ON attachments (message, position);

CREATE VIEW searchable AS SELECT
    number,
    content,
    (SELECT group_concat(name || ' ' || arguments, char(10)) FROM calls WHERE message = messages.number) AS calls
FROM messages;
CREATE VIRTUAL TABLE texts USING fts5 (
    content, calls, content = 'searchable', content_rowid = 'number', tokenize = 'unicode61 remove_diacritics 2'
);
