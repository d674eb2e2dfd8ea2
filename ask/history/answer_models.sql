-- The provider and model of an answer, if they are not those of its run: the run's own model could not answer.

ALTER TABLE messages ADD COLUMN provider TEXT NOT NULL DEFAULT '';
ALTER TABLE messages ADD COLUMN model TEXT NOT NULL DEFAULT '';
CREATE INDEX messages_by_fallback ON messages (run) WHERE model <> ''
