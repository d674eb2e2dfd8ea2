-- The messages that have attachments. A search by the primary key compares complete rows, with the files.

CREATE INDEX attachments_by_message ON attachments (message, position)
