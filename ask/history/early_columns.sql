-- The columns of the first version, for a file of its first days.

ALTER TABLE messages RENAME COLUMN native TO provider_state;
ALTER TABLE messages ADD COLUMN reasoning_tokens INTEGER;
ALTER TABLE runs ADD COLUMN reasoning_tokens INTEGER
