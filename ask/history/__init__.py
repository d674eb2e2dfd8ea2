"""Saved conversations in one SQLite file: `store` opens it, `recorder` and `importer` write to it, the others read."""
