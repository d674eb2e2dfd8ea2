-- The service tier of each answer, which decides its price, and input that OpenAI keeps for twelve hours.

ALTER TABLE runs ADD COLUMN cache_write_12h_tokens INTEGER;
ALTER TABLE runs ADD COLUMN service_tier TEXT;
ALTER TABLE messages ADD COLUMN cache_write_12h_tokens INTEGER;
ALTER TABLE messages ADD COLUMN service_tier TEXT
