"""Backups of the files that a run changes, and how they are restored."""
