-- The number of the run that replaced this one: its message was edited or asked again.

ALTER TABLE runs ADD COLUMN replaced_by INTEGER
