-- Input that the provider wrote to its prompt cache. Runs of earlier versions have no counts.

ALTER TABLE runs ADD COLUMN cache_write_tokens INTEGER;
ALTER TABLE runs ADD COLUMN cache_write_1h_tokens INTEGER;
ALTER TABLE messages ADD COLUMN cache_write_tokens INTEGER;
ALTER TABLE messages ADD COLUMN cache_write_1h_tokens INTEGER
