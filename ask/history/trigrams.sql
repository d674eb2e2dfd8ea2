-- An index of trigrams for the texts in scripts without spaces between words, and of emoji. It has only these texts, by
-- the ranges of `search_index.py` (45 is "-"), and no positions of the trigrams: both make it much smaller.
--
-- This script can run again. The view is missing if SQLite older than 3.34 has written to the file: it cannot update
-- the index, and drops the view.

DROP VIEW IF EXISTS trigram_texts;
DROP TABLE IF EXISTS trigrams;
CREATE VIEW trigram_texts AS
WITH unspaced(pattern) AS (
    SELECT '*[' || char(
        0x0E00, 45, 0x109F, 0x1100, 45, 0x11FF, 0x1780, 45, 0x17FF, 0x1950, 45, 0x1AAF,
        0x231A, 45, 0x23FF, 0x2600, 45, 0x27BF, 0x2B00, 45, 0x2BFF, 0x2E80, 45, 0xA4CF,
        0xA960, 45, 0xAADF, 0xAC00, 45, 0xD7FF, 0xF900, 45, 0xFAFF, 0xFE30, 45, 0xFE4F,
        0xFF00, 45, 0xFFEF, 0x16FE0, 45, 0x3FFFF
    ) || ']*'
)
SELECT number, content, calls FROM searchable, unspaced
WHERE (length(content) <> length(CAST(content AS BLOB)) AND content GLOB pattern) OR calls GLOB pattern;
CREATE VIRTUAL TABLE trigrams USING fts5 (
    content, calls, content = 'trigram_texts', content_rowid = 'number', tokenize = 'trigram', detail = none
);
INSERT INTO trigrams (rowid, content, calls) SELECT * FROM trigram_texts
