-- The tables of the first version.

CREATE TABLE conversations (
    number INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    title TEXT NOT NULL,
    created REAL NOT NULL,
    updated REAL NOT NULL
);
CREATE INDEX conversations_by_time ON conversations (updated);

-- A run is one command's part in a conversation. `compacts` is set where it wrote a summary: the number of the first
-- run that the summary does not stand for.
CREATE TABLE runs (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    conversation INTEGER NOT NULL REFERENCES conversations ON DELETE CASCADE,
    compacts INTEGER,
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
    cost REAL
);
CREATE INDEX runs_by_conversation ON runs (conversation);
CREATE INDEX runs_by_terminal ON runs (terminal, number);
CREATE INDEX runs_by_directory ON runs (directory, number);

CREATE TABLE messages (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    run INTEGER NOT NULL REFERENCES runs ON DELETE CASCADE,
    time REAL NOT NULL,
    role TEXT NOT NULL,
    content TEXT NOT NULL,
    tool_call_id TEXT NOT NULL,
    tool_name TEXT NOT NULL,
    provider_state TEXT,
    whole INTEGER NOT NULL,
    reasoning TEXT NOT NULL,
    finish TEXT NOT NULL,
    input_tokens INTEGER,
    output_tokens INTEGER,
    cached_tokens INTEGER,
    reasoning_tokens INTEGER,
    cost REAL
);
CREATE INDEX messages_by_run ON messages (run);

CREATE TABLE calls (
    message INTEGER NOT NULL REFERENCES messages ON DELETE CASCADE,
    place INTEGER NOT NULL,
    id TEXT NOT NULL,
    name TEXT NOT NULL,
    arguments TEXT NOT NULL,
    started REAL,
    seconds REAL,
    failed INTEGER,
    decision TEXT,
    rule TEXT,
    exit_status INTEGER,
    PRIMARY KEY (message, place)
) WITHOUT ROWID;

CREATE TABLE attachments (
    message INTEGER NOT NULL REFERENCES messages ON DELETE CASCADE,
    place INTEGER NOT NULL,
    name TEXT NOT NULL,
    media_type TEXT NOT NULL,
    data BLOB NOT NULL,
    PRIMARY KEY (message, place)
) WITHOUT ROWID;

CREATE VIEW searchable AS SELECT
    number,
    content,
    (SELECT group_concat(name || ' ' || arguments, char(10)) FROM calls WHERE message = messages.number) AS calls
FROM messages;
CREATE VIRTUAL TABLE texts USING fts5 (
    content, calls, content = 'searchable', content_rowid = 'number', tokenize = 'unicode61 remove_diacritics 2'
);
