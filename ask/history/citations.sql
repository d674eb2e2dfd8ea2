-- What a service's own tools did for an answer, and the sources of the answer, as JSON.

ALTER TABLE messages ADD COLUMN citations TEXT;
ALTER TABLE messages ADD COLUMN server_calls TEXT
