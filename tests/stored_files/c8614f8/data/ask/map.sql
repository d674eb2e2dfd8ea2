BEGIN TRANSACTION;
CREATE TABLE batch_rows (
    tag TEXT NOT NULL REFERENCES batches (tag) ON DELETE CASCADE,
    number INTEGER NOT NULL,
    key BLOB NOT NULL,
    occurrence INTEGER NOT NULL,
    PRIMARY KEY (tag, number)
) WITHOUT ROWID;
CREATE TABLE batches (
    tag TEXT PRIMARY KEY,
    job TEXT NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
    batch TEXT NOT NULL,
    created REAL NOT NULL
);
CREATE TABLE costs (period INTEGER PRIMARY KEY, dollars REAL NOT NULL);
CREATE TABLE jobs (
    id TEXT PRIMARY KEY,
    created REAL NOT NULL,
    updated REAL NOT NULL,
    prompt TEXT NOT NULL,
    models TEXT NOT NULL,
    output TEXT NOT NULL
);
INSERT INTO "jobs" VALUES('1420b2184fdd',1.79592605437738108637e+09,1.79592605437738108637e+09,'Say {{line}}','test/model','');
CREATE TABLE results (
    job TEXT NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
    key BLOB NOT NULL,
    occurrence INTEGER NOT NULL,
    status TEXT NOT NULL,
    answer TEXT NOT NULL,
    finish_reason TEXT NOT NULL,
    input_tokens INTEGER,
    output_tokens INTEGER,
    cost REAL,
    error TEXT NOT NULL,
    patch TEXT NOT NULL,
    cached_tokens INTEGER,
    cache_write_tokens INTEGER,
    time REAL NOT NULL,
    citations TEXT NOT NULL DEFAULT '',
    latency REAL,
    tries INTEGER,
    PRIMARY KEY (job, key, occurrence)
) WITHOUT ROWID;
INSERT INTO "results" VALUES('1420b2184fdd',X'269E31341A37409A5DD960A4B78C21AB',0,'answered','answer to Say two','stop',10,5,NULL,'','',NULL,NULL,1.79592605499137258524e+09,'',1.81664100091438740491e-03,1);
INSERT INTO "results" VALUES('1420b2184fdd',X'3243D27A03F21478FD986B547D633341',0,'answered','answer to Say one','stop',10,5,NULL,'','',NULL,NULL,1.79592605498189878459e+09,'',1.2377446500067890156e-01,1);
CREATE TABLE reviews (
    output TEXT PRIMARY KEY,
    job TEXT NOT NULL REFERENCES jobs (id) ON DELETE CASCADE
);
CREATE TABLE shard_inputs (
    shard TEXT PRIMARY KEY REFERENCES jobs (id) ON DELETE CASCADE,
    job TEXT NOT NULL,
    row_count INTEGER NOT NULL,
    digest TEXT NOT NULL,
    failed_count INTEGER NOT NULL
);
CREATE INDEX batch_rows_by_key ON batch_rows (key, occurrence);
COMMIT;
PRAGMA application_id = 0;
PRAGMA user_version = 0;
