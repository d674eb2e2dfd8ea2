"""Saved conversations, in one SQLite file: `store` keeps it, `recorder` writes a run, the others read."""
