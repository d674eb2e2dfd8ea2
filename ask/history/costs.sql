-- For the limit on the costs of a day: the time of runs, and the costs of requests that are in no run, added up by
-- periods of 15 minutes since 1970.

CREATE INDEX runs_by_time ON runs (started);
CREATE TABLE unsaved_costs (period INTEGER PRIMARY KEY, dollars REAL NOT NULL)
