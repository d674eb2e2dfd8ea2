-- Columns with the names that the code and the exports use.

ALTER TABLE runs RENAME COLUMN compacts TO first_kept_run;
ALTER TABLE messages RENAME COLUMN whole TO complete;
ALTER TABLE messages RENAME COLUMN finish TO finish_reason;
ALTER TABLE calls RENAME COLUMN place TO position;
ALTER TABLE attachments RENAME COLUMN place TO position
