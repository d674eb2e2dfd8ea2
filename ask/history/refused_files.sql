-- The SHA-256 digests of the files of earlier messages without which an answer's model answered, separated by spaces: its
-- service had refused a request with them.

ALTER TABLE messages ADD COLUMN refused_files TEXT NOT NULL DEFAULT ''
